"""From results to evidence: arms, differences, verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from zoo.stats import Paired, Spread, holm, paired, spread
from zoo.store import Result, best_factor

LEVEL = 0.05


class ArmResults(NamedTuple):
    """The runs of one arm that count: one a seed, at the arm's learning rate."""

    id: str
    runs: tuple[Result, ...]  # by seed

    @property
    def first(self) -> Result:
        return self.runs[0]

    @property
    def diverged(self) -> int:
        return sum(run.status == "diverged" for run in self.runs)

    def losses(self) -> dict[int, float]:
        return {run.seed: run.loss for run in self.runs if run.status != "diverged" and math.isfinite(run.loss)}

    def spread(self) -> Spread:
        return spread(list(self.losses().values()))


class Comparison(NamedTuple):
    """A method against one of its baselines."""

    method: ArmResults
    baseline: ArmResults
    match: str
    difference: Paired
    p_holm: float
    verdict: str

    @property
    def name(self) -> str:
        return self.method.first.name


def arms(results: Sequence[Result]) -> dict[str, ArmResults]:
    """Results by arm."""
    by_arm: dict[str, list[Result]] = {}
    for result in results:
        by_arm.setdefault(result.arm, []).append(result)
    chosen = {}
    for arm, runs in by_arm.items():
        factor = best_factor(runs)
        kept = {run.seed: run for run in runs if run.lr_factor == factor}
        chosen[arm] = ArmResults(arm, tuple(kept[seed] for seed in sorted(kept)))
    return chosen


def compare(results: Sequence[Result]) -> list[Comparison]:
    """Every method against each of its baselines; p-values are corrected over the methods of a host and a kind of match."""
    found = arms(results)
    pairs = []
    for method in found.values():
        if method.first.match != "method":
            continue
        for match, id in method.first.baselines.items():
            if id in found:
                pairs.append((method, found[id], match))
    differences = [_difference(method, baseline) for method, baseline, _ in pairs]
    corrected = [math.nan] * len(pairs)
    families: dict[tuple[str, str], list[int]] = {}
    for i, (method, _, match) in enumerate(pairs):
        families.setdefault((method.first.host, match), []).append(i)
    for members in families.values():
        for i, p in zip(members, holm([differences[i].p for i in members]), strict=True):
            corrected[i] = p
    return [
        Comparison(method, baseline, match, difference, p, verdict(method, baseline, difference, p))
        for (method, baseline, match), difference, p in zip(pairs, differences, corrected, strict=True)
    ]


def _difference(method: ArmResults, baseline: ArmResults) -> Paired:
    ours, theirs = method.losses(), baseline.losses()
    seeds = sorted(ours.keys() & theirs.keys())
    return paired([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])


def verdict(method: ArmResults, baseline: ArmResults, difference: Paired, p: float) -> str:
    """better / worse / no difference shown / diverged / leaks"""
    if any(not run.causal or run.alarm for run in method.runs):
        return "leaks"
    if method.diverged:
        return "diverged"
    if difference.n < 2:
        return "one seed: no verdict"
    if p < LEVEL:
        return "better" if difference.mean < 0 else "worse"
    return "no difference shown"


class Twins(NamedTuple):
    """Two methods that are the same function: what differs between their runs is noise."""

    first: str
    second: str
    host: str
    difference: Paired


def twins(results: Sequence[Result], same: Sequence[tuple[str, str]]) -> list[Twins]:
    found = [arm for arm in arms(results).values() if arm.first.match == "method"]
    pairs = []
    for one, other in same:
        for a in found:
            for b in found:
                alike = (a.first.name, b.first.name, a.first.host) == (one, other, b.first.host)
                if alike and a.first.baselines == b.first.baselines:
                    pairs.append(Twins(one, other, a.first.host, _difference(a, b)))
    return pairs
