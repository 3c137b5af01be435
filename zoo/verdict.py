"""From results to evidence: arms, differences, verdicts."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from zoo.costs import Cost
from zoo.gin_values import changed
from zoo.stats import Paired, Spread, detectable, holm, paired, spread
from zoo.store import NOTHING_KNOWN, Known, Result, best_factor, newest
from zoo.suite import Spent

LEVEL = 0.05
OWN = ("train.seed", "train.lr")  # what tells the runs of one arm apart; the rate only by its factor
Split = Literal["test", "validation"]


class ArmResults(NamedTuple):
    """The runs of one arm that count: one a seed, at the arm's learning rate."""

    id: str
    runs: tuple[Result, ...]  # by seed
    tried: tuple[Result, ...]  # at every learning rate
    baselines: Mapping[str, str]  # of a method: how matched → the arm
    cost: Cost | None = None  # beside the plain model's, where that was measured
    plain_speed: float = math.nan  # … of which this is the speed

    @property
    def first(self) -> Result:
        return self.runs[0]

    @property
    def place(self) -> str:
        """The plain model that it changes: what has the same one can be compared."""
        return self.baselines.get("none", "")

    @property
    def spent(self) -> Spent:
        """What it costs, unless it diverges."""
        return Spent(self.first.parameters, self.first.flops, max(run.budget for run in self.runs))

    @property
    def factors(self) -> set[float]:
        """The learning rates that it was given the choice of."""
        return {run.lr_factor for run in self.tried if run.seed == self.tried[0].seed}

    def at(self, factors: set[float]) -> ArmResults:
        """The arm, had it been given the choice of these alone."""
        factor = best_factor([run for run in self.tried if run.lr_factor in factors])
        return self._replace(runs=tuple(run for run in self.tried if run.lr_factor == factor))

    @property
    def speed(self) -> float:
        """Tokens a second, undisturbed: the plain model's by the ratio that was measured, else this arm's own."""
        return self.plain_speed / self.cost.time_ratio.value if self.cost else self.own_speed

    @property
    def own_speed(self) -> float:
        """… in the best tenth of all stretches of training, at any rate: other work on the machine only slows."""
        stretches = [
            (b[1] - a[1]) / (b[2] - a[2])
            for run in self.tried
            for a, b in itertools.pairwise(run.training)
            if b[2] > a[2]
        ]
        if len(stretches) < 10:
            return max(run.tokens_per_second for run in self.tried)
        return statistics.quantiles(stretches, n=10)[-1]

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
    plain: ArmResults | None  # the model that the method changes
    difference: Paired
    p_holm: float
    detectable: float  # the smallest true difference that these seeds would have shown four times of five
    verdict: str
    provisional: bool  # on the validation split, while others have been on the test split

    @property
    def name(self) -> str:
        return self.method.first.name

    @property
    def family(self) -> tuple[str, str, str, str]:
        """What is asked together: a suite's methods, in one host, of one size and training, against one kind of match."""
        return self.suite, self.method.first.host, self.method.place, self.match

    @property
    def chance(self) -> float:
        """p, of what the losses have to answer: not of a method that leaks or diverges."""
        return math.nan if leaks(self.method) or self.method.diverged else self.difference.p

    @property
    def split(self) -> Split:
        return common_split(self.method, self.baseline)

    @property
    def off_by(self) -> float:
        """How far the baseline is from what it was matched in, relative."""
        return self.baseline.spent.off_by(self.method.spent, self.match)

    def means(self) -> tuple[float, float]:
        """The losses of method and baseline, over the seeds that both have."""
        ours, theirs = self.method.losses(self.split), self.baseline.losses(self.split)
        seeds = ours.keys() & theirs.keys()
        return spread([ours[seed] for seed in seeds]).mean, spread([theirs[seed] for seed in seeds]).mean


def arms(results: Sequence[Result], known: Known = NOTHING_KNOWN) -> dict[str, ArmResults]:
    """Results by arm."""
    by_arm: dict[str, list[Result]] = {}
    for result in results:
        by_arm.setdefault(result.arm, []).append(result)
    chosen = {}
    for id, runs in by_arm.items():
        kept = {(run.seed, run.lr_factor): run for run in current(runs)}
        tried = tuple(kept[which] for which in sorted(kept))
        baselines = {kind: arm for run in tried for kind, arm in run.baselines.items()}
        arm = ArmResults(id, tried, tried, baselines | dict(known.baselines.get(id, {})))
        chosen[id] = arm.at(arm.factors)
    for id, cost in known.costs.items():
        if id in chosen and cost.plain in chosen:
            chosen[id] = chosen[id]._replace(cost=cost, plain_speed=chosen[cost.plain].own_speed)
    return chosen


def current(runs: Sequence[Result]) -> list[Result]:
    """Those that are like the newest: defaults or a corpus may have changed since the others."""

    def same(run: Result) -> dict[str, str]:
        return {"corpus": run.corpus} | {key: value for key, value in run.settings.items() if key not in OWN}

    last = same(newest(runs))
    return [run for run in runs if not changed(same(run), last)]


def fair(one: ArmResults, other: ArmResults) -> tuple[ArmResults, ArmResults] | None:
    """Both at the best of the learning rates that both were given, if there is any and they read the same text."""
    common = one.factors & other.factors
    return (one.at(common), other.at(common)) if common and one.first.corpus == other.first.corpus else None


def compare(results: Sequence[Result], known: Known = NOTHING_KNOWN) -> list[Comparison]:
    """Every method against each of its baselines. p-values are corrected over a family."""
    found = arms(results, known)
    tested = any(result.test_loss is not None for result in results)
    asked = []
    for method in found.values():
        if method.first.match != "method":
            continue
        for match, id in method.baselines.items():
            matched_already = match != "none" and id == method.place  # the plain block: asked once
            if id in found and not matched_already and (pair := fair(method, found[id])):
                asked.append(
                    _uncorrected(*pair, match, known.suites.get(method.id, ""), found.get(method.place), tested)
                )
    families: dict[tuple[str, ...], list[int]] = {}
    for i, each in enumerate(asked):
        families.setdefault(each.family, []).append(i)
    for members in families.values():
        chances = [asked[i].chance for i in members]
        questions = sum(not math.isnan(p) for p in chances)
        for i, p in zip(members, holm(chances), strict=True):
            one = asked[i]
            least = detectable(one.difference.n, one.difference.deviation, max(1, questions))
            told = verdict(one.method, one.baseline, one.difference, p)
            asked[i] = one._replace(p_holm=p, detectable=least, verdict=told)
    return asked


def _uncorrected(
    method: ArmResults, baseline: ArmResults, match: str, suite: str, plain: ArmResults | None, tested: bool
) -> Comparison:
    provisional = tested and common_split(method, baseline) != "test"
    unknown = (math.nan, math.nan, "")
    return Comparison(
        method, baseline, match, suite, plain, difference(method, baseline), *unknown, provisional
    )  # fmt: skip


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


def twins(results: Sequence[Result], known: Known) -> list[Twins]:
    found = [arm for arm in arms(results, known).values() if arm.first.match == "method"]
    pairs = []
    for one, other in known.twins:
        for a in found:
            for b in found:
                alike = (a.first.name, b.first.name) == (one, other) and a.place == b.place
                if alike and a.first.host == b.first.host and (pair := fair(a, b)):
                    pairs.append(Twins(one, other, a.first.host, difference(*pair)))
    return pairs
