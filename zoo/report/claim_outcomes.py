"""Whether results bear out what the cards claim."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from zoo.report.arm_results import ArmResults, common_split, fair, leaks
from zoo.report.claim_conditions import unmet
from zoo.report.claims import Claim, ProbeClaim, claims, clauses
from zoo.report.family_models import FamilyModel
from zoo.report.findings import Findings
from zoo.report.ladder_results import LadderFindings
from zoo.report.margin import LEAST
from zoo.report.trained import did_not_train, early_loss
from zoo.report.verdict_words import OPEN
from zoo.report.verdicts import SINGLE
from zoo.statistics.difference import Difference, from_bound
from zoo.statistics.looks import Levels

ACCURACY_MARGIN = 0.001  # a tenth of a point: a smaller difference of accuracy makes nothing better or worse

UNCHECKED = (
    "not measured",
    "claimed of the ",
    "too short",
    "too long",
    "void",
)  # what statuses of unchecked claims begin with


class Outcome(NamedTuple):
    """What results say of one claim."""

    relation: str
    what: str  # it is a relation to; may be empty
    status: str  # holds, contradicted, open, …

    @property
    def checked(self) -> bool:
        """Whether the status is what results say of it, rather than why they say nothing."""
        return not self.status.startswith(UNCHECKED)


class Judged(NamedTuple):
    """How an arm's verdict against the plain block was made, which a claim on it must not go beyond."""

    levels: Levels
    is_open: bool
    difference: Difference | None = None  # of a ladder, whose noise is not that of the models of single sizes


NOT_JUDGED = Judged(SINGLE, is_open=False)


class ClaimChecker:
    """Checks claims against the arms of one report, which it looks up by name."""

    def __init__(self, report: Findings) -> None:
        self._arms: dict[tuple[str, str], ArmResults] = {}  # plain arm and name → arm
        for arm in report.arms:
            if arm.first.match == "method":
                self._arms[arm.plain_arm, arm.first.name] = arm
        for arm in report.arms:
            if arm.first.match != "method":
                self._arms[arm.id, arm.first.name] = arm  # "baseline", of itself
        self._margins = {c.method.id: c.margin for c in report.comparisons}
        self._judged = {
            c.method.id: Judged(c.levels, _is_open(c.verdict, c.difference))
            for c in report.comparisons
            if c.match == "none"
        }
        for ladder in report.ladders:
            self._judged |= _judged_by(ladder)
        self._early_losses: dict[str, float] = {}
        self._models: dict[str, list[FamilyModel]] = {}  # plain arm → the models of its families
        for c in report.comparisons:
            models = self._models.setdefault(c.method.plain_arm, [])
            if c.model is not None and c.model not in models:
                models.append(c.model)

    def outcomes(self, method: ArmResults) -> list[Outcome]:
        """What the results say of everything that is claimed of a method."""
        outcomes = []
        margin = self._margins.get(method.id, LEAST)
        for claim in claims(method.first.name):
            if reason := unmet(claim.conditions, method, _owner(method.first.name, claim)):
                outcomes += [Outcome(text, what, reason) for text, what in _named(claim)]
            elif isinstance(claim, ProbeClaim):
                outcomes += probe_outcomes(method, claim)
            elif claim.relation == "diverges":
                outcomes.append(Outcome("diverges", "", divergence_status(method)))
            else:
                for name in claim.others:
                    other = self._arms.get((method.plain_arm, name))
                    status = self._status(claim, method, other, margin)
                    outcomes.append(Outcome(claim.text, name, status))
        return outcomes

    def _status(self, claim: Claim, method: ArmResults, other: ArmResults | None, margin: float) -> str:
        """Whether a claim on two arms holds. What diverges is worse than what does not, whatever its other seeds say."""
        pair = fair(method, other) if other else None
        if pair is None:
            return "not measured"
        if any(leaks(arm) for arm in pair):
            return "void, as it leaks"
        ours, theirs = pair
        if claim.quantity == "evaluation":
            return evaluation_status(ours, theirs)
        if theirs.diverged:
            return "void, as that diverges"
        early = self._early(method.plain_arm)
        if did_not_train(theirs, early):
            return "void, as that did not train"
        if ours.diverged:
            return "holds" if claim.relation in ("worse than", "no better than") else "contradicted"
        if did_not_train(ours, early):
            return "void, as it did not train"
        judged = self._judged.get(method.id, NOT_JUDGED)
        of_plain = claim.quantity == "loss" and theirs.id == method.plain_arm
        if of_plain and judged.is_open:
            return undecided_status(claim.relation)
        if of_plain and judged.difference:
            return relation_status(claim.relation, judged.difference, margin, judged.levels)
        model = self._model(ours, theirs, early)
        if claim.quantity == "loss":
            return relation_status(claim.relation, model.difference(ours, theirs), margin, judged.levels)
        accuracy = model.difference(ours, theirs, "accuracy")
        errors = replace(accuracy, mean=-accuracy.mean)  # less is better, as of a loss
        return relation_status(claim.relation, errors, ACCURACY_MARGIN, judged.levels)

    def _early(self, plain_arm: str) -> float:
        """The loss of a plain block at a tenth of its tokens."""
        if plain_arm not in self._early_losses:
            plain = self._arms.get((plain_arm, "baseline"))
            self._early_losses[plain_arm] = early_loss(plain.finished if plain else ())
        return self._early_losses[plain_arm]

    def _model(self, ours: ArmResults, theirs: ArmResults, early: float) -> FamilyModel:
        """The model that has both arms; of two families, one of all their arms."""
        split = common_split(ours, theirs)
        models = [model for model in self._models.get(ours.plain_arm, ()) if model.split == split]
        for model in models:
            if ours in model and theirs in model:
                return model
        apart = [arm for model in models if ours in model or theirs in model for arm in model.arms]
        return FamilyModel([*apart, ours, theirs], split, early)


def _judged_by(ladder: LadderFindings) -> dict[str, Judged]:
    """How a ladder judged its arms, by the arm at each rung."""
    judged = {}
    for row in ladder.rows:
        at = {each.rung: each for each in row.rungs}
        for rung in ladder.rungs:
            if row.label in rung.arms and rung.number in at:
                n, (mean, error, degrees) = at[rung.number].n, at[rung.number].difference
                difference = Difference(
                    n=n, n_other=len(rung.plain.losses(rung.split)), mean=mean, error=error, degrees=degrees
                )
                judged[rung.arms[row.label].noted.arm] = Judged(
                    row.levels, _is_open(row.verdict, difference), difference
                )
    return judged


def _is_open(verdict: str, difference: Difference) -> bool:
    """Whether a verdict is open for want of a clear difference, rather than for want of seeds."""
    return verdict == OPEN and difference.known


def _owner(name: str, claim: Claim | ProbeClaim) -> str:
    """The method, of a combination, whose card makes the claim: its settings are the claim's."""
    parts = name.split("+")
    return next((id for id in parts if any(claim == made for _, made in clauses(id))), parts[0])


def _named(claim: Claim | ProbeClaim) -> list[tuple[str, str]]:
    """A claim as an outcome names it: relation, and what it is a relation to."""
    if isinstance(claim, ProbeClaim):
        return [(str(claim), "")]
    return [(claim.text, other) for other in claim.others]


def evaluation_status(ours: ArmResults, theirs: ArmResults) -> str:
    """Whether a claim that evaluation is slower holds, by the time measured in turns with the plain block's."""
    ratio = ours.cost.evaluation_ratio if ours.cost and ours.cost.plain == theirs.id else None
    if ratio is None:
        return "not measured"
    return "holds" if ratio.low > 1 else "contradicted" if ratio.high < 1 else "open"


def outcome_text(outcomes: Sequence[Outcome]) -> str:
    """Outcomes in words; those of one relation and status are named together."""
    names: dict[tuple[str, str], list[str]] = {}
    for relation, what, status in outcomes:
        names.setdefault((relation, status), []).append(what)
    return "; ".join(
        f"{relation} {', '.join(of)}".rstrip() + f": **{status}**" for (relation, status), of in names.items()
    )


def relation_status(relation: str, difference: Difference, margin: float = 0.0, levels: Levels = SINGLE) -> str:
    """Whether a difference bears a claim out, at the levels of the verdict on the method.

    A difference that is smaller than the margin makes nothing better or worse.
    """
    if not difference.known:
        return "open"
    low, high = difference.interval(1 - levels.different)
    side = -1 if high < 0 else 1 if low > 0 else 0  # below zero: better
    equal, matters = difference.within(margin, levels.same), side != 0 and abs(difference.mean) >= margin
    if relation == "about":
        return "holds" if equal else "contradicted" if matters else "not contradicted"
    claimed_side = -1 if relation in ("better than", "no worse than", "below") else 1
    if relation.startswith("no "):
        if side == claimed_side or equal:
            return "holds"
        return "contradicted" if matters else "not contradicted"
    if equal or side == -claimed_side:
        return "contradicted"
    return "holds" if matters else "open"


def undecided_status(relation: str) -> str:
    """What an open verdict says of a claim on the method and the plain block."""
    return "open" if relation in ("better than", "worse than") else "not contradicted"


def divergence_status(method: ArmResults) -> str:
    """Whether a claim to diverge holds. That a method does not within some steps does not contradict it."""
    if not method.diverged:
        return f"not seen in {max(run.steps for run in method.runs):,} steps"
    return "holds" if method.diverged == len(method.runs) else f"in {method.diverged} of {len(method.runs)} seeds"


def probe_outcomes(method: ArmResults, claim: ProbeClaim) -> list[Outcome]:
    """What the results say of a claim on a probe, layer by layer, with the mean of each over the seeds."""
    runs = [run.probes.get(claim.probe, {}) for run in method.finished]
    layers = sorted({int(layer) for run in runs for layer in run})
    outcomes = []
    for layer in claim.among(layers):
        values = [mean for run in runs if (mean := _mean(run.get(str(layer)))) is not None]
        if not values:
            outcomes.append(Outcome(f"{claim} in layer", f"{layer} (not finite)", "not measured"))
            continue
        bound = from_bound(values, claim.bound)
        mean = statistics.fmean(values)
        outcomes.append(Outcome(f"{claim} in layer", f"{layer} ({mean:.2f})", relation_status(claim.side, bound)))
    return outcomes or [Outcome(str(claim), "", "not measured")]


def _mean(value: float | Sequence[float | None] | None) -> float | None:
    """The mean of a probe of one layer; None where it is not finite, or not known."""
    elements = [value] if value is None or isinstance(value, float | int) else value
    known = [each for each in elements if each is not None]
    return statistics.fmean(known) if known and len(known) == len(elements) else None
