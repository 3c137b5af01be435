"""Whether a model's weights fit into memory, asked before anything is allocated."""

from __future__ import annotations

import os

from zoo.errors import ConfigError
from zoo.system.memory import available, gigabytes

WEIGHT = 4  # bytes per parameter


def check_parameters(count: int, each: int, device: str = "cpu") -> None:
    """Refuse a model whose parameters do not fit, at so many bytes each."""
    needed, free = count * each * ranks_beside(device), available(device)
    if needed > free:
        raise ConfigError(
            f"a model of {count:,} parameters needs {gigabytes(needed)} of memory, and {gigabytes(free)} are available:"
            " choose a smaller one (model.depth, model.width, model.ffn_dim, data.vocab_size)"
        )


def ranks_beside(device: str) -> int:
    """The number of processes of this run that share the memory."""
    return 1 if device.startswith("cuda") else max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def meta() -> bool:
    """Whether tensors are made without their values at present."""
    import torch

    return torch.empty(0).is_meta  # torch.get_default_device fails after set_default_device(None)
