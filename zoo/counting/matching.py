"""The plain model that has as many parameters or FLOPs as a method's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from zoo.counting.flops import Build, skeleton, training_cost
from zoo.counting.spent import Kind
from zoo.errors import ZooError
from zoo.slots import SLOTS


class Match(NamedTuple):
    """A plain model that matches a method's in something: in parameters, or in FLOPs per token of the method."""

    kind: Kind
    ffn_dim: int
    tokens: float  # to be trained on, as a multiple of the method's
    method: float  # what the method has
    baseline: float  # what the plain model has

    @property
    def difference(self) -> float:
        return self.baseline - self.method

    @property
    def relative(self) -> float:
        return self.difference / self.method


def plain_build(build: Build) -> Build:
    """The same model without any method, in the same host."""
    return functools.partial(build, **dict.fromkeys(SLOTS))


def find_match(build: Build, length: int, kind: Kind, time_ratio: Callable[[], float] | None = None) -> Match:
    """The plain model that matches in `kind`.

    `time_ratio` gives the time of the method's training step over that of the plain model's, which only `time` asks for.
    """
    kinds: dict[Kind, Callable[[], Match]] = {
        "none": lambda: as_it_is(build, length),
        "parameters": lambda: by_parameters(build, length),
        "flops": lambda: by_flops(build, length),
        "tokens": lambda: by_tokens(build, length),
    }
    if time_ratio is not None:
        kinds["time"] = lambda: by_time(build, time_ratio())
    if kind not in kinds:
        raise ZooError(f"a baseline is matched by {', '.join(kinds)}, not by {kind}")
    return kinds[kind]()


def as_it_is(build: Build, length: int) -> Match:
    """The plain model of the same sizes, matched in nothing."""
    plain = plain_build(build)
    return Match(
        kind="none",
        ffn_dim=ffn_dim(plain),
        tokens=1.0,
        method=live_parameters(build, length),
        baseline=live_parameters(plain, length),
    )


def by_parameters(build: Build, length: int) -> Match:
    """The plain model that has as many parameters that learn, or as nearly as many as one width of the FFN allows."""

    def live(each: Build) -> int:
        return live_parameters(each, length)

    return _widen("parameters", build, live, live(build))


def live_parameters(build: Build, length: int) -> int:
    """The parameters of the model that a gradient reaches: what is idle makes no model larger."""
    return training_cost(build, length).live


def by_flops(build: Build, length: int) -> Match:
    """The plain model that takes as many FLOPs per token, by the width of its FFN."""

    def flops(each: Build) -> float:
        return training_cost(each, length).flops

    return _widen("flops", build, flops, flops(build))


def by_tokens(build: Build, length: int) -> Match:
    """The plain model as it is, for as many more tokens (or fewer) as the method's FLOPs would pay for."""
    plain = plain_build(build)
    flops, per_token = training_cost(build, length).flops, training_cost(plain, length).flops
    return Match(kind="tokens", ffn_dim=ffn_dim(plain), tokens=flops / per_token, method=flops, baseline=flops)


def by_time(build: Build, ratio: float) -> Match:
    """The plain model as it is, trained for as long: a step of the method takes `ratio` times as long as one of its own.

    The ratio counts in hundredths: measured again, it would hardly ever be the same to the last digit.
    """
    steps = max(0.01, round(ratio, 2))
    return Match(kind="time", ffn_dim=ffn_dim(plain_build(build)), tokens=steps, method=ratio, baseline=steps)


def ffn_dim(build: Build) -> int:
    """The inner width of the FFN of the model."""
    block: Any = skeleton(build).layers[0]
    width: int = block.layer.ffn_dim
    return width


def _widen(kind: Kind, build: Build, count: Callable[[Build], float], target: float) -> Match:
    """The plain model whose count is nearest to the target, by the width of its FFN."""

    def at(width: int) -> float:
        return count(functools.partial(plain_build(build), ffn_dim=width))

    start = ffn_dim(plain_build(build))
    here = at(start)
    each = at(start + 1) - here  # every further unit costs the same
    width = start + round((target - here) / each)
    if width < 1:
        raise ZooError(
            f"no plain model has as few {kind} as this one: {target:,.0f}, and without its FFN it still has"
            f" {here - start * each:,.0f}"
        )
    return Match(kind=kind, ffn_dim=width, tokens=1.0, method=target, baseline=at(width))
