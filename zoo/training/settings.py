"""How to train, whatever is trained: what Gin configures as `train`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import gin

from zoo.errors import check_setting, nearest
from zoo.training.optimizer import OPTIMIZERS
from zoo.training.parallel import PARALLEL
from zoo.training.schedules import SCHEDULES, SEVERAL, check_periods

MOST = 10**15  # of steps, tokens and the like: beyond it floats no longer count one by one


@gin.register("train", module="zoo")
@dataclass(frozen=True)
class Settings:
    """How to train, whatever is trained.

    steps (at least 1): the number of steps of the optimiser.
    tokens (at least 1): the same budget in tokens; when it is given, it decides instead of `steps`.
    seed (from 0 to below 2⁶³): the seed of the first weights, of the order of the data, and of dropout.
    optimizer (one of 'adamw', 'muon'): what updates the weights; `muon` is for the matrices of blocks, and AdamW for the rest.
    schedule (one of 'cosine', 'wsd', 'wsd_s'): the curve of the learning rate after the warm-up: a cosine down to `final_lr`;
        or constant, and a line to 0 at the end; or that several times, at the end of each of `budgets`.
    lr (at least 0): the learning rate after the warm-up, where it is highest.
    warmup (from 0 to 1): the part of the steps in which the learning rate rises: 0.05 for 5 % of them.
    final_lr (from 0 to 1): what the learning rate falls to in the end, as a part of `lr`; of the cosine alone.
    decay (above 0, at most 1): the part of a period in which the learning rate of `wsd` and `wsd_s` falls to 0: its last 10 %.
    budgets (above 0, rising): the periods of `wsd_s`, as multiples of one base budget; the last one is the whole run, and the
        loss at the end of each is recorded.
    betas (from 0 to below 1): how slowly AdamW forgets: its mean of the gradients, and that of their squares.
    eps (at least 0): what AdamW adds to the denominator.
    momentum (from 0 to below 1): how slowly Muon forgets its mean of the gradients.
    weight_decay (at least 0): the decay of matrices; a parameter may ask to be left out.
    decay_embeddings: let the token embedding and the output projection decay as other matrices do.
    clip (at least 0): the largest norm of the gradient; 0: any.
    z_loss (at least 0): the weight of the mean squared log-sum of the logits in the training loss, which keeps logits small.
    accumulate (at least 1): the number of batches per step, on each rank.
    device: what to train on; `auto` is CUDA where there is a device, else the CPU.
    precision: the precision of the forward pass; `auto` is bfloat16 on CUDA, else float32.
    parallel (one of 'ddp', 'fsdp'): what several ranks do with the model: each holds all of it, or each holds a part of its
        matrices, their gradients and what the optimiser keeps of them (docs/gpu.md).
    compile: compile the stack of blocks with torch.compile.
    checkpoint_activations: compute the activations again in the backward pass: less memory, more time.
    validate_every (at least 1): the number of steps between validations; the last step is always validated.
    patience (at least 0): stop after so many validations in a row without a better loss; 0: never.
    min_delta (at least 0): by how much a validation loss must be lower to count as better, in nats per token.
    max_skipped (at least 1): the number of consecutive non-finite steps after which a run counts as diverged.
    log_every (at least 1): the number of steps between rows in metrics.jsonl and TensorBoard.
    save_every (at least 1): the number of steps between checkpoints; the end and a signal to stop write one too.
    keep_checkpoints (at least 1): how many checkpoints to keep, the newest ones; may be changed when a run resumes.
    rank_timeout (from 1 to 1,000,000): the seconds that ranks wait for one that does not answer before all of them end; may
        be changed when a run resumes.
    """

    steps: int = 1000
    tokens: int | None = None
    seed: int = 1

    optimizer: str = "adamw"
    schedule: str = "cosine"
    lr: float = 3e-3
    warmup: float = 0.05
    final_lr: float = 0.1
    decay: float = 0.1
    budgets: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    momentum: float = 0.95
    weight_decay: float = 0.1
    decay_embeddings: bool = True
    clip: float = 1.0
    z_loss: float = 0.0
    accumulate: int = 1

    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    parallel: Literal["ddp", "fsdp"] = "ddp"
    compile: bool = False
    checkpoint_activations: bool = False

    validate_every: int = 100
    patience: int = 0
    min_delta: float = 0.0
    max_skipped: int = 10

    log_every: int = 10
    save_every: int = 200
    keep_checkpoints: int = 2

    rank_timeout: float = 600.0

    def __post_init__(self) -> None:
        self._check_name("optimizer", OPTIMIZERS)
        self._check_name("schedule", SCHEDULES)
        self._check_name("parallel", PARALLEL)
        self._check(
            "compile",
            not (self.compile and self.parallel == "fsdp"),
            "False with train.parallel = 'fsdp', which gathers the weights of each block while the stack runs",
        )
        at_least_one = (
            "steps",
            "accumulate",
            "validate_every",
            "max_skipped",
            "log_every",
            "save_every",
            "keep_checkpoints",
        )
        not_negative = ("lr", "eps", "weight_decay", "clip", "z_loss", "patience", "min_delta", "seed")
        for name in at_least_one:
            self._check(name, 1 <= getattr(self, name) <= MOST, f"at least 1 and at most {MOST:,}")
        self._check("seed", self.seed < 1 << 63, "below 2⁶³")
        for name in not_negative:
            self._check(name, 0 <= getattr(self, name) < math.inf, "a number that is not negative")
        self._check("rank_timeout", 1 <= self.rank_timeout <= 1e6, "a number of seconds from 1 to 1,000,000")
        self._check("warmup", 0 <= self.warmup <= 1, "between 0 and 1: it is a part of the steps")
        self._check("final_lr", 0 <= self.final_lr <= 1, "between 0 and 1: it is a part of train.lr")
        self._check("decay", 0 < self.decay <= 1, "above 0 and at most 1: it is a part of a period")
        self._check("momentum", 0 <= self.momentum < 1, "from 0 to below 1")
        self._check_budgets()
        self._check("tokens", self.tokens is None or 1 <= self.tokens <= MOST, f"at least 1 and at most {MOST:,}")
        self._check(
            "betas", len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas), "two numbers from 0 to below 1"
        )

    def _check_budgets(self) -> None:
        rising = all(one < other for one, other in itertools.pairwise((0.0, *self.budgets, math.inf)))
        self._check("budgets", bool(self.budgets) and rising, "numbers above 0, each larger than the one before")
        if self.schedule == SEVERAL:
            self._check(
                "patience", not self.patience, f"0: with {SEVERAL!r} the loss rises after every period but the last"
            )

    def _check(self, name: str, fits: bool, expected: str) -> None:
        check_setting(f"train.{name}", getattr(self, name), fits, expected)

    def _check_name(self, name: str, known: Iterable[str]) -> None:
        value = getattr(self, name)
        self._check(name, value in known, f"one of {', '.join(map(repr, known))}{nearest(value, known)}")

    def num_steps(self, tokens_per_step: int) -> int:
        """The budget in steps."""
        steps = self.steps if self.tokens is None else max(1, -(-self.tokens // tokens_per_step))
        check_periods(steps, self)
        return steps
