"""From a ladder to the arms of every rung: the plain block, its controls, the methods."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from zoo.bench.arms import Arm, Job, arms_of, text_of, trained_longer
from zoo.bench.ladder import MOST_SEEDS, Ladder
from zoo.bench.method_names import parse_name
from zoo.bench.selection import suite_file
from zoo.bench.suite import Host, Suite
from zoo.config.configuration import Config
from zoo.config.load import load_config
from zoo.config.recipe import batch_tokens, num_parameters
from zoo.config.values import render
from zoo.counting.counted_build import Counts
from zoo.counting.spent import Kind
from zoo.errors import ConfigError, ZooError
from zoo.training.settings import MOST

Role = Literal["plain", "other seeds", "more tokens", "budget", "gain", "harm", "method"]

MORE_TOKENS = 1.10  # what a control is trained for and not charged
OWN_RATE = ("plain", "gain", "harm", "method")  # roles that choose a learning rate; the others take the plain block's
PLAIN: tuple[Kind, ...] = ("none",)  # the baselines of a ladder: the plain block as it is
OF_SUITES = {  # what a suite has and a ladder does not use → what it has in its place
    "suite.seeds": "ladder.seeds, and ladder.looks at the two smallest rungs",
    "suite.control_seeds": "ladder.seeds, which the plain block has too, and ladder.looks at the two smallest rungs",
    "suite.looks": "ladder.looks",
}
BY_RULE = (
    *("model.depth", "model.aspect", "model.width", "train.steps", "train.tokens"),
    *("recipe.tokens_per_parameter", "recipe.rows_at_once"),
)
PER_RUNG = (
    *BY_RULE,
    *("data.batch_size", "train.accumulate", "train.lr", "train.warmup", "train.betas"),
    *("train.validate_every", "train.save_every", "train.log_every"),
)


class Member(NamedTuple):
    """An arm of a rung: what it is there for, its seeds, and the compute that a run is charged."""

    label: str
    role: Role
    arm: Arm
    seeds: tuple[int, ...]
    charged: float  # FLOPs

    def jobs(self, factor: float) -> list[Job]:
        """Its runs at a factor of the learning rate."""
        return [Job(self.arm, seed, factor) for seed in self.seeds]


class Size(NamedTuple):
    """What the dial makes of a rung; the rest is the recipe's."""

    depth: int
    width: int
    parameters: int  # N, without embeddings


class Rung(NamedTuple):
    """One size in one host."""

    number: int  # from 1
    host: Host
    size: Size
    members: tuple[Member, ...]

    @property
    def plain(self) -> Member:
        return self.members[0]


class LadderPlan(NamedTuple):
    """What a ladder runs: the rungs of every host, each from the smallest to the largest."""

    name: str
    ladder: Ladder
    suite: Suite
    hosts: tuple[tuple[Rung, ...], ...]

    @property
    def rungs(self) -> list[Rung]:
        return [rung for of_host in self.hosts for rung in of_host]

    def key(self, rungs: Sequence[Rung]) -> str:
        """What makes rungs those of one ladder: its name, the host, and every value that no rung sets."""
        values = rungs[0].plain.arm.values
        common = {key: value for key, value in values.items() if key not in PER_RUNG and key != "train.seed"}
        rule = f"{self.ladder.aspect} {self.ladder.tokens_per_parameter:g}"
        digest = hashlib.sha256(f"{text_of(common)}{rule}".encode()).hexdigest()[:8]
        return f"{self.name} {rungs[0].host} {digest}"


def plan_ladder(
    name: str, files: Sequence[str], bindings: Sequence[str], methods: Sequence[str] | None = None
) -> LadderPlan:
    """Everything that a ladder will run, built at every size; `methods` are judged in place of the suite's."""
    of_methods = [file for file in files if load_config([file]).plugins]
    files = [suite_file(name, "ladder"), *(file for file in files if file not in of_methods)]
    loaded = load_config(files, bindings)
    ladder: Ladder = loaded.build("ladder")
    _check_bindings(loaded)
    suite: Suite = replace(loaded.build("suite"), baselines=PLAIN)
    names = [*(["+".join(of_methods)] if of_methods else []), *(suite.methods if methods is None else methods)]
    hosts = tuple(
        tuple(_rung(i, host, ladder, suite, files, bindings, names) for i in range(len(ladder.depths)))
        for host in suite.hosts
    )
    return LadderPlan(Path(name).stem, ladder, suite, hosts)


def _check_bindings(loaded: Config) -> None:
    """Refuse settings that the rule makes, and a method that would be in every arm."""
    if loaded.plugins:
        raise ConfigError(f"{loaded.name} would stand in the plain block too: name methods with --gin or --methods")
    if loaded.get("train.seed") != 1:
        raise ConfigError("a ladder gives its runs the seeds 1, 2, …: bind ladder.seeds, not train.seed")
    if "model.parallel" in loaded.values:
        raise ConfigError("a ladder says where its methods stand: bind suite.hosts in place of model.parallel")
    if "suite.baselines" in loaded.places and loaded.get("suite.baselines") != PLAIN:
        raise ConfigError(
            f"{loaded.places['suite.baselines']}: a ladder compares every method with the plain block as it is: leave"
            ' suite.baselines out, or bind ("none",)'
        )
    for key, instead in OF_SUITES.items():
        if key in loaded.places:
            raise ConfigError(f"{loaded.places[key]}: a ladder does not use {key}: bind {instead}")
    for key in BY_RULE:
        if key in loaded.places:
            raise ConfigError(
                f"{loaded.places[key]}: {key} follows from the rung: bind ladder.depths, ladder.aspect or"
                " ladder.tokens_per_parameter in its place"
            )


def rung_bindings(size: Size, ladder: Ladder) -> list[str]:
    """What makes a rung: the dial, and the laws of the recipe for all that follows from it."""
    steps = ladder.tokens_per_parameter * size.parameters / batch_tokens(size.parameters)
    values = {
        "model.depth": size.depth,
        "model.aspect": ladder.aspect,
        "recipe.tokens_per_parameter": ladder.tokens_per_parameter,
        "recipe.rows_at_once": ladder.most_rows,
        "train.validate_every": MOST,  # at the end alone
        "train.save_every": max(200, round(steps / 10)),
        "train.log_every": max(1, round(steps / 100)),
    }
    return [f"{key} = {render(value)}" for key, value in values.items()]


def _rung(
    index: int,
    host: Host,
    ladder: Ladder,
    suite: Suite,
    files: Sequence[str],
    bindings: Sequence[str],
    methods: Sequence[str],
) -> Rung:
    """The arms of one rung; an error says at which size something cannot be built."""
    depth, width = ladder.depths[index], ladder.depths[index] * ladder.aspect
    size = Size(depth, width, num_parameters(width, depth))
    of_rung = [*rung_bindings(size, ladder), *bindings]
    seeds = tuple(range(1, ladder.seeds[index] + 1))
    members: dict[str, Member] = {}
    plain: Member | None = None
    counts: Counts = {}
    for name, role in _asked(ladder, methods):
        try:
            named = parse_name(name)
            arms = arms_of([*files, *named.files], [*of_rung, *named.bindings], suite, host, named.label, counts=counts)
        except ZooError as error:
            raise ZooError(f"{name} cannot be built at rung {index + 1} (depth {depth}): {error}") from error
        method = arms[-1]
        if method.match != "method":
            raise ZooError(f"ladder: {name} names no method")
        if plain is None:
            plain = _plain(arms, seeds)
        others = [member for member in members.values() if member.arm.id == method.id]
        if not others:
            members[method.name] = Member(method.name, role, method, seeds, _compute(method))
    assert plain is not None
    return Rung(index + 1, host, size, (plain, *_controls(plain, ladder), *members.values()))


def _asked(ladder: Ladder, methods: Sequence[str]) -> Iterator[tuple[str, Role]]:
    """The names of the controls and of the methods, with their roles; a method that is also a control is that."""
    yield ladder.gain, "gain"
    yield ladder.harm, "harm"
    for name in methods:
        yield name, "method"


def _plain(arms: Sequence[Arm], seeds: tuple[int, ...]) -> Member:
    (arm,) = (arm for arm in arms if arm.match == "none")
    return Member("plain", "plain", arm, seeds, _compute(arm))


def _controls(plain: Member, ladder: Ladder) -> Iterator[Member]:
    """The plain block under other seeds, with tokens that it is not charged for, and with other budgets."""
    others = tuple(MOST_SEEDS + 1 + seed for seed in plain.seeds)
    yield plain._replace(label="plain, other seeds", role="other seeds", seeds=others)
    more = trained_longer(plain.arm, MORE_TOKENS)
    yield Member("plain, 10 % more tokens", "more tokens", more, plain.seeds, plain.charged)
    for budget in ladder.budgets:
        if budget != 1:
            arm = trained_longer(plain.arm, budget)
            yield Member(f"plain × {budget:g}", "budget", arm, plain.seeds[:2], _compute(arm))


def _compute(arm: Arm) -> float:
    """C = F·D: the FLOPs of a run."""
    return arm.flops * arm.steps * arm.tokens_per_step
