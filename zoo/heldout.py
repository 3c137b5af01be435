"""The test split, once a run: `python -m zoo.heldout RUN…` keeps each run's loss in its folder."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from zoo.stop import end_with_bench

if TYPE_CHECKING:
    from zoo.data import Data

FILE = "test.json"


class Held(NamedTuple):
    """What a run made of the test split."""

    loss: float | None  # nats a token; None where the corpus has no test split, or …
    diverged: bool = False  # … it was not finite


def kept(folder: Path) -> Held | None:
    """What the run in this folder made of it, if it has been there."""
    file = folder / FILE
    return Held(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None


def hold(folder: Path, known: dict[str, Data]) -> None:
    """Measure the run's last weights on the test split and keep what came of it; never twice.

    Runs of one bench read the same text, which is read once: `known` holds it.
    """
    if kept(folder) is not None:
        return
    import torch

    from zoo.errors import DataError
    from zoo.files import write_atomically
    from zoo.folder import check_identity, identity, versions
    from zoo.trained import open_run

    run = open_run(folder)
    which = repr([each for each in run.config.whole().items() if each[0].startswith("data.")])
    if which not in known:
        known[which] = run.config.build("data")
    data = known[which]
    check_identity(folder, identity(data, versions(folder)["world_size"]))
    found = Held(None)
    try:
        nll, count = 0.0, 0
        device = next(run.model.parameters()).device
        with torch.no_grad():
            for tokens, targets in data.evaluate("test"):
                part = run.model.evaluate(tokens.to(device), targets.to(device))
                nll, count = nll + part.nll.item(), count + part.targets
        loss = nll / count
        found = Held(loss) if math.isfinite(loss) else Held(None, diverged=True)
    except DataError:
        pass
    write_atomically(folder / FILE, json.dumps(found._asdict()) + "\n")


def main(folders: list[str]) -> int:
    from zoo.errors import ZooError

    known: dict[str, Data] = {}
    try:
        for folder in folders:
            hold(Path(folder), known)
    except ZooError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    end_with_bench()
    sys.exit(main(sys.argv[1:]))
