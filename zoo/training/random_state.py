"""Where a run's chance comes from, and how it is put back."""

from __future__ import annotations

import random
from typing import Any


def seed(number: int) -> None:
    """Seed every global random number generator."""
    import numpy
    import torch

    torch.manual_seed(number)  # all devices
    random.seed(number)
    numpy.random.seed(number % 2**32)


def random_state() -> dict[str, Any]:
    """The state of every global random number generator, as tensors and plain values."""
    import numpy
    import torch

    kind, keys, position, has_gauss, cached = numpy.random.get_state(legacy=True)
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": (str(kind), [int(key) for key in keys], int(position), int(has_gauss), float(cached)),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Return to a state that `random_state` gave."""
    import numpy
    import torch

    torch.set_rng_state(state["torch"].cpu())
    version, keys, gauss = state["python"]
    random.setstate((version, tuple(keys), gauss))
    numpy.random.set_state(state["numpy"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
