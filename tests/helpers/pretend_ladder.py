"""A ladder whose runs only pretend: their losses follow a law that the test knows."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

from helpers.pretend_bench import PretendLauncher, folder_of, leave_run

from zoo.bench.launch import TRAIN, Task
from zoo.config.values import parse_bindings

SETTINGS = [
    "suite.costs = False",
    "data.vocab_size = 300",
    "data.length = 16",
    "ladder.aspect = 8",
    "ladder.tokens_per_parameter = 2",
]
LADDER = """
ladder.depths = (1, 2, 3)
ladder.seeds = (3, 3, 2)
ladder.gain = "wr_mean"
ladder.harm = "skip_scalar_0"
suite.baselines = ("none",)
"""


def plain_loss(size: float, tokens: float) -> float:
    """The loss of the plain block in this world, always below the entropy that pretended runs note."""
    return 2.0 + 3.0 * size**-0.2 + 3.0 * tokens**-0.2


class LadderLauncher(PretendLauncher):
    """Leaves runs whose loss follows from their size, tokens, seed and method."""

    def __init__(
        self, kappas: dict[str, float], deviation: float = 0.001, best_rates: dict[str, float] | None = None
    ) -> None:
        """True multipliers by method, and log₂ of the best factors of their rates; None: no rate matters."""
        super().__init__()
        self.kappas, self.deviation, self.best_rates = kappas, deviation, best_rates
        self.perform = self.pretend_run

    def pretend_run(self, task: Task) -> None:
        self.titles.append(task.title)
        if task.module != TRAIN:
            for folder in task.arguments:
                (Path(folder) / "test.json").write_text('{"loss": null}')  # a corpus without a test split
            return
        values = parse_bindings(Path(task.arguments[1]).read_text())
        depth, steps = int(values["model.depth"]), int(values["train.steps"])
        size = 12 * (int(values["model.aspect"]) * depth) ** 2 * depth
        tokens = (
            steps
            * int(values["data.batch_size"])
            * int(values["data.length"])
            * int(values.get("train.accumulate", "1"))
        )
        name = task.title.partition(" ")[0]
        factor = math.sqrt(self.kappas.get(name, 1.0))
        noise = random.Random(task.title + str(depth) + str(steps)).gauss(0, self.deviation)
        loss = plain_loss(size * factor, tokens * factor) + noise
        if self.best_rates is not None:
            tried = re.search(r"lr × ([\d.]+)", task.title)
            loss += 0.01 * (math.log2(float(tried[1]) if tried else 1.0) - self.best_rates.get(name, 0.0)) ** 2
        leave_run(folder_of(task), loss, steps, tokens)
