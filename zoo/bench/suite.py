"""A suite: which methods are judged, where, how often, against what."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import gin

from zoo.counting.spent import Kind
from zoo.errors import ConfigError

Host = Literal["sequential", "parallel"]


@gin.register("suite", module="zoo")
@dataclass(frozen=True)
class Suite:
    """What a bench runs; size, corpus, tokens and the rest of the file hold for every arm.

    methods: the names of Gin files; a combination joins them with +, and one may have settings of its own: NAME(n=6).
    hosts: the blocks to try every method in; `parallel` has attention and FFN side by side.
    seeds (at least 1): the number of seeds, 1, 2, … for every method.
    control_seeds (at least 1): the number of seeds of every baseline, at least `seeds`; None: √m times `seeds` for one that
        m methods are compared with.
    looks (at least 2): the numbers of seeds at which `--until-decided` looks, growing.
    lrs (above 0): multiples of `train.lr`, tried for every arm on seed 0, by which nothing is judged.
    widenings (at least 0): how many times the rates of `lrs`, at least three, are widened, for all arms, while the loss of an
        arm is lowest at the edge of them.
    tie_seeds (at least 0): further seeds, by which nothing is judged, on which those rates of an arm are tried that tie; the
        lowest mean decides.
    tie (above 0): the part of the loss by which two rates may differ and tie.
    baselines: what the plain block is matched in: nothing, parameters, FLOPs per token; or by training longer: as many FLOPs
        (`tokens`), or as much time (`time`), for which the costs of a step must have been measured.
    costs: also measure time and memory of every arm's training step, in turns with the plain block's.
    margin (above 0): the smallest difference of losses that matters, in nats per token; None: the larger of 0.005 and what
        1 % more compute is worth to the plain block.
    twins: pairs of methods that are the same function. They share their start, so their difference is rounding: it proves the
        arithmetic, and is not the noise between seeds.
    """

    methods: tuple[str, ...] = ()
    hosts: tuple[Host, ...] = ("sequential",)
    seeds: int = 3
    control_seeds: int | None = None
    looks: tuple[int, ...] = (3, 5, 8)
    lrs: tuple[float, ...] = (1.0,)
    widenings: int = 0
    tie_seeds: int = 0
    tie: float = 0.003
    baselines: tuple[Kind, ...] = ("none", "parameters", "flops")
    costs: bool = True
    margin: float | None = None
    twins: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError(f"suite.seeds = {self.seeds} must be at least 1")
        if self.control_seeds is not None and self.control_seeds < 1:
            raise ConfigError(f"suite.control_seeds = {self.control_seeds} must be at least 1")
        if not self.looks or self.looks[0] < 2 or list(self.looks) != sorted(set(self.looks)) or len(self.looks) > 10:
            raise ConfigError(f"suite.looks = {self.looks} must be growing numbers of seeds, from 2 on, at most ten")
        if not self.lrs or not all(0 < factor < math.inf for factor in self.lrs) or len(set(self.lrs)) < len(self.lrs):
            raise ConfigError(f"suite.lrs = {self.lrs} must be positive multiples of train.lr, at least one, each once")
        if self.widenings < 0:
            raise ConfigError(f"suite.widenings = {self.widenings} must be at least 0")
        if self.widenings and len(self.lrs) < 3:
            raise ConfigError(
                f"suite.widenings = {self.widenings} needs at least three rates to know where a loss is lowest, and suite.lrs"
                f" has {len(self.lrs)}: write suite.lrs = (0.5, 1.0, 2.0)"
            )
        if self.tie_seeds < 0:
            raise ConfigError(f"suite.tie_seeds = {self.tie_seeds} must be at least 0, a number of further seeds")
        if not 0 < self.tie < 1:
            raise ConfigError(
                f"suite.tie = {self.tie} must be above 0 and below 1, a part of the loss: write suite.tie = 0.003"
            )
        if not self.hosts:
            raise ConfigError('suite.hosts must name "sequential", "parallel" or both')
        if self.margin is not None and not 0 < self.margin < math.inf:
            raise ConfigError(
                f"suite.margin = {self.margin} must be a positive number of nats per token, the smallest difference that"
                " matters; without it the margin is taken from the plain block's training curve"
            )
