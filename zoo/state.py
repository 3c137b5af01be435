"""What decoding keeps between steps: each module its own tensors, in fairseq2's state bag."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from fairseq2.nn import IncrementalStateBag

__all__ = ["State", "with_past"]

Scope = tuple[int, ...]


class ModuleTensors:
    """One module's tensors, batch first; the fairseq2 bag reorders and measures it like any `IncrementalState`."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[Scope, str], Tensor] = {}  # may be longer than what is in use
        self.lengths: dict[tuple[Scope, str], tuple[int, int]] = {}  # (dimension that grows, length in use)

    def reorder(self, new_order: Tensor) -> None:
        for key, buffer in self.buffers.items():
            self.buffers[key] = buffer.index_select(0, new_order)

    def used(self, key: tuple[Scope, str]) -> Tensor:
        buffer = self.buffers[key]
        if key not in self.lengths:
            return buffer
        dim, length = self.lengths[key]
        return buffer.narrow(dim, 0, length)

    def size_bytes(self) -> int:
        return sum(self.used(key).numel() * buffer.element_size() for key, buffer in self.buffers.items())

    def capacity_bytes(self) -> int:
        return sum(buffer.numel() * buffer.element_size() for buffer in self.buffers.values())


class State:
    """The decoding state as an extension sees it.

    `start` is the position of the first token of this pass. A layer that is run again on another layer's input does so
    `inside` a scope of its own, so that the two passes do not share what they keep.
    """

    def __init__(self, bag: IncrementalStateBag, scope: Scope = ()) -> None:
        self.bag = bag
        self.scope = scope
        self._entered: Counter[int] = Counter()  # in this pass

    @property
    def start(self) -> int:
        return self.bag.step_nr

    def inside(self, scope: int) -> State:
        """The state of one run, apart from others; a pass that asks for a scope a second time gets another one."""
        self._entered[scope] += 1
        return State(self.bag, (*self.scope, scope, self._entered[scope]))

    def get(self, owner: nn.Module, name: str) -> Tensor | None:
        """The tensor that `owner` keeps under `name`; None in the first pass."""
        tensors, key = self._tensors(owner), (self.scope, name)
        return tensors.used(key) if key in tensors.buffers else None

    def set(self, owner: nn.Module, name: str, value: Tensor) -> None:
        """Keep `value` (batch first) until the next pass."""
        tensors, key = self._tensors(owner), (self.scope, name)
        tensors.lengths.pop(key, None)
        tensors.buffers[key] = value

    def append(self, owner: nn.Module, name: str, new: Tensor, dim: int) -> Tensor:
        """Add `new` along `dim` to what is kept, and return the whole. Room is doubled, so that a token copies no past."""
        tensors, key = self._tensors(owner), (self.scope, name)
        dim = dim % new.dim()
        if key not in tensors.buffers:
            tensors.buffers[key], tensors.lengths[key] = new, (dim, new.size(dim))
            return new
        buffer, old = tensors.buffers[key], tensors.lengths[key][1]
        length = old + new.size(dim)
        if length > buffer.size(dim):
            shape = list(buffer.shape)
            shape[dim] = max(2 * buffer.size(dim), length, 16)
            larger = buffer.new_empty(shape)
            larger.narrow(dim, 0, old).copy_(buffer.narrow(dim, 0, old))
            tensors.buffers[key] = buffer = larger
        buffer.narrow(dim, old, new.size(dim)).copy_(new)
        tensors.lengths[key] = (dim, length)
        return buffer.narrow(dim, 0, length)

    def _tensors(self, owner: nn.Module) -> ModuleTensors:
        bag: Any = self.bag
        tensors = bag.maybe_get_state(owner, ModuleTensors)
        if tensors is None:
            tensors = ModuleTensors()
            bag.set_state(owner, tensors)
        return tensors


def with_past(state: State | None, owner: nn.Module, u: Tensor, n: int, name: str = "past") -> Tensor:
    """`u` (B, T, …) behind the n rows that came before it (zeros before the start): (B, n + T, …)."""
    past = state.get(owner, name) if state is not None else None
    if past is None:
        past = u.new_zeros(u.size(0), n, *u.shape[2:])
    whole = torch.cat([past, u], dim=1)
    if state is not None:
        state.set(owner, name, whole[:, whole.size(1) - n :].clone())
    return whole
