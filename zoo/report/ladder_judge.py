"""What the results say while a ladder runs: who gets no further seed, who goes no further up, what the top should give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from zoo.bench.ladder_notes import Prediction, read_ladder_arms, read_predictions, register
from zoo.bench.ladder_plan import Member, Rung
from zoo.bench.step_costs import read_costs
from zoo.bench.store import Store
from zoo.report.ladder_predictions import Predicted, Target, predict
from zoo.report.ladder_results import LadderFindings, LadderRow, ladder_findings
from zoo.scaling.gate import HELPS
from zoo.system.clock import now

TROUBLE = ("did not train", "diverged", "leaks")


class StoreJudge:
    """Judges by what the store holds at the time of the question."""

    def __init__(self, store: Store, say: Callable[[str], None]) -> None:
        self.store, self.say = store, say

    def settled(self, ladder: str) -> dict[str, str]:
        """The methods that get no further seed: helpful or harmful beyond the look's bound, hopeless, or in trouble."""
        reasons = {row.label: _reason(row) for row in self._rows(ladder)}
        return {label: reason for label, reason in reasons.items() if reason}

    def stopped(self, ladder: str) -> dict[str, str]:
        """The methods that go no further up: in trouble, or settled as harmful or hopeless where looks were taken."""
        return {label: reason for label, reason in self.settled(ladder).items() if reason != HELPS}

    def predict(self, ladder: str, rung: Rung, members: Sequence[Member]) -> None:
        """Register what the top rung should give, for every arm that it was not yet run or predicted for."""
        known, run = read_predictions([self.store.folder]), {result.arm for result in self.store.read().values()}
        findings = self._findings(ladder)
        if findings is None:
            self.say("no prediction of the top rung: it takes two rungs below it")
            return
        below = findings._replace(rungs=tuple(each for each in findings.rungs if each.depth < rung.size.depth))
        targets = {}
        for member in members:
            if member.role in ("other seeds", "more tokens", "budget") or (ladder, member.arm.id) in known:
                continue
            if member.arm.id in run:
                self.say(f"{member.label} was run at the top rung before a prediction was registered: there is none")
            else:
                targets[member.arm.id] = _target(rung, member)
        predictions = predict(below, list(targets.values())) if targets else {}
        for arm, target in targets.items():
            if target.label in predictions:
                self._register(ladder, rung.size.depth, arm, target, predictions[target.label])

    def _register(self, ladder: str, depth: int, arm: str, target: Target, predicted: Predicted) -> None:
        if not math.isfinite(predicted.low + predicted.high):
            return
        prediction = Prediction(
            ladder=ladder,
            depth=depth,
            label=target.label,
            arm=arm,
            loss=predicted.loss,
            low=predicted.low,
            high=predicted.high,
            seeds=target.seeds,
            runs=predicted.runs,
            registered=now(),
        )
        register(self.store.folder, prediction)
        interval = f"{predicted.low:.4f} … {predicted.high:.4f}"
        self.say(f"registered: {target.label} at the top rung should come to {predicted.loss:.4f} ({interval})")

    def _findings(self, ladder: str) -> LadderFindings | None:
        folder = [self.store.folder]
        all_arms = read_ladder_arms(folder)
        arms = {key: arm for key, arm in all_arms.items() if arm.ladder == ladder}
        ladders = ladder_findings(list(self.store.read().values()), arms, {}, read_costs(self.store.folder))
        return ladders[0] if ladders else None

    def _rows(self, ladder: str) -> list[LadderRow]:
        findings = self._findings(ladder)
        return [row for row in findings.rows if row.role == "method"] if findings else []


def _reason(row: LadderRow) -> str:
    """Why a method needs no further seed; empty where it may."""
    if row.verdict.startswith(TROUBLE):
        return row.verdict
    return row.gate.reason() if row.gate else ""


def _target(rung: Rung, member: Member) -> Target:
    """What is to be predicted of an arm at a rung."""
    return Target(
        label=member.label,
        size=rung.size.parameters,
        tokens=rung.plain.arm.steps * rung.plain.arm.tokens_per_step,
        seeds=len(member.seeds),
        compute=rung.plain.charged,
        charged=member.charged,
    )
