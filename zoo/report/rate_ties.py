"""Where chance chose the plain block's learning rate, and methods took the other one."""

from __future__ import annotations

import math
from collections.abc import Mapping

from zoo.bench.rate_curves import rate_curve
from zoo.report.arm_results import ArmResults
from zoo.report.findings import Findings
from zoo.report.ladder_results import LadderFindings, LadderRow, OtherRate, RungResults
from zoo.report.overview import Remark, size_text


def rate_ties(report: Findings) -> Remark | None:
    """Where two rates of the plain block tie: what κ would be at the other one, else which methods took it."""
    by_arm = {arm.id: arm for arm in report.arms}
    judged = {(ladder.key, other.rung) for ladder in report.ladders for other in ladder.other_rates}
    rungs = [
        (ladder, rung) for ladder in report.ladders for rung in ladder.rungs if (ladder.key, rung.number) not in judged
    ]
    said = [sentence for ladder, rung in rungs if (sentence := _tie(ladder, rung, by_arm))]
    part = ["Part of the κ of these methods may be due to the rate."] if said else []
    instead = [(ladder, other) for ladder in report.ladders for other in ladder.other_rates]
    if not instead and not said:
        return None
    short = "learning rates of the plain block tie within chance"
    if instead:
        changed = sorted({row.label for ladder, other in instead for row in _changed(ladder, other)})
        short += f"; at the other one {', '.join(changed) if changed else 'no method'} would have another verdict"
    return Remark(short, " ".join([*(_instead(ladder, other) for ladder, other in instead), *said, *part]))


def _judged(other: OtherRate) -> list[LadderRow]:
    return [row for row in other.rows if row.role in ("method", "gain", "harm")]


def _changed(ladder: LadderFindings, other: OtherRate) -> list[LadderRow]:
    """The methods that would have another verdict at another rate of the plain block."""
    before = {row.label: row.verdict for row in ladder.rows}
    return [row for row in _judged(other) if row.verdict != before.get(row.label)]


def _instead(ladder: LadderFindings, other: OtherRate) -> str:
    """What κ would be at another rate of the plain block that ties with its own."""
    rung = next(each for each in ladder.rungs if each.number == other.rung)
    before = {row.label: row.verdict for row in ladder.rows}
    rows, changed = _judged(other), _changed(ladder, other)
    here = [row for row in rows if any(each.rung == other.rung for each in row.rungs)]
    kappas = [f"{row.label} {_overall(row)}" for row in rows if row in (*here, *changed) and row.compute]
    verdicts = [f"{row.label} {row.verdict} in place of {before.get(row.label)}" for row in changed]
    changes = f"verdicts would change: {', '.join(verdicts)}" if verdicts else "no verdict would change"
    own = rung.plain.noted.factor
    return (
        f"{_place(ladder, rung)}: two learning rates of the plain block tie on the seeds that choose, so it was judged at both."
        f" Its loss is {rung.plain_loss:.4f} at × {own:g}, on which the verdicts rest, and {other.plain_loss:.4f} at"
        f" × {other.factor:g}, with which κ over all rungs would be: {', '.join(kappas) or 'as it is'}; {changes}."
    )


def _place(ladder: LadderFindings, rung: RungResults) -> str:
    return f"Rung {rung.number} of {ladder.name} ({size_text(rung.parameters)} parameters), {ladder.host} host"


def _overall(row: LadderRow) -> str:
    """κ over all rungs with its interval."""
    assert row.compute is not None
    log = row.compute.log
    low, high = log.interval()
    return f"{math.exp(log.value):.2f} ({math.exp(low):.2f} … {math.exp(high):.2f})"


def _tie(ladder: LadderFindings, rung: RungResults, by_arm: Mapping[str, ArmResults]) -> str:
    plain = rung.plain.noted
    curve = rate_curve(by_arm[plain.arm].tried) if plain.arm in by_arm else None
    points = {point.factor: point for point in curve.points if math.isfinite(point.loss)} if curve else {}
    if plain.factor not in points:
        return ""
    own = points.pop(plain.factor)
    apart = {factor: abs(point.loss - own.loss) for factor, point in points.items()}
    chance = {
        factor: rung.noise.deviation * math.sqrt(1 / own.seeds + 1 / point.seeds) for factor, point in points.items()
    }
    rivals = [runs.noted for runs in rung.arms.values() if runs.noted.role in ("method", "gain")]
    others = [each for each in rivals if each.factor in apart and apart[each.factor] < chance[each.factor]]
    if not others:
        return ""
    nearest = min({each.factor for each in others}, key=lambda factor: apart[factor])
    names, near = ", ".join(each.label for each in others), f"{apart[nearest]:.4f} nats apart"
    seeds = "one seed that chooses" if points[nearest].seeds == own.seeds == 1 else "seeds that choose"
    return (
        f"{_place(ladder, rung)}: the plain block took"
        f" its learning rate × {plain.factor:g}, and {names} took another one, as good for the plain block within chance: on the"
        f" {seeds}, its losses at × {plain.factor:g} and × {nearest:g} are {near}, and chance alone may part them by"
        f" {chance[nearest]:.4f}."
    )
