"""From a configuration to the arms of a comparison: the method, and the plain models it is measured against."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from zoo import config as configs
from zoo.config import HEADER, Config
from zoo.gin_values import render, rendered
from zoo.plugins import SLOTS
from zoo.suite import Host, Kind, Spent, Suite
from zoo.versions import code


class Arm(NamedTuple):
    """One configuration but for the seed and the factor of its learning rate."""

    id: str
    name: str  # of the method or combination; "baseline" without one
    match: str  # how a baseline was matched; "method" for a method
    host: Host
    values: Mapping[str, Any]
    defaults: Mapping[str, Any]  # of what nobody bound
    parameters: int
    flops: float  # of a token, forward and backward
    causal: bool
    baselines: Mapping[str, str]  # of a method: how matched → the arm
    code: Mapping[str, str]  # of its methods: a hash of what each is written in

    @property
    def steps(self) -> int:
        return int(self.values["train.steps"])

    @property
    def spent(self) -> Spent:
        return Spent(self.parameters, self.flops, self.steps)


class Job(NamedTuple):
    """One run of an arm."""

    arm: Arm
    seed: int
    lr_factor: float

    @property
    def values(self) -> dict[str, Any]:
        lr = self.arm.values["train.lr"] * self.lr_factor
        return {**self.arm.values, "train.seed": self.seed, "train.lr": lr}

    @property
    def text(self) -> str:
        return text_of(self.values)

    @property
    def settings(self) -> dict[str, str]:
        """Every value, defaults too: should one of them change, the run is another."""
        return rendered({**self.arm.defaults, **self.values})

    @property
    def key(self) -> str:
        """The same configuration is the same run, whoever asks for it."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        lr = "" if self.lr_factor == 1 else f", lr × {self.lr_factor:g}"
        return f"{self.arm.name} ({self.arm.match}, {self.arm.host}, seed {self.seed}{lr})"


def text_of(values: Mapping[str, Any]) -> str:
    return HEADER + "".join(f"{key} = {render(values[key])}\n" for key in sorted(values))


def arms_of(files: Sequence[str], bindings: Sequence[str], suite: Suite, host: Host | None) -> list[Arm]:
    """The method that these files make, last, behind its baselines. Without a host it is as the files say."""
    bound = [*bindings, f"model.parallel = {host == 'parallel'}"] if host else list(bindings)
    loaded = configs.load(files, bound)
    length = loaded.get("data.length")
    build = functools.partial(loaded.build, "model", vocab_size=loaded.get("data.vocab_size"), max_length=length)
    values = _whole(loaded, length)
    where: Host = "parallel" if loaded.get("model.parallel") else "sequential"
    defaults = {key: value for key, value in loaded.defaults.items() if not key.startswith("suite.")}
    baselines = {kind: _baseline(kind, build, values, defaults, length, where) for kind in suite.baselines}
    arms = list(
        {arm.id: arm for arm in reversed(baselines.values())}.values()
    )  # the first name of a model that has several
    if loaded.plugins:
        matched: dict[str, str] = {kind: arm.id for kind, arm in baselines.items()}
        arms.append(_method(loaded, build, values, defaults, length, where, matched))
    return arms


def _whole(loaded: Config, length: int) -> dict[str, Any]:
    """The values of a run: the budget in steps, so that an arm may have a multiple of it, and always the host."""
    values = {key: value for key, value in loaded.values.items() if not key.startswith("suite.")}
    settings = loaded.build("train")
    values["train.steps"] = settings.num_steps(loaded.get("data.batch_size") * length * settings.accumulate)
    values["train.lr"] = settings.lr
    values["model.parallel"] = loaded.get("model.parallel")
    values.pop("train.tokens", None)
    return values


def _id(values: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in values.items() if key != "train.seed"}
    return hashlib.sha256(text_of(rest).encode()).hexdigest()[:12]


def _baseline(
    kind: Kind, build: Any, values: Mapping[str, Any], defaults: Mapping[str, Any], length: int, host: Host
) -> Arm:
    from zoo import match

    found = match.match(build, length, kind)
    slots = tuple(f"{slot}." for slot in SLOTS) + tuple(f"model.{slot}" for slot in SLOTS)
    plain = {key: value for key, value in values.items() if not key.startswith(slots)}
    others = {key: value for key, value in defaults.items() if not key.startswith(slots)}
    if found.ffn_dim != match.ffn_dim(match.plain(build)):
        plain["model.ffn_dim"] = found.ffn_dim
    plain["train.steps"] = max(1, round(values["train.steps"] * found.tokens))
    costs = match.cost(functools.partial(match.plain(build), ffn_dim=found.ffn_dim), length)
    return Arm(_id(plain), "baseline", kind, host, plain, others, costs.parameters, costs.flops, True, {}, {})


def _method(
    loaded: Config,
    build: Any,
    values: Mapping[str, Any],
    defaults: Mapping[str, Any],
    length: int,
    host: Host,
    baselines: Mapping[str, str],
) -> Arm:
    from zoo import match

    costs = match.cost(build, length)
    causal = all(extension.causal for extension in match.skeleton(build).extensions())
    written = {found.name: code(found) for found in loaded.plugins}
    return Arm(
        _id(values), loaded.name, "method", host, values, defaults, costs.parameters, costs.flops, causal, baselines, written
    )  # fmt: skip


def plan(arms: Iterable[Arm], suite: Suite) -> list[Job]:
    """The first runs of all arms: every learning rate on the first seed. The other seeds follow, with the best of them."""
    return [Job(arm, 1, factor) for arm in arms for factor in suite.lrs]
