"""From a configuration to the arms of a comparison: the method, and the plain models it is measured against."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from zoo.bench.step_costs import StepCost
from zoo.bench.suite import Host, Suite
from zoo.config.configuration import HEADER, Config
from zoo.config.load import load_config
from zoo.config.values import render, rendered
from zoo.counting.counted_build import CountedBuild, Counts
from zoo.counting.spent import Kind, Spent
from zoo.data.tokenizer import configured_size
from zoo.errors import ConfigError
from zoo.plugins.source_hash import source_hashes
from zoo.slots import SLOTS

OF_BENCH = ("suite.", "ladder.")  # settings that say what is run, and are none of a run's


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One configuration, whatever its seed and the factor of its learning rate."""

    id: str
    name: str  # of the method or combination; "baseline" without one
    match: str  # how a baseline was matched; "method" for a method
    host: Host
    values: Mapping[str, Any]
    defaults: Mapping[str, Any]  # of the settings that are not bound
    parameters: int  # those that a gradient reaches
    flops: float  # per token, forward and backward
    causal: bool = True
    baselines: Mapping[str, str] = field(default_factory=dict)  # of a method: how matched → the arm
    code: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # method → the hashes that its source may have

    @property
    def steps(self) -> int:
        return int(self.values["train.steps"])

    @property
    def tokens_per_step(self) -> int:
        """The tokens of a step of one rank."""
        values = {**self.defaults, **self.values}
        return int(values["data.batch_size"] * values["data.length"] * values["train.accumulate"])

    @property
    def accelerated(self) -> bool:
        """Whether a run uses a GPU where there is one."""
        return {**self.defaults, **self.values}.get("train.device") != "cpu"

    @property
    def spent(self) -> Spent:
        """What the arm's training costs, as matches are judged by."""
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
        """The key of the run in a store: jobs with the same configuration are the same run."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        lr = "" if self.lr_factor == 1 else f", lr × {self.lr_factor:g}"
        return f"{self.arm.name} ({self.arm.match}, {self.arm.host}, seed {self.seed}{lr})"


def text_of(values: Mapping[str, Any]) -> str:
    """The Gin file that binds these values."""
    return HEADER + "".join(f"{key} = {render(values[key])}\n" for key in sorted(values))


def trained_longer(arm: Arm, factor: float) -> Arm:
    """The arm with this multiple of its steps."""
    values = {**arm.values, "train.steps": max(1, round(arm.steps * factor))}
    return replace(arm, id=_id(values), values=values)


def arms_of(
    files: Sequence[str],
    bindings: Sequence[str],
    suite: Suite,
    host: Host | None,
    label: str = "",
    costs: Callable[[], Mapping[str, StepCost]] = dict,
    counts: Counts | None = None,
) -> list[Arm]:
    """The baselines of the method that these files make, then the method. Without a host it is as the files say.

    `label` is the method's name where it has settings of its own; `costs` are measured step costs by arm, for baselines that
    are matched in time. `counts`, the same for several calls, keeps what was counted: methods share their baselines.
    """
    host_binding = [f"model.parallel = {host == 'parallel'}"] if host else []
    loaded = load_config(files, [*bindings, *host_binding])
    length, vocab_size = loaded.get("data.length"), configured_size({**loaded.defaults, **loaded.values})
    build = _counted_build(loaded, {} if counts is None else counts, vocab_size=vocab_size, max_length=length)
    values = _run_values(loaded, length)
    host = "parallel" if loaded.get("model.parallel") else "sequential"
    defaults = {key: value for key, value in loaded.defaults.items() if not key.startswith(OF_BENCH)}
    name = label or loaded.name
    ratio = functools.partial(_time_ratio, costs, _id(values), name) if loaded.plugins else lambda: 1.0
    baselines = {kind: _baseline(kind, build, values, defaults, length, host, ratio) for kind in suite.baselines}
    # One model may be the baseline of several kinds: the first of them is its match.
    arms = list({arm.id: arm for arm in reversed(baselines.values())}.values())
    if loaded.plugins:
        matched: dict[str, str] = {kind: arm.id for kind, arm in baselines.items()}
        arms.append(replace(_method(loaded, build, values, defaults, length, host, matched), name=name))
    return arms


def _counted_build(loaded: Config, counts: Counts, **sizes: Any) -> CountedBuild:
    """The model of a configuration, of these sizes; only the settings that make the model are compared."""
    makes_a_model = tuple(f"{name}." for name in ("model", *SLOTS))
    bound = {key: value for key, value in loaded.values.items() if key.startswith(makes_a_model)}
    given = {f"model.{size}": value for size, value in sizes.items()}
    return CountedBuild(functools.partial(loaded.build, "model", **sizes), rendered({**bound, **given}), counts)


def _run_values(loaded: Config, length: int) -> dict[str, Any]:
    """The values of a run: the budget in steps, so that an arm may have a multiple of it, and always the host."""
    values = {key: value for key, value in loaded.values.items() if not key.startswith(OF_BENCH)}
    settings = loaded.build("train")
    values["train.steps"] = settings.num_steps(loaded.get("data.batch_size") * length * settings.accumulate)
    values["train.lr"] = settings.lr
    values["model.parallel"] = loaded.get("model.parallel")
    values.pop("train.tokens", None)
    return values


def _id(values: Mapping[str, Any]) -> str:
    seedless = {key: value for key, value in values.items() if key != "train.seed"}
    return hashlib.sha256(text_of(seedless).encode()).hexdigest()[:12]


def _time_ratio(costs: Callable[[], Mapping[str, StepCost]], arm: str, name: str) -> float:
    """How much longer than the plain block's an arm's training step takes, as it was measured."""
    cost = costs().get(arm)
    if cost is None:
        raise ConfigError(
            f"suite.baselines has 'time', and how long a training step of {name} takes beside the plain block's has not been"
            " measured in this store: measure it first, with the same command and --costs"
        )
    return cost.time_ratio.value


def _baseline(
    kind: Kind,
    build: Any,
    values: Mapping[str, Any],
    defaults: Mapping[str, Any],
    length: int,
    host: Host,
    time_ratio: Callable[[], float],
) -> Arm:
    from zoo.counting.flops import training_cost
    from zoo.counting.matching import ffn_dim, find_match, plain_build

    match = find_match(build, length, kind, time_ratio)
    slots = tuple(f"{slot}." for slot in SLOTS) + tuple(f"model.{slot}" for slot in SLOTS)
    plain = {key: value for key, value in values.items() if not key.startswith(slots)}
    others = {key: value for key, value in defaults.items() if not key.startswith(slots)}
    built = plain_build(build)
    if match.ffn_dim != ffn_dim(built):
        plain["model.ffn_dim"] = match.ffn_dim
        built = functools.partial(built, ffn_dim=match.ffn_dim)
    plain["train.steps"] = max(1, round(values["train.steps"] * match.tokens))
    costs = training_cost(built, length)
    return Arm(
        id=_id(plain),
        name="baseline",
        match=kind,
        host=host,
        values=plain,
        defaults=others,
        parameters=costs.live,
        flops=costs.flops,
    )


def _method(
    loaded: Config,
    build: Any,
    values: Mapping[str, Any],
    defaults: Mapping[str, Any],
    length: int,
    host: Host,
    baselines: Mapping[str, str],
) -> Arm:
    from zoo.counting.flops import skeleton, training_cost

    costs = training_cost(build, length)
    causal = all(extension.causal for extension in skeleton(build).extensions())
    return Arm(
        id=_id(values),
        name=loaded.name,
        match="method",
        host=host,
        values=values,
        defaults=defaults,
        parameters=costs.live,
        flops=costs.flops,
        causal=causal,
        baselines=baselines,
        code={plugin.name: source_hashes(plugin) for plugin in loaded.plugins},
    )
