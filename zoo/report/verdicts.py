"""Every method against each of its baselines, and the verdict on it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoo.bench.stats import Paired, detectable, holm
from zoo.bench.store import NO_NOTES, Result, SuiteNotes
from zoo.report.arm_results import ArmResults, Split, arms, common_split, difference, fair, leaks
from zoo.report.margin import within, worth_of_tokens

LEVEL = 0.05
EQUAL = "no difference that matters"


class Comparison(NamedTuple):
    """A method against one of its baselines."""

    method: ArmResults
    baseline: ArmResults
    match: str
    suite: str  # that the method was judged in
    plain: ArmResults | None  # the model that the method changes
    difference: Paired
    margin: float  # the smallest difference that matters
    provisional: bool  # on the validation split, while others have been on the test split
    p_holm: float = math.nan
    detectable: float = math.nan  # the smallest true difference that these seeds would reveal with 80 % power
    verdict: str = ""

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method.first.name

    @property
    def family(self) -> tuple[str, str, str, str]:
        """What is asked together: a suite's methods, in one host, of one size and training, against one kind of match."""
        return self.suite, self.method.first.host, self.method.plain_arm, self.match

    @property
    def p(self) -> float:
        """p, where the losses decide: NaN for a method that leaks or diverges."""
        return math.nan if leaks(self.method) or self.method.diverged else self.difference.p

    @property
    def split(self) -> Split:
        """The split that both are compared on."""
        return common_split(self.method, self.baseline)

    @property
    def off_by(self) -> float:
        """How far the baseline is from what it was matched in, relative."""
        return self.baseline.spent.off_by(self.method.spent, self.match)

    def means(self) -> tuple[float, float]:
        """The losses of method and baseline, over the seeds that both have."""
        ours, theirs = self.method.losses(self.split), self.baseline.losses(self.split)
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            return math.nan, math.nan
        return statistics.fmean(ours[seed] for seed in seeds), statistics.fmean(theirs[seed] for seed in seeds)


def compare(results: Sequence[Result], notes: SuiteNotes = NO_NOTES) -> list[Comparison]:
    """Every method against each of its baselines. p-values are corrected over a family."""
    return compare_arms(arms(results, notes), notes)


def compare_arms(arms: Mapping[str, ArmResults], notes: SuiteNotes) -> list[Comparison]:
    """Every method of these arms against each of its baselines. p-values are corrected over a family."""
    comparisons = _uncorrected(arms, notes)
    families: dict[tuple[str, ...], list[int]] = {}
    for i, each in enumerate(comparisons):
        families.setdefault(each.family, []).append(i)
    for members in families.values():
        ps = [comparisons[i].p for i in members]
        questions = sum(not math.isnan(p) for p in ps)
        for i, p_holm in zip(members, holm(ps), strict=True):
            one = comparisons[i]
            comparisons[i] = one._replace(
                p_holm=p_holm,
                detectable=detectable(one.difference.n, one.difference.deviation, max(1, questions)),
                verdict=verdict(one.method, one.difference, p_holm, one.margin),
            )
    return comparisons


def _uncorrected(arms: Mapping[str, ArmResults], notes: SuiteNotes) -> list[Comparison]:
    """Every comparison, without what depends on the others of its family."""
    tested = any(run.test_loss is not None for arm in arms.values() for run in arm.tried)
    default_margins = {id: worth_of_tokens(arms.get(id)) for id in {arm.plain_arm for arm in arms.values()}}
    comparisons = []
    for method in arms.values():
        if method.first.match != "method":
            continue
        suite = notes.suites.get(method.id, "")
        for match, id in method.baselines.items():
            matched_already = match != "none" and id == method.plain_arm  # the plain block: asked once
            if id not in arms or matched_already or not (pair := fair(method, arms[id])):
                continue
            comparisons.append(
                Comparison(
                    method=pair[0],
                    baseline=pair[1],
                    match=match,
                    suite=suite,
                    plain=arms.get(method.plain_arm),
                    difference=difference(*pair),
                    margin=notes.margins.get(suite, default_margins[method.plain_arm]),
                    provisional=tested and common_split(*pair) != "test",
                )
            )
    return comparisons


def verdict(method: ArmResults, difference: Paired, p: float, margin: float) -> str:
    """The verdict in words: better, worse, no difference that matters, no difference shown, diverged, leaks."""
    if leaks(method):
        return "leaks"
    if method.diverged:
        return "diverged"
    if difference.n < 2:
        return "one seed: no verdict" if difference.n else "no seed that both finished: no verdict"
    if within(difference, margin) or (p < LEVEL and abs(difference.mean) < margin):
        return EQUAL
    if p < LEVEL:
        return "better" if difference.mean < 0 else "worse"
    return "no difference shown"
