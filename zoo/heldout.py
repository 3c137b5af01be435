"""The test split, once a run: `python -m zoo.heldout RUN…` prints a loss a line, as JSON, and keeps each in its run's folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

FILE = "test.json"


def test_loss(folder: Path) -> float | None:
    """Nats a token on the test split with the last weights, or None where the corpus has no test split."""
    file = folder / FILE
    if file.exists():
        kept: float | None = json.loads(file.read_text())["loss"]
        return kept
    import torch

    from zoo.errors import DataError
    from zoo.files import write_atomically
    from zoo.trained import open_run

    run = open_run(folder)
    data = run.config.build("data")
    loss: float | None
    try:
        nll, count = 0.0, 0
        device = next(run.model.parameters()).device
        with torch.no_grad():
            for tokens, targets in data.evaluate("test"):
                part = run.model.evaluate(tokens.to(device), targets.to(device))
                nll, count = nll + part.nll.item(), count + part.targets
        loss = nll / count
    except DataError:
        loss = None
    write_atomically(file, json.dumps({"loss": loss}) + "\n")
    return loss


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        print(json.dumps({"loss": test_loss(Path(folder))}), flush=True)
