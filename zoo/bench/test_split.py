"""The test split, once per run: `python -m zoo.bench.test_split RUN…` writes each run's loss to its folder."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zoo.training.signals import end_with_bench

if TYPE_CHECKING:
    from zoo.data.batches import Data

FILE = "test.json"


class TestLoss(NamedTuple):
    """The outcome of a run on the test split."""

    loss: float | None  # nats per token; None where the corpus has no test split, or it was not finite
    diverged: bool = False  # it was not finite


def read_test_loss(folder: Path) -> TestLoss | None:
    """The loss of the run in this folder, if it was measured; a file that cannot be read holds none."""
    try:
        row = json.loads((folder / FILE).read_bytes())
        loss, diverged = row["loss"], row.get("diverged", False)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if not isinstance(diverged, bool) or not (loss is None or (type(loss) is float and math.isfinite(loss))):
        return None
    return TestLoss(loss, diverged)


def measure_test_loss(folder: Path, known: dict[str, Data]) -> None:
    """Measure the run's last weights on the test split and write the outcome to its folder; never twice.

    `known` holds the data of earlier runs: those of one bench read the same corpus, which is read once.
    """
    if read_test_loss(folder) is not None:
        return
    import torch

    from zoo.errors import DataError
    from zoo.generation.open_run import open_run
    from zoo.runs.run_folder import check_identity, identity
    from zoo.system.files import write_atomically

    run = open_run(folder)
    which = repr([each for each in run.config.whole().items() if each[0].startswith("data.")])
    if which not in known:
        known[which] = run.config.build("data")
    data = known[which]
    check_identity(folder, identity(data))
    result = TestLoss(None)
    try:
        loss = 0.0
        device = next(run.model.parameters()).device
        with torch.no_grad():
            for each in data.evaluations("test"):
                nll, count = 0.0, 0
                for tokens, targets in (one for batch in each.batches for one in data.passes(*batch)):
                    part = run.model.evaluate(tokens.to(device), targets.to(device))
                    nll, count = nll + part.nll.item(), count + part.targets
                loss += each.share * nll / count
        result = TestLoss(loss) if math.isfinite(loss) else TestLoss(None, diverged=True)
    except DataError:
        pass
    write_atomically(folder / FILE, json.dumps(result._asdict()) + "\n")


def main(folders: list[str]) -> int:
    from zoo.errors import ZooError

    known: dict[str, Data] = {}
    failures = 0
    for folder in folders:
        try:
            measure_test_loss(Path(folder), known)
        except (ZooError, OSError, ValueError, KeyError, TypeError) as error:  # a damaged run costs no other its test
            reason = error if isinstance(error, ZooError) else f"{type(error).__name__}: {error}"
            print(f"{folder}: {reason}", file=sys.stderr)
            failures += 1
    return 2 if failures else 0


if __name__ == "__main__":
    end_with_bench()
    sys.exit(main(sys.argv[1:]))
