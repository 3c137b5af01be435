"""Whether a training step fits into memory, asked before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from zoo.errors import ConfigError
from zoo.model.room import WEIGHT, check_parameters, ranks_beside
from zoo.system.memory import available, gigabytes
from zoo.training.optimizer import numbers_kept

if TYPE_CHECKING:
    import torch

    from zoo.data.batches import Data
    from zoo.training.settings import Settings

QUADRATIC = 10  # from this ratio of attention to the rest on, the length is worth a warning
HOPELESS = 4  # times the memory that is available: beyond the error of the estimate


def bytes_trained(settings: Settings) -> int:
    """The bytes that a parameter takes in training: its weight, its gradient, and what the optimiser keeps."""
    return WEIGHT * (2 + numbers_kept(settings))


def check_skeleton(build: Callable[[], torch.nn.Module], settings: Settings, device: str) -> None:
    """Refuse a model that cannot be trained here, before it is built: parameters of methods count as well."""
    import torch

    from zoo.training import random_state

    before = random_state.random_state()
    try:
        with torch.device("meta"):
            count = sum(parameter.numel() for parameter in build().parameters())
    except Exception:  # a constructor that looks at values, or one that fails: building it in earnest will tell
        return
    finally:
        random_state.set_random_state(before)
    check_parameters(count, bytes_trained(settings), device)


def check_step(model: torch.nn.Module, data: Data, settings: Settings, device: str) -> list[str]:
    """Warn of a step that may not fit or of a length that costs more than all else; refuse what is hopeless."""
    from zoo.model.block import Block

    layers = [module.layer for module in model.modules() if isinstance(module, Block)]
    if not layers:
        return []
    layer, saved = layers[0], 1 if settings.checkpoint_activations else len(layers)
    heads = (layer.num_heads + 2 * layer.num_kv_heads) * layer.head_dim
    floats = len(layers) * layer.width + saved * (4 * layer.width + heads + 2 * layer.ffn_dim)
    tokens = data.batch_size * data.length
    needed = (4 * floats * tokens + 8 * tokens * settings.accumulate) * ranks_beside(device)
    free = available(device)
    message = (
        f"a step over data.batch_size × data.length = {data.batch_size:,} × {data.length:,} tokens needs about"
        f" {gigabytes(needed)} of memory, and {gigabytes(free)} are available: lower one of the two, or set"
        " train.checkpoint_activations = True"
    )
    if needed > HOPELESS * free:
        raise ConfigError(message)
    messages = [message] if needed > free else []
    weights = layer.width * (heads + layer.num_heads * layer.head_dim + 3 * layer.ffn_dim)
    ratio = data.length * layer.num_heads * layer.head_dim / weights  # half of all pairs, scores and values
    if ratio > QUADRATIC:
        messages.append(
            f"data.length = {data.length:,}: attention grows with the square of the length and takes here about"
            f" {ratio:,.0f} times the operations of all other layers"
        )
    return messages
