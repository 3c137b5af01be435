"""Which runs a ladder asks for, at the learning rates that the store tells by now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoo.bench.arms import Job
from zoo.bench.ladder_plan import OWN_RATE, Member, Role, Rung
from zoo.bench.learning_rates import best_rate
from zoo.bench.missing import missing_runs
from zoo.bench.rate_curves import widened
from zoo.bench.seeds import tuning_runs
from zoo.bench.store import Result, by_arm
from zoo.bench.suite import Suite
from zoo.bench.tied_rates import still_tied, tied_runs

GATE = 2  # rungs of the first gate: the smallest, where rates are chosen and looks are taken
AGREE = math.sqrt(2)  # two rungs whose rates differ by more make the next one try all rates too


class Planned(NamedTuple):
    """The runs of one arm at one rung."""

    rung: Rung
    member: Member
    tuning: list[Job]  # that choose its rate; none where it has that of the rungs below, or the plain block's
    judged: list[Job]

    @property
    def jobs(self) -> list[Job]:
        return [*self.tuning, *self.judged]


def planned_jobs(rungs: Sequence[Rung], suite: Suite, results: Mapping[str, Result], look: int) -> list[Planned]:
    """The runs of a host's rungs, with the seeds of a look at the smallest ones (0: without looks).

    Rates are chosen as a running ladder chooses them. An arm whose rates have not all been tried is planned at that of the rung
    below, at the smallest rung at the middle of the grid. Of rates that tie, the runs on the next further seed are planned.
    """
    of_arm = by_arm(results.values())
    chosen: dict[str, list[float]] = {}
    planned = []
    for rung in rungs:
        own = [member for member in rung.members if member.role in OWN_RATE]
        kept = {member.label: rate for member in own if (rate := kept_rate(member.role, chosen.get(member.label, ())))}
        trying = [member for member in own if member.label not in kept]
        deciding = [member for member in trying if member.role != "harm"]
        grid = widened([member.arm for member in deciding], suite, results.values())
        tuning = {member.label: tuning_runs([member.arm], grid) for member in trying}
        ties = {member.label: tied_runs(member.arm, grid, of_arm.get(member.arm.id, ())) for member in deciding}
        for member in own:
            if member.label in kept:
                rate = kept[member.label]
            elif missing_runs(tuning[member.label], results, again=False):
                rate = chosen.get(member.label, [suite.lrs[len(suite.lrs) // 2]])[-1]
            else:
                rate = best_rate(of_arm.get(member.arm.id, ()), member.arm, grid)
            chosen.setdefault(member.label, []).append(rate)
        for member in rung.members:
            rate = chosen[member.label if member in own else rung.plain.label][-1]
            seeds = at_look(member, look) if rung.number <= GATE else member
            choosing = [*tuning.get(member.label, []), *ties.get(member.label, [])]
            rates = [rate]
            if member.role == "plain" and member in trying and not missing_runs(choosing, results, again=False):
                rates += still_tied(member.arm, grid, of_arm.get(member.arm.id, ()))
            planned.append(Planned(rung, member, choosing, [job for each in rates for job in seeds.jobs(each)]))
    return planned


def kept_rate(role: Role, chosen: Sequence[float]) -> float | None:
    """The rate that an arm keeps, from those it chose at the rungs below; None: it tries all of them, here too.

    The harmful control keeps that of the second rung, whatever the first one's was: it must do harm, not as little as it can, and
    trying rates is what takes most of the time of a large rung.
    """
    if len(chosen) < GATE:
        return None
    one, other = chosen[-2:]
    if role == "harm":
        return other
    return None if max(one, other) / min(one, other) > AGREE else other


def at_look(member: Member, look: int) -> Member:
    """The arm with the seeds of a look: a method has as many, the plain block never fewer; without a look (0) its own."""
    if not look or member.role not in ("method", "plain"):
        return member
    count = look if member.role == "method" else max(look, len(member.seeds))
    return member._replace(seeds=tuple(range(1, count + 1)))
