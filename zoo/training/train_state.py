"""How far a training run has come: everything a checkpoint keeps besides weights and moments."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class TrainState:
    """Where a run stands: plain values, the same on every rank."""

    step: int = 0
    tokens: int = 0
    validated: int = 0  # the step of the last validation
    valid: dict[str, float] = field(default_factory=dict)  # its figures
    budgets: list[dict[str, Any]] = field(default_factory=list)  # the figures at the end of every period so far
    best: float = math.inf
    best_step: int = 0
    since_best: int = 0  # validations
    skipped: int = 0
    skipped_in_a_row: int = 0
    alarm: str = ""  # how the model was seen to leak
    remark: str = ""  # what is odd about its figures, but no leak
    bad_validations: int = 0  # whose loss was not finite
    bad_validation: str = ""  # what was wrong in the first of them, or in the first of the last ones
    bad_probes: list[str] = field(default_factory=list)  # names of probes that were not finite
    blew_up: str = ""  # where the first non-finite number of the last skipped steps stood
    train_loss: float = math.nan  # as last logged
    window_loss: float = 0.0  # the sum over the steps since then
    window_steps: int = 0
    train_seconds: float = 0.0  # in training steps alone
    seconds: float = 0.0  # in everything
