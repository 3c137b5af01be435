"""Every method against each of its baselines, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoo.bench.store import Result
from zoo.bench.suite_notes import NO_NOTES, SuiteNotes
from zoo.report.arm_results import ArmResults, Split, arms, common_split, fair
from zoo.report.family_models import FamilyModel
from zoo.report.margin import worth_of_compute
from zoo.report.trained import early_loss
from zoo.report.verdict_words import BETTER, OPEN, SAME, VOID, WORSE
from zoo.statistics.difference import Difference
from zoo.statistics.dunnett import Question, adjusted_ps, critical_level
from zoo.statistics.looks import Levels, levels_at
from zoo.statistics.power import detectable

SINGLE = Levels()  # of a suite without looks


class Comparison(NamedTuple):
    """A method against one of its baselines."""

    method: ArmResults
    baseline: ArmResults
    match: str
    suite: str  # that the method was judged in
    plain: ArmResults | None  # the model that the method changes
    margin: float  # the smallest difference that matters
    split: Split  # that both are compared on
    provisional: bool  # on the validation split, while others have been on the test split
    model: FamilyModel | None = None  # of the arms that were judged together
    difference: Difference = Difference(n=0, n_other=0)
    levels: Levels = SINGLE  # of the verdict; smaller at an early look
    p_adjusted: float = math.nan  # Dunnett's
    own_level: float = math.nan  # the level of this question alone that all of the family together come to
    detectable: float = math.nan  # the smallest true difference that these seeds would reveal with 80 % power
    verdict: str = ""

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method.first.name

    @property
    def place(self) -> tuple[str, str, str]:
        """What is modelled together: a suite's arms, in one host, of one size and training."""
        return self.suite, self.method.first.host, self.method.plain_arm

    @property
    def family(self) -> tuple[str, str, str, str]:
        """What is asked together: the methods of one place, against one kind of match."""
        return *self.place, self.match

    @property
    def off_by(self) -> float:
        """How far the baseline is from what it was matched in, relative."""
        return self.baseline.spent.off_by(self.method.spent, self.match)

    @property
    def accuracy(self) -> Difference:
        """The difference of the accuracies on the validation split: positive is better."""
        assert self.model is not None
        return self.model.difference(self.method, self.baseline, "accuracy")

    @property
    def bits_per_byte(self) -> Difference:
        """The difference in bits per byte on the validation split: negative is better."""
        assert self.model is not None
        return self.model.difference(self.method, self.baseline, "bits_per_byte")

    def means(self) -> tuple[float, float]:
        """The losses of method and baseline, each over its seeds."""
        return self.method.mean(self.split), self.baseline.mean(self.split)

    def disagrees(self) -> bool:
        """Whether loss and accuracy point opposite ways, both beyond their 95 % intervals."""
        if self.verdict in VOID or not self.difference.known:
            return False
        low, high = self.difference.interval()
        if low > 0:
            return self.accuracy.low > 0
        return high < 0 and self.accuracy.high < 0


def compare(results: Sequence[Result], notes: SuiteNotes = NO_NOTES) -> list[Comparison]:
    """Every method against each of its baselines. p-values are corrected over a family."""
    return compare_arms(arms(results, notes), notes)


def compare_arms(arms: Mapping[str, ArmResults], notes: SuiteNotes) -> list[Comparison]:
    """Every method of these arms against each of its baselines. p-values are corrected over a family."""
    comparisons = _modelled(_pairs(arms, notes), notes)
    families: dict[tuple[str, ...], list[int]] = {}
    for i, each in enumerate(comparisons):
        families.setdefault(each.family, []).append(i)
    for members in families.values():
        for i, judged in zip(members, _judged([comparisons[i] for i in members]), strict=True):
            comparisons[i] = judged
    return comparisons


def _pairs(arms: Mapping[str, ArmResults], notes: SuiteNotes) -> list[Comparison]:
    """Every comparison that can be made, before any statistics."""
    tested = any(run.test_loss is not None for arm in arms.values() for run in arm.tried)
    default_margins = {id: worth_of_compute(arms.get(id)) for id in {arm.plain_arm for arm in arms.values()}}
    comparisons = []
    for method in arms.values():
        if method.first.match != "method":
            continue
        suite = notes.suites.get(method.id, "")
        for match, id in method.baselines.items():
            matched_already = match != "none" and id == method.plain_arm  # the plain block: asked once
            if id not in arms or matched_already or not (pair := fair(method, arms[id])):
                continue
            split = common_split(*pair)
            comparisons.append(
                Comparison(
                    method=pair[0],
                    baseline=pair[1],
                    match=match,
                    suite=suite,
                    plain=arms.get(method.plain_arm),
                    margin=notes.margins.get(suite, default_margins[method.plain_arm]),
                    split=split,
                    provisional=tested and split != "test",
                )
            )
    return comparisons


def _modelled(comparisons: Sequence[Comparison], notes: SuiteNotes) -> list[Comparison]:
    """The comparisons with their differences, by a model for each place and split."""
    places: dict[tuple[str, ...], list[Comparison]] = {}
    for c in comparisons:
        places.setdefault((*c.place, c.split), []).append(c)
    plain_arms = {c.method.plain_arm: c.plain for c in comparisons}
    early = {id: early_loss(plain.finished if plain else ()) for id, plain in plain_arms.items()}
    harms = {noted.arm for noted in notes.ladder_arms.values() if noted.role == "harm"}
    models = {
        key: FamilyModel(
            [arm for c in of for arm in (c.baseline, c.method)], of[0].split, early[of[0].method.plain_arm], harms
        )
        for key, of in places.items()
    }
    of_ladders = {noted.arm: tuple(noted.looks) for noted in notes.ladder_arms.values()}
    modelled = []
    for c in comparisons:
        model = models[(*c.place, c.split)]
        difference = model.difference(c.method, c.baseline)
        looks = notes.looks.get(c.suite) or of_ladders.get(c.method.id, ())
        modelled.append(c._replace(model=model, difference=difference, levels=levels_at(difference.n, looks)))
    return modelled


def _judged(family: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of a family with verdicts, and with p-values corrected for all of the family."""
    void = [c.model.void_verdict(c.method) if c.model else "" for c in family]
    questions = [
        Question(Difference(n=0, n_other=0) if word else c.difference, c.baseline.id)
        for c, word in zip(family, void, strict=True)
    ]
    own_levels = {level: critical_level(questions, level) for level in {c.levels.different for c in family}}
    judged = []
    for c, p, word in zip(family, adjusted_ps(questions), void, strict=True):
        judged.append(
            c._replace(
                p_adjusted=p,
                own_level=own_levels[c.levels.different],
                detectable=detectable(c.difference, own_levels[c.levels.different]),
                verdict=word or verdict(c.difference, p, c.margin, c.levels),
            )
        )
    return judged


def verdict(difference: Difference, p: float, margin: float, levels: Levels = SINGLE) -> str:
    """The verdict that the losses give: better, worse, the same, or open."""
    if difference.within(margin, levels.same):
        return SAME
    if p < levels.different:
        return BETTER if difference.mean < 0 else WORSE
    return OPEN
