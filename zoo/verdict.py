"""From results to evidence: arms, differences, verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from zoo.stats import Paired, Spread, detectable, holm, paired, spread
from zoo.store import Result, best_factor

LEVEL = 0.05
Split = Literal["test", "validation"]


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

    @property
    def split(self) -> Split:
        """The test split, once all runs have been there."""
        return "test" if all(run.test_loss is not None for run in self.finished) else "validation"

    def losses(self, split: Split) -> dict[int, float]:
        """By seed."""
        found = {run.seed: run.test_loss if split == "test" else run.valid_loss for run in self.finished}
        return {seed: loss for seed, loss in found.items() if loss is not None and math.isfinite(loss)}

    @property
    def finished(self) -> list[Result]:
        return [run for run in self.runs if run.status != "diverged"]

    def spread(self, split: Split | None = None) -> Spread:
        return spread(list(self.losses(split or self.split).values()))


class Comparison(NamedTuple):
    """A method against one of its baselines."""

    method: ArmResults
    baseline: ArmResults
    match: str
    suite: str  # that the method was judged in
    difference: Paired
    p_holm: float
    detectable: float  # the smallest true difference that these seeds would have shown four times of five
    verdict: str
    provisional: bool  # on the validation split, while others have been on the test split

    @property
    def name(self) -> str:
        return self.method.first.name

    @property
    def split(self) -> Split:
        return common_split(self.method, self.baseline)


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


def compare(results: Sequence[Result], suites: Mapping[str, str] | None = None) -> list[Comparison]:
    """Every method against each of its baselines.

    p-values are corrected over the methods of a suite (`suites`: method → suite), a host and a kind of match.
    """
    found = arms(results)
    pairs = []
    for method in found.values():
        if method.first.match != "method":
            continue
        plain = method.first.baselines.get("none")
        for match, id in method.first.baselines.items():
            if id in found and (match == "none" or id != plain):  # the plain block may be matched already: asked once
                pairs.append((method, found[id], match))
    differences = [difference(method, baseline) for method, baseline, _ in pairs]
    of = [(suites or {}).get(method.first.name, "") for method, _, _ in pairs]
    corrected, shown = [math.nan] * len(pairs), [math.nan] * len(pairs)
    families: dict[tuple[str, str, str], list[int]] = {}
    for i, (method, _, match) in enumerate(pairs):
        families.setdefault((of[i], method.first.host, match), []).append(i)
    for members in families.values():
        for i, p in zip(members, holm([differences[i].p for i in members]), strict=True):
            corrected[i] = p
        asked = sum(differences[i].n > 1 for i in members)
        for i in members:
            shown[i] = detectable(differences[i].n, differences[i].deviation, asked)
    tested = any(result.test_loss is not None for result in results)
    return [
        Comparison(
            method, baseline, match, suite, d, p, least, verdict(method, baseline, d, p),
            tested and common_split(method, baseline) != "test",
        )
        for (method, baseline, match), suite, d, p, least in zip(
            pairs, of, differences, corrected, shown, strict=True
        )
    ]  # fmt: skip


def difference(method: ArmResults, baseline: ArmResults) -> Paired:
    """Of the losses on one split, over the seeds that both have."""
    split = common_split(method, baseline)
    ours, theirs = method.losses(split), baseline.losses(split)
    seeds = sorted(ours.keys() & theirs.keys())
    return paired([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds])


def common_split(*arms: ArmResults) -> Split:
    """What they are compared on: an interrupted bench leaves arms that have not been on the test split yet."""
    return "test" if all(arm.split == "test" for arm in arms) else "validation"


def verdict(method: ArmResults, baseline: ArmResults, difference: Paired, p: float) -> str:
    """better / worse / no difference shown / diverged / leaks"""
    if leaks(method):
        return "leaks"
    if method.diverged:
        return "diverged"
    if difference.n < 2:
        return "one seed: no verdict" if difference.n else "no seed that both finished: no verdict"
    if p < LEVEL:
        return "better" if difference.mean < 0 else "worse"
    return "no difference shown"


def leaks(arm: ArmResults) -> bool:
    """Whether a run saw later tokens, by declaration or by what the trainer noticed."""
    return any(not run.causal or run.alarm for run in arm.runs)


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
                    pairs.append(Twins(one, other, a.first.host, difference(a, b)))
    return pairs
