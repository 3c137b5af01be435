"""A ladder: sizes by rule from one dial, at each of which methods are judged against the plain block."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import gin

from zoo.errors import ConfigError

MOST_SEEDS = 99  # the seeds from 101 on are those of the plain block against itself


@gin.register("ladder", module="zoo")
@dataclass(frozen=True)
class Ladder:
    """Rungs by rule; methods, hosts and learning rates are those of `suite`, the rest of the file holds for every run.

    depths (two or more, rising): the dial of each rung: width = depth · aspect, N = 12 · width² · depth parameters without
        embeddings; batch, learning rate, warm-up and β₂ follow from N.
    aspect (at least 1): the width per block of depth, and the width of a head.
    tokens_per_parameter (above 0): the tokens of a run, as a multiple of N.
    seeds (from 1 to 99, one per rung): the number of seeds, 1, 2, … of every arm at each rung.
    looks (rising): the numbers of seeds after which the two smallest rungs are looked at, in place of their `seeds`: a method
        whose verdict is clear there, or hopeless, gets no further seed; () for none.
    budgets (above 0, three with 1): the multiples of a rung's tokens that the plain block is also trained for, which show what
        tokens are worth at a fixed size.
    most_rows (at least 1): the largest number of rows in a batch; a larger batch is accumulated. None: any.
    most_epochs (above 0): how many times a run may read the corpus: from about 4 times on, text that is read again counts for
        clearly less than new text. A ladder whose longest run would read it more often is refused before anything is run.
    gain: a method whose gain is known: the ladder must find it.
    harm: a method that is known to do harm: the ladder must find that too.
    margin (above 0): the part of the compute that is too little to matter: 0.02 for κ from 1/1.02 to 1.02.
    """

    depths: tuple[int, ...] = ()
    aspect: int = 32
    tokens_per_parameter: float = 20.0
    seeds: tuple[int, ...] = ()
    looks: tuple[int, ...] = ()
    budgets: tuple[float, ...] = (0.5, 1.0, 2.0)
    most_rows: int | None = None
    most_epochs: float = 4.0
    gain: str = ""
    harm: str = ""
    margin: float = 0.02

    def __post_init__(self) -> None:
        self._check_rungs()
        self._check_seeds()
        if not self.budgets or not all(0 < each < math.inf for each in self.budgets):
            raise ConfigError(f"ladder.budgets = {self.budgets} must be multiples of a rung's tokens, above 0")
        if len({1.0, *self.budgets}) < 3:
            raise ConfigError(
                f"ladder.budgets = {self.budgets} has too few values: what tokens are worth takes three budgets, a rung's own"
                " (1) and two others, as in (0.5, 1.0, 2.0); without them κ_data is not known, nor whether the control with"
                " 10 % more tokens comes to 1.10"
            )
        if self.most_rows is not None and self.most_rows < 1:
            raise ConfigError(f"ladder.most_rows = {self.most_rows} must be at least 1")
        if not self.most_epochs > 0:
            raise ConfigError(f"ladder.most_epochs = {self.most_epochs:g} must be above 0")
        for control in ("gain", "harm"):
            if not getattr(self, control):
                raise ConfigError(
                    f"ladder.{control} must name a method whose {control} is known: every ladder has its controls"
                )
        if self.gain == self.harm:
            raise ConfigError(
                f"ladder.gain and ladder.harm are both {self.gain}: one method is no control for a gain and for a harm"
            )
        if not 0 < self.margin < math.inf:
            raise ConfigError(
                f"ladder.margin = {self.margin:g} must be above 0: the part of the compute that is too little to matter,"
                " such as 0.02; nothing is ever shown to be exactly the same"
            )

    def _check_rungs(self) -> None:
        if len(self.depths) < 2:
            rungs = "one rung" if self.depths else "no rung"
            raise ConfigError(
                f"ladder.depths = {self.depths} has {rungs}: a ladder compares sizes, so name two or more, or a suite for one"
            )
        if min(self.depths) < 1 or self.aspect < 1:
            raise ConfigError(f"ladder.depths = {self.depths} and ladder.aspect = {self.aspect} must be at least 1")
        if not all(one < other for one, other in itertools.pairwise(self.depths)):
            raise ConfigError(
                f"ladder.depths = {self.depths} are out of order: name every rung once, from the smallest to the largest"
            )
        if not 0 < self.tokens_per_parameter < math.inf:
            raise ConfigError(f"ladder.tokens_per_parameter = {self.tokens_per_parameter:g} must be above 0")

    def _check_seeds(self) -> None:
        if len(self.seeds) != len(self.depths):
            raise ConfigError(
                f"ladder.seeds = {self.seeds} must have one number per rung, and ladder.depths has {len(self.depths)}"
            )
        for rung, count in enumerate(self.seeds, start=1):
            if not 1 <= count <= MOST_SEEDS:
                raise ConfigError(
                    f"ladder.seeds = {self.seeds}: rung {rung} must have 1 to {MOST_SEEDS} seeds,"
                    " which the method and the plain block have in common"
                )
        rising = all(one < other for one, other in itertools.pairwise((0, *self.looks, MOST_SEEDS + 1)))
        if not rising:
            raise ConfigError(
                f"ladder.looks = {self.looks} must be numbers of seeds from 1 to {MOST_SEEDS}, each larger than the one before"
            )
        if max(*self.seeds, *self.looks) < 2:
            raise ConfigError(
                f"ladder.seeds = {self.seeds}: with one seed at every rung nothing says how large the noise is; give one rung"
                " two or more"
            )
