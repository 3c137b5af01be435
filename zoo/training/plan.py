"""What a run will do, in numbers, and where each of them comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zoo.config.values import render
from zoo.system.table import Table
from zoo.training.schedules import periods, warmup_steps

if TYPE_CHECKING:
    from zoo.config.configuration import Config
    from zoo.training.settings import Settings


def plan_table(config: Config) -> Table:
    """Every number that the recipe derives, with its formula, and the budget that follows."""
    rows = [
        (each.name, _text(each.value), each.formula + (f" ({each.bound})" if each.bound else ""))
        for each in config.recipe
    ]
    return Table("Recipe" if config.recipe else "Budget", ("number", "value", "formula"), (*rows, *_budget(config)))


def _budget(config: Config) -> list[tuple[str, str, str]]:
    """Steps and tokens of a run on one rank, and its phases."""
    settings: Settings = config.build("train")
    config.build("records")  # what is wrong there is said now, not when the run begins
    length, rows = config.get("data.length"), config.get("data.batch_size")
    per_step = length * rows * settings.accumulate
    steps = settings.num_steps(per_step)
    parts = f" · {settings.accumulate} (train.accumulate)" if settings.accumulate > 1 else ""
    table = [
        ("tokens per step", _text(per_step), f"data.batch_size · data.length{parts}"),
        ("tokens", _text(steps * per_step), f"{steps:,} steps"),
        ("warm-up", f"{warmup_steps(steps, settings):,} steps", "train.warmup of the steps"),
    ]
    for period in periods(steps, settings):
        tokens = f"{period.end * per_step:,} tokens"
        table.append(
            (f"budget × {period.multiple:g}", tokens, f"to step {period.end:,}, schedule {settings.schedule!r}")
        )
    return table


def _text(value: Any) -> str:
    return f"{value:,}" if type(value) is int else render(value)
