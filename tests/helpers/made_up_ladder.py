"""A ladder that nobody ran: results and notes by a law, in a moment."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from helpers.made_up_results import result

from zoo.bench.ladder_notes import LadderArm
from zoo.bench.step_costs import StepCost
from zoo.bench.store import Result
from zoo.bench.suite_notes import NO_NOTES, SuiteNotes
from zoo.report.findings import Findings

SIZES = {2: 100_000, 3: 330_000, 4: 790_000}  # depth → parameters
SEEDS = {2: 5, 3: 3, 4: 3}
CONTROLS = MappingProxyType({"wr_mean": 1.3, "skip_scalar_0": 0.4})
ROLES = {"wr_mean": "gain", "skip_scalar_0": "harm"}


class MadeUp(NamedTuple):
    """What the store of a ladder would hold."""

    results: list[Result]
    notes: SuiteNotes

    @property
    def findings(self) -> Findings:
        return Findings.of(self.results, self.notes)


def loss_at(compute: float) -> float:
    """The plain block's loss: 0.2 nats better by every e-fold of compute."""
    return 4.0 - 0.2 * math.log(compute / 1e13)


def made_up_ladder(
    kappas: Mapping[str, float],
    hosts: Sequence[str] = ("sequential",),
    times: Mapping[str, float] = MappingProxyType({}),
    controls: Mapping[str, float] = CONTROLS,
) -> MadeUp:
    """A ladder of three rungs; `kappas` are the true multipliers by method, `times` how long their steps take."""
    arms, results, costs = dict[tuple[str, int, str], LadderArm](), list[Result](), dict[str, StepCost]()
    labels = {"plain": 1.0, "plain, other seeds": 1.0, **controls, **kappas}
    for host in hosts:
        for depth, size in SIZES.items():
            for label, kappa in labels.items():
                arm = _arm(host, depth, size, label)
                arms[arm.ladder, depth, label] = arm
                results += [_run(arm, seed, kappa) for seed in arm.seeds]
                if label in times:
                    costs[arm.arm] = step_cost(arm, f"{arm.host} {arm.depth} plain", times[label])
    judged = {arm.arm: "small" for arm in arms.values() if arm.role == "method"}
    return MadeUp(results, NO_NOTES._replace(ladder_arms=arms, costs=costs, suites=judged))


def _arm(host: str, depth: int, size: int, label: str) -> LadderArm:
    role = label.removeprefix("plain, ") if label.startswith("plain") else ROLES.get(label, "method")
    first = 100 if role == "other seeds" else 0
    return LadderArm(
        ladder=f"small {host}",
        name="small",
        host=host,
        margin=0.02,
        depth=depth,
        parameters=size,
        tokens=20 * size,
        label=label,
        role=role,
        arm=f"{host} {depth} {'plain' if label.startswith('plain') else label}",
        factor=1.0,
        seeds=[first + seed for seed in range(1, SEEDS[depth] + 1)],
        charged=6.0 * size * 20 * size,
    )


def _run(arm: LadderArm, seed: int, kappa: float) -> Result:
    noise = random.Random(f"{arm.arm} {seed}").gauss(0, 0.002)
    loss = loss_at(arm.charged * kappa) + noise
    plain = arm.label.startswith("plain")
    name = "baseline" if plain else arm.label
    return result(
        name,
        seed,
        loss,
        key=f"{arm.arm} {seed}",
        arm=arm.arm,
        host=arm.host,
        match="none" if plain else "method",
        parameters=2 * arm.parameters if plain else int(2.1 * arm.parameters),
        flops=6.0 * arm.parameters,
        tokens=arm.tokens,
        training=[(i, arm.tokens * i // 20, i / 2, loss + 1.5 * (20 / i) ** 0.5 - 1.5) for i in range(1, 21)],
        probes={} if plain else {"gate": {"1": 0.5, "2": 0.6}},
        baselines={} if plain else {"none": f"{arm.host} {arm.depth} plain"},
    )


def step_cost(arm: LadderArm, plain: str, time: float) -> StepCost:
    """A step that takes so many times as long as that of the plain block."""
    return StepCost(
        arm=arm.arm,
        plain=plain,
        name=arm.label,
        match="method",
        host=arm.host,
        rounds=[(time, 1.0)] * 9,
        memory=None,
        threads=1,
        code={},
        settings={},
        versions={},
        measured="",
    )
