"""A report as plain data, for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from zoo.bench.step_costs import Ratio
from zoo.report.beside_loss import with_plain
from zoo.report.findings import Findings
from zoo.report.ladder_results import ArmAtRung, LadderFindings, LadderRow, RungResults
from zoo.report.standings import AtSize, Standing, standings
from zoo.report.verdicts import Comparison
from zoo.scaling.multiplier import Estimate, Multiplier, Overall
from zoo.statistics.difference import Difference


def as_dict(report: Findings) -> dict[str, Any]:
    """Verdicts, arms, ladders and downstream figures of a report; what is not known is null."""
    return {
        "comparisons": [_comparison(c) for c in report.comparisons],
        "arms": [
            {
                "arm": arm.id,
                "name": arm.first.name,
                "match": arm.first.match,
                "host": arm.first.host,
                "seeds": [run.seed for run in arm.runs],
                "losses": {str(seed): loss for seed, loss in arm.losses(arm.split).items()},
                "split": arm.split,
                "parameters": arm.first.parameters,
                "flops": arm.first.flops,
                "diverged": arm.diverged,
            }
            for arm in report.arms
        ],
        "ladders": [_ladder(each, report) for each in report.ladders],
        "downstream": [
            {
                **_who(each.comparison),
                "task": each.task,
                "items": each.items,
                "figure": each.measure,
                "better": each.better,
                "method_mean": _number(each.means[0]),
                "baseline_mean": _number(each.means[1]),
                **_difference(each.difference),
                "outcome": each.verdict,
            }
            for each in report.downstream
        ],
    }


def _comparison(c: Comparison) -> dict[str, Any]:
    ours, theirs = c.means()
    return {
        **_who(c),
        "split": c.split,
        "method_loss": _number(ours),
        "baseline_loss": _number(theirs),
        **_difference(c.difference),
        "p_dunnett": _number(c.p_adjusted),
        "detectable": _number(c.detectable),
        "margin": _number(c.margin),
        "level": c.levels.different,
        **_beside_loss(c),
        "verdict": c.verdict,
    }


def _ladder(ladder: LadderFindings, report: Findings) -> dict[str, Any]:
    rows = {each.name: each for each in standings(report) if each.key == ladder.key}
    compared = with_plain(report.comparisons)
    return {
        "ladder": ladder.name,
        "host": ladder.host,
        "margin": ladder.margin,
        "rungs": [_rung(each) for each in ladder.rungs],
        "rows": [_row(row, rows[row.label], compared) for row in ladder.rows],
        "predictions": [
            {
                "arm": each.prediction.label,
                "depth": each.prediction.depth,
                **{name: _number(getattr(each.prediction, name)) for name in ("loss", "low", "high")},
                "measured": _number(each.loss),
                "registered": each.prediction.registered,
            }
            for each in ladder.outcomes
        ],
    }


def _rung(rung: RungResults) -> dict[str, Any]:
    return {
        "depth": rung.depth,
        "parameters": rung.parameters,
        "tokens": rung.tokens,
        "plain_loss": rung.plain_loss,
        "split": rung.split,
        "noise": _number(rung.noise.deviation),
        "noise_degrees": _number(rung.noise.degrees),
        "own_noise": {label: _number(noise.deviation) for label, noise in rung.own_noise.items()},
        "loss_per_e_fold": _number(rung.slope),
        "loss_per_e_fold_error": _number(rung.slope_error),
        "loss_per_e_fold_of_tokens": _number(rung.data_slope),
    }


def _row(row: LadderRow, standing: Standing, compared: Mapping[str, Comparison]) -> dict[str, Any]:
    """An arm of a ladder: its multipliers, what they were judged by, its costs at its largest size, and each size."""
    largest = standing.sizes[-1]
    return {
        "arm": row.label,
        "role": row.role,
        "verdict": row.verdict,
        **{name: _kappa(of) for name, of in (("kappa", row.compute), ("time", row.time), ("data", row.data))},
        "p": _number(row.compute.log.p) if row.compute else None,
        "level": row.levels.different,
        "trend": _estimate(row.compute.trend) if row.compute else None,
        "kappa_at_100_times_the_top": _multiplier(row.far),
        "costs": {
            "parameters": _number(standing.cost.parameters),
            "flops": _number(standing.cost.flops),
            "time": _ratio(standing.cost.time),
            **_measured_costs(compared.get(largest.arm), largest.plain_arm),
        },
        "by_rung": [_at_rung(at, compared.get(size.arm)) for at, size in _at_sizes(row, standing)],
    }


def _at_sizes(row: LadderRow, standing: Standing) -> list[tuple[ArmAtRung, AtSize]]:
    """The rungs at which the arm has a loss."""
    sizes = {size.rung: size for size in standing.sizes}
    return [(at, sizes[at.rung]) for at in row.rungs]


def _at_rung(at: ArmAtRung, c: Comparison | None) -> dict[str, Any]:
    return {
        "rung": at.rung,
        "seeds": at.n,
        "loss": at.loss,
        "difference": _estimate(at.difference),
        "kappa": _kappa(at.compute),
        "time": _kappa(at.time),
        "data": _kappa(at.data),
        **(_beside_loss(c) if c else {"accuracy": None, "bits_per_byte": None}),
        "p_dunnett": _number(c.p_adjusted) if c else None,
    }


def _measured_costs(c: Comparison | None, plain_arm: str) -> dict[str, Any]:
    """What was measured in turns with the plain block's, as ratios; of the state, bytes per token of both."""
    cost = c.method.cost if c and c.method.cost and c.method.cost.plain == plain_arm else None
    return {
        "evaluation": _ratio(cost.evaluation_ratio if cost else None),
        "decoding": _ratio(cost.decoding_ratio if cost else None),
        "memory": cost.memory_ratio if cost else None,
        "state": list(cost.state) if cost and cost.state else None,
    }


def _beside_loss(c: Comparison) -> dict[str, Any]:
    """The differences in accuracy and bits per byte on the validation split, each with its 95 % interval."""
    figures = (("accuracy", c.accuracy), ("bits_per_byte", c.bits_per_byte))
    return {name: _interval(d.mean, *d.interval()) for name, d in figures}


def _estimate(of: Estimate) -> dict[str, float | None] | None:
    return _interval(of.value, *of.interval())


def _ratio(of: Ratio | None) -> dict[str, float | None] | None:
    return _interval(*of) if of else None


def _interval(value: float, low: float, high: float) -> dict[str, float | None] | None:
    """A figure with its 95 % interval; null where it is not known."""
    if math.isnan(value):
        return None
    return {"value": _number(value), "low": _number(low), "high": _number(high)}


def _kappa(of: Multiplier | Overall | None) -> dict[str, float | None] | None:
    """A multiplier with its 95 % interval."""
    return _multiplier(of.log) if of else None


def _multiplier(log: Estimate) -> dict[str, float | None] | None:
    """κ with its 95 % interval, from its logarithm."""
    if math.isnan(log.value):
        return None
    low, high = log.interval()
    return {"value": _exp(log.value), "low": _exp(low), "high": _exp(high)}


def _exp(value: float) -> float | None:
    return _number(math.exp(value)) if value < 700 else None  # beyond what a float holds


def _who(c: Comparison) -> dict[str, str]:
    return {"method": c.name, "match": c.match, "suite": c.suite, "host": c.method.first.host, "arm": c.method.id}


def _difference(d: Difference) -> dict[str, Any]:
    figures = {"difference": d.mean, "low": d.low, "high": d.high, "p": d.p}
    return {"seeds": d.n, "baseline_seeds": d.n_other, **{name: _number(value) for name, value in figures.items()}}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
