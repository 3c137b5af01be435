"""Rotary positions whose wavelengths are longer than a model was first trained with, so that more tokens fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.errors import SettingError

LINEAR, LLAMA3 = "linear", "llama3"
KEY = "model.rope_scaling"


@dataclass(frozen=True)
class RopeScaling:
    """All frequencies / factor; with `original`, only the low ones, and those between in part (Llama 3.1)."""

    factor: float
    low: float = 1.0  # wavelengths above original / low are scaled
    high: float = 1.0  # wavelengths below original / high are not
    original: float = 0.0  # the tokens that the model was trained on at first

    def __call__(self, frequencies: Tensor) -> Tensor:
        """The frequencies as they turn."""
        if not self.original:
            return frequencies / self.factor
        turns = self.original * frequencies / (2 * math.pi)  # of each pair, over the first length
        unscaled = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return torch.lerp(frequencies / self.factor, frequencies, unscaled)


def rope_scaling(setting: Mapping[str, float | str] | None) -> RopeScaling | None:
    """The scaling that `model.rope_scaling` names, in the words of a config.json of transformers."""
    if setting is None:
        return None
    kind = setting.get("rope_type")
    names = {
        LINEAR: ("factor",),
        LLAMA3: ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    }.get(str(kind))
    if names is None or set(setting) != {"rope_type", *names}:
        raise SettingError(
            KEY,
            f" = {dict(setting)!r} must be {{'rope_type': 'linear', 'factor': …}}, or 'llama3' with factor, low_freq_factor,"
            " high_freq_factor and original_max_position_embeddings",
        )
    values = [setting[name] for name in names]
    numbers = [float(value) for value in values if not isinstance(value, str)]
    ordered = kind == LINEAR or len(numbers) == 4 and numbers[1] < numbers[2]
    if len(numbers) < len(values) or not all(0 < each < math.inf for each in numbers) or not ordered:
        raise SettingError(
            KEY, f" = {dict(setting)!r} must have numbers above 0, and low_freq_factor below high_freq_factor"
        )
    return RopeScaling(*numbers)
