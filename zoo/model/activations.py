"""Quantities that depend on the input, such as gates, as mean and quantiles over an observed pass.

An extension shows them by `self.watch(name, value)`, which does nothing at other times.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from zoo.extension import Extension

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
STATISTICS = ("mean", *QUANTILES)  # gate → gate_mean, gate_q05, …
SAMPLE = 4096  # elements that quantiles are made of: sorting all would take longer than the pass

Shown = dict[Extension, dict[str, Tensor]]  # by each extension: name with a statistic → value


@contextlib.contextmanager
def observed_pass(extensions: Iterable[Extension]) -> Iterator[Shown]:
    """Note what extensions show while this is entered; of an extension that runs several times, its first time."""
    shown: Shown = {}
    watched = list(extensions)
    try:
        for extension in watched:
            extension.watcher = functools.partial(_note, shown, extension)
        yield shown
    finally:
        for extension in watched:
            extension.__dict__.pop("watcher", None)


def _note(shown: Shown, extension: Extension, name: str, value: Tensor, each: bool) -> None:
    noted = shown.setdefault(extension, {})
    if f"{name}_mean" not in noted:
        noted.update({f"{name}_{statistic}": number for statistic, number in statistics(value, each).items()})


def statistics(value: Tensor, each: bool) -> dict[str, Tensor]:
    """Mean and quantiles over all elements, or of each element of the last dimension over the others."""
    rows = value.detach().float().reshape(-1, value.size(-1) if each else 1)
    some = rows[_sample(rows.size(0)).to(rows.device)] if rows.size(0) > SAMPLE else rows
    shares = torch.tensor(list(QUANTILES.values()), dtype=rows.dtype, device=rows.device)
    statistics = torch.cat([rows.mean(dim=0)[None], torch.quantile(some, shares, dim=0)])  # (statistic, element)
    return dict(zip(STATISTICS, statistics if each else statistics[:, 0], strict=True))


@functools.lru_cache(maxsize=64)
def _sample(count: int) -> Tensor:
    """Some of so many rows, the same every time; at random, as equal steps might meet the same channels only."""
    return torch.randint(count, (SAMPLE,), generator=torch.Generator().manual_seed(0))
