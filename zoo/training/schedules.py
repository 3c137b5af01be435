"""The learning-rate schedules that `train.schedule` chooses from, and the periods of a run.

A schedule is a function of the step alone, so a run resumes in any of its phases. Another one is a function and its entry
in the table below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from zoo.errors import SettingError

if TYPE_CHECKING:
    from zoo.training.update_settings import UpdateSettings

Schedule = Callable[[int, int, "UpdateSettings"], float]  # step from 1, steps in all → the factor of the learning rate


class Period(NamedTuple):
    """A part of a run at whose end the weights are those of a run of so many steps, with its learning rate gone down."""

    multiple: float  # of the base budget
    start: int  # the steps before it
    end: int  # its last step

    def decay(self, part: float) -> int:
        """The steps in which the rate goes down."""
        return max(1, round(part * (self.end - self.start)))


def learning_rate(step: int, steps: int, settings: UpdateSettings) -> float:
    """The learning rate at step 1 … steps, before a parameter's own factor."""
    return settings.lr * SCHEDULES[settings.schedule](step, steps, settings)


def cosine(step: int, steps: int, settings: UpdateSettings) -> float:
    """The factor of a linear warm-up, then of a cosine down to the final fraction."""
    warm, final = warmup_steps(steps, settings), settings.final_lr
    if step <= warm:
        return step / warm
    done = (step - warm) / max(1, steps - warm)
    return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2


def stable(step: int, steps: int, settings: UpdateSettings) -> float:
    """The factor of a linear warm-up, then 1, but a line to 0 at the end of every period; then 1 again."""
    warm = warmup_steps(steps, settings)
    if step <= warm:
        return step / warm
    period = next(period for period in periods(steps, settings) if step <= period.end)
    return min(1.0, (period.end - step) / period.decay(settings.decay))


def warmup_steps(steps: int, settings: UpdateSettings) -> int:
    """The steps in which the rate rises."""
    return max(1, round(settings.warmup * steps))


SEVERAL = "wsd_s"  # the schedule that has several budgets out of one run
SCHEDULES: dict[str, Schedule] = {"cosine": cosine, "wsd": stable, SEVERAL: stable}


def periods(steps: int, settings: UpdateSettings) -> tuple[Period, ...]:
    """The periods of a run, one after the other; of most schedules there is one."""
    if settings.schedule != SEVERAL:
        return (Period(1.0, 0, steps),)
    budgets = settings.budgets
    ends = [round(steps * budget / budgets[-1]) for budget in budgets]
    return tuple(map(Period, budgets, [0, *ends[:-1]], ends))


def check_periods(steps: int, settings: UpdateSettings) -> None:
    """Refuse a run that is too short for its phases."""
    if SCHEDULES[settings.schedule] is not stable:
        return
    of_run = periods(steps, settings)
    if shortest := [period for period in of_run if period.end - period.start < 2]:
        raise SettingError(
            "train.schedule",
            f" = {settings.schedule!r}: the period that ends at step {shortest[0].end:,} of {steps:,} has fewer than 2"
            " steps: train longer, or with fewer budgets (train.budgets)",
        )
    first, warm = of_run[0], round(settings.warmup * steps)
    if warm > (begin := first.end - first.decay(settings.decay)):
        raise SettingError(
            "train.warmup",
            f" = {settings.warmup:g}: the warm-up takes {warm:,} of {steps:,} steps, and the first decay of the schedule"
            f" {settings.schedule!r} begins after step {begin:,}: warm up for a smaller part, or train longer",
        )
