"""How a parameter starts: an exact tensor, or a distribution to draw from and to examine a tensor with."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Normal(NamedTuple):
    """N(mean, std²), cut off at ± `cut` if that is given."""

    std: float
    mean: float = 0.0
    cut: float | None = None


class Uniform(NamedTuple):
    low: float
    high: float


class Derived(NamedTuple):
    """The parameter is `made(z)`, and z = `hidden(parameter)` follows a distribution."""

    made: Callable[[Tensor], Tensor]
    hidden: Callable[[Tensor], Tensor]
    of: Normal | Uniform


class Permuted:
    """These values in any order."""

    def __init__(self, values: Tensor) -> None:
        self.values = values


class Columns:
    """Groups of columns that start differently: (how many, start) from the left."""

    def __init__(self, *groups: "tuple[int, Start]") -> None:
        self.groups = groups


Start = Tensor | Normal | Uniform | Derived | Columns | Permuted


def zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64)


def full(value: float, *shape: int) -> Tensor:
    return torch.full(shape, value, dtype=torch.float64)


def symmetric(bound: float) -> Uniform:
    return Uniform(-bound, bound)


def draw(start: Start, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """A tensor that starts so."""
    if isinstance(start, Tensor):
        if start.shape != shape:
            raise ValueError(f"the start has the shape {tuple(start.shape)}, the parameter {tuple(shape)}")
        return start.clone()
    if isinstance(start, Derived):
        return start.made(draw(start.of, shape, generator))
    if isinstance(start, Permuted):
        return start.values[torch.randperm(len(start.values), generator=generator)]
    if isinstance(start, Columns):
        groups = [draw(group, (*shape[:-1], count), generator) for count, group in start.groups]
        return torch.cat(groups, dim=-1)
    values = torch.empty(shape, dtype=torch.float64)
    if isinstance(start, Uniform):
        return values.uniform_(start.low, start.high, generator=generator)
    if start.cut is not None:
        low, high = start.mean - start.cut, start.mean + start.cut
        return torch.nn.init.trunc_normal_(values, start.mean, start.std, low, high, generator=generator)
    return values.normal_(start.mean, start.std, generator=generator)


def complaint(start: Start, value: Tensor) -> str | None:
    """What is wrong with a parameter's first value, or None; of few numbers only bounds and mean are asked."""
    value = value.detach().double()
    if isinstance(start, Tensor):
        if value.shape != start.shape:
            return f"has the shape {tuple(value.shape)}, not {tuple(start.shape)}"
        if torch.allclose(value, start, rtol=1e-6, atol=1e-7):  # parameters are made in float32
            return None
        return f"is off by {(value - start).abs().max():.4g}"
    if isinstance(start, Derived):
        return complaint(start.of, start.hidden(value))
    if isinstance(start, Permuted):
        return complaint(start.values.sort().values, value.sort().values)
    if isinstance(start, Columns):
        parts = value.split([count for count, _ in start.groups], dim=-1)
        troubles = [complaint(group, part) for (_, group), part in zip(start.groups, parts, strict=True)]
        return next((trouble for trouble in troubles if trouble), None)
    if isinstance(start, Uniform):
        slack = 1e-4 * (start.high - start.low)
        if value.min() < start.low - slack or value.max() > start.high + slack:
            return f"{value.min():.4g}…{value.max():.4g} lies outside {start}"
        mean, std = (start.low + start.high) / 2, (start.high - start.low) / 12**0.5
    else:
        mean, std = start.mean, start.std
        if start.cut is not None and (value - mean).abs().max() > start.cut + 1e-6:
            return f"{value.min():.4g}…{value.max():.4g} lies outside {start}"
        if start.cut is not None and start.cut < 4 * std:
            return None  # the cut narrows the spread
    error = 6 * std / value.numel() ** 0.5
    spread_fits = value.numel() < 64 or (value.std() - std).abs() < error
    if (value.mean() - mean).abs() > error or not spread_fits:
        return f"mean {value.mean():.4g} and spread {value.std(correction=0):.4g} do not fit {start}"
    return None
