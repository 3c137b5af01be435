"""The tables of a ladder."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zoo.report.cell_texts import number_text
from zoo.report.ladder_results import LadderFindings, LadderRow, RungResults
from zoo.scaling.ladder_verdicts import SINGLE, VERDICTS
from zoo.scaling.multiplier import Estimate, Overall
from zoo.scaling.noise import WIDE
from zoo.system.table import Table

ROLES = {
    "other seeds": "control: κ = 1",
    "more tokens": "control: κ_data = 1.10",
    "gain": "control: a known gain",
    "harm": "control: a known harm",
    "method": "method",
}
UNKNOWN = "–"
KAPPA = "how many times the method's compute the plain block needs for the method's loss: at 1.10 it needs 10 % more"


def ladder_tables(ladders: Sequence[LadderFindings]) -> list[Table]:
    """What every ladder says: of each arm over all rungs, of each rung, of each arm at each rung, of its predictions."""
    tables = []
    for ladder in ladders:
        tables += [kappa_table(ladder), rung_table(ladder), by_rung_table(ladder)]
        if ladder.outcomes:
            tables.append(prediction_table(ladder))
    return tables


def title(ladder: LadderFindings) -> str:
    """The ladder's name, host and sizes."""
    sizes = " to ".join(f"{rung.parameters / 1e6:.3g}" for rung in (ladder.rungs[0], ladder.rungs[-1]))
    return (
        f"ladder {ladder.name}, {ladder.host} host, {len(ladder.rungs)} rungs, {sizes} M parameters without embeddings"
    )


def kappa_table(ladder: LadderFindings) -> Table:
    """A row per arm: κ over all rungs, its trend, its projection, the verdict; methods first, the best of them first."""

    def order(row: LadderRow) -> tuple[bool, float]:
        return row.role != "method", -(row.compute.log.value if row.compute else -math.inf)

    rows = []
    for row in sorted(ladder.rows, key=order):
        rows.append(
            {
                "arm": row.label,
                "what": ROLES.get(row.role, row.role),
                "rungs": str(len(row.rungs)),
                "κ": _kappa(row.compute),
                "95 %": _interval(row.compute),
                "κ_time": _kappa(row.time),
                "95 % (time)": _interval(row.time),
                "κ_data": _kappa(row.data),
                "95 % (data)": _interval(row.data),
                "trend per e-fold": _trend(row.compute),
                "κ at 100 × the top": _projection(row.far),
                "p": number_text(row.compute.log.p, ".2g") if row.compute else UNKNOWN,
                "level": f"{row.levels.different:.2g}",
                "verdict": row.verdict,
            }
        )
    brief = ("arm", "what", "κ", "95 %", "κ_time", "κ_data", "verdict")
    return Table.of(f"Compute multipliers, {title(ladder)}", rows, brief)


def rung_table(ladder: LadderFindings) -> Table:
    """A row per rung: size, compute, the plain block's loss, noise, and what compute and tokens are worth."""
    rows = [
        {
            "rung": f"{rung.number}",
            "depth": f"{rung.depth}",
            "N": f"{rung.parameters:,}",
            "tokens": f"{rung.tokens:,}",
            "FLOPs": f"{math.exp(rung.x):.3g}",
            "plain loss": f"{rung.plain_loss:.4f}",
            "split": rung.split,
            "noise": number_text(rung.noise.deviation, ".4f"),
            "degrees": number_text(rung.noise.degrees, ".0f"),
            "with a noise of their own": _own_noise(rung),
            "loss per e-fold of compute": f"{number_text(rung.slope, '.3f')} ± {number_text(rung.slope_error, '.3f')}",
            "per e-fold of tokens": number_text(rung.data_slope, ".3f"),
        }
        for rung in ladder.rungs
    ]
    brief = ("rung", "depth", "N", "tokens", "plain loss", "noise", "loss per e-fold of compute")
    return Table.of(f"Rungs, {title(ladder)}", rows, brief)


def _own_noise(rung: RungResults) -> str:
    each = [f"{label} {number_text(noise.deviation, '.4f')}" for label, noise in rung.own_noise.items()]
    return ", ".join(each) or "none"


def by_rung_table(ladder: LadderFindings) -> Table:
    """κ of every arm at every rung: κ against compute, in figures."""
    rows = []
    for row in ladder.rows:
        for at in row.rungs:
            rows.append(
                {
                    "arm": row.label,
                    "rung": f"{at.rung}",
                    "n": f"{at.n}",
                    "loss": f"{at.loss:.4f}",
                    "difference": f"{at.difference.value:+.4f} ± {number_text(at.difference.error, '.4f')}",
                    "κ": _kappa_of(at.compute.log),
                    "95 %": _interval_of(at.compute.log),
                    "κ_time": _kappa_of(at.time.log) if at.time else UNKNOWN,
                    "κ_data": _kappa_of(at.data.log) if at.data else UNKNOWN,
                }
            )
    return Table.of(f"κ by rung, {title(ladder)}", rows, ("arm", "rung", "n", "difference", "κ", "95 %"))


def prediction_table(ladder: LadderFindings) -> Table:
    """What was registered of the top rung before it was run, what came of it, and the error."""
    rows = []
    for outcome in ladder.outcomes:
        p, over = outcome.prediction, not math.isnan(outcome.loss)
        rows.append(
            {
                "arm": p.label,
                "depth": f"{p.depth}",
                "registered": p.registered,
                "from": f"{p.runs} runs",
                "predicted": f"{p.loss:.4f}",
                "95 %": f"{p.low:.4f} … {p.high:.4f}",
                "outcome": f"{outcome.loss:.4f}" if over else "not run yet",
                "error": f"{outcome.error:+.4f}" if over else UNKNOWN,
                "inside": ("yes" if outcome.inside else "no") if over else UNKNOWN,
            }
        )
    return Table.of(
        f"Predictions of the top rung, {title(ladder)}", rows, ("arm", "predicted", "95 %", "outcome", "error")
    )


def ladder_legend(ladders: Sequence[LadderFindings]) -> list[tuple[str, str]]:
    """What the words of a ladder's tables mean; nothing without a ladder."""
    if not ladders:
        return []
    margins = ", ".join(sorted({f"{ladder.margin:g}" for ladder in ladders}))
    verdicts = "; ".join(f"*{word}*: {text}" for word, text in VERDICTS.items())
    return [
        (
            "κ",
            f"{KAPPA}. κ_time counts seconds in place of FLOPs, κ_data tokens at the same size, over the"
            " rungs whose plain block was run with three budgets of tokens or more.",
        ),
        ("trend per e-fold", "the change of ln κ where compute is multiplied by 2.72."),
        (
            "noise",
            "the deviation of runs that differ in their seed alone, pooled over the arms of a rung. An arm whose runs scatter"
            f" more than those of the others (F tests, {WIDE:.0%} for all of them) is not in the pool, and has a noise of its"
            " own.",
        ),
        (
            "verdict of a ladder",
            f"{verdicts}. Intervals are over all rungs: 95 % ones, that of *the same* {1 - SINGLE.same:.0%}; the margin"
            f" {margins}. Intervals shown are always 95 %.",
        ),
        (
            "p, level",
            "p of κ being 1, of this arm alone, and what it must be below for *helps* or *hurts*: 5 %, and under looks"
            " (`ladder.looks`) the level of the look that the method's seeds at the smallest rungs have come to, of the last one"
            " above them. At an early look an arm may be open although its 95 % interval excludes 1: three looks at 5 % each"
            " would give one method in ten without any effect a verdict.",
        ),
    ]


def _kappa(overall: Overall | None) -> str:
    return _kappa_of(overall.log) if overall else UNKNOWN


def _kappa_of(log: Estimate) -> str:
    return number_text(_exp(log.value), ".3f")


def _interval(overall: Overall | None) -> str:
    return _interval_of(overall.log) if overall else UNKNOWN


def _interval_of(log: Estimate) -> str:
    low, high = log.interval()
    return f"{number_text(_exp(low), '.3f')} … {number_text(_exp(high), '.3f')}"


def _trend(overall: Overall | None) -> str:
    if overall is None or math.isnan(overall.trend.value):
        return UNKNOWN
    low, high = overall.trend.interval()
    return f"{overall.trend.value:+.3f} ({low:+.3f} … {high:+.3f})"


def _projection(log: Estimate) -> str:
    return UNKNOWN if math.isnan(log.value) else f"{_kappa_of(log)} ({_interval_of(log)})"


def _exp(log: float) -> float:
    """κ of its logarithm; infinite where a float cannot hold it."""
    return math.exp(log) if log < 700 else math.inf
