"""A suite: which methods are judged, where, how often, against what."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import gin

from zoo.errors import ConfigError

Host = Literal["sequential", "parallel"]
Kind = Literal["none", "parameters", "flops", "tokens"]  # of match


class Spent(NamedTuple):
    """What training a model takes, and what a baseline is matched in."""

    parameters: int
    flops: float  # of a token
    trained: int  # steps or tokens

    def off_by(self, method: Spent, kind: str) -> float:
        """How far this baseline is from the method that it was matched to, relative."""
        had = {
            "parameters": self.parameters / method.parameters,
            "flops": self.flops / method.flops,
            "tokens": self.flops * self.trained / (method.flops * method.trained),
        }
        return had.get(kind, 1.0) - 1


@gin.register("suite", module="zoo")
@dataclass(frozen=True)
class Suite:
    """What a bench runs; size, corpus, tokens and the rest of the file hold for every arm."""

    methods: tuple[str, ...] = ()  # names of Gin files; a combination joins them with +
    hosts: tuple[Host, ...] = ("sequential",)
    seeds: int = 3  # 1, 2, … for every arm
    lrs: tuple[float, ...] = (1.0,)  # multiples of train.lr tried for every arm, on its first seed
    baselines: tuple[Kind, ...] = ("none", "parameters", "flops")  # tokens: as many FLOPs by training longer
    costs: bool = True  # also measure time and memory of every arm's step beside the plain block's
    twins: tuple[tuple[str, str], ...] = ()  # methods that are the same function: their difference is noise

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ConfigError(f"suite.seeds = {self.seeds} must be at least 1")
        if not self.lrs or not all(0 < factor < math.inf for factor in self.lrs) or len(set(self.lrs)) < len(self.lrs):
            raise ConfigError(f"suite.lrs = {self.lrs} must be positive multiples of train.lr, at least one, each once")
        if not self.hosts:
            raise ConfigError('suite.hosts must name "sequential", "parallel" or both')
