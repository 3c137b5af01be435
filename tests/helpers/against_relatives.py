"""A model with a published relative against its naive reference: logits, all gradients, and first values."""

from __future__ import annotations

from collections.abc import Callable

import torch
from helpers.random_models import reference_weights
from reference.relatives import REFERENCES
from reference.relatives.starts import complaint
from torch import Tensor

from zoo.model.block import Block
from zoo.model.language_model import LanguageModel

Adapter = Callable[[Block], dict[str, Tensor]]  # a block's parameters under the reference's names, differentiably


def assert_equals_relative(built: LanguageModel, tokens: Tensor, id: str, adapter: Adapter, **settings: object) -> None:
    """Fail unless `built` (float64) computes what the reference `id` does, and so do its derivatives."""
    params, layers = [adapter(block) for block in built.layers], [block.layer for block in built.layers]
    ours = built(tokens)
    theirs = REFERENCES[id].build(**settings).logits(tokens, reference_weights(built), params, layers)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=ours.dtype)
    parameters = dict(built.named_parameters())
    sides = [
        torch.autograd.grad((side * weights).sum(), parameters.values(), materialize_grads=True)
        for side in (ours, theirs)
    ]
    for name, mine, naive in zip(parameters, *sides, strict=True):
        torch.testing.assert_close(mine, naive, rtol=1e-8, atol=1e-8, msg=lambda m, n=name: f"{n}: {m}")


def assert_starts_as_relative(built: LanguageModel, id: str, adapter: Adapter, **settings: object) -> None:
    """Fail unless the parameters of a freshly built model have the first values that the reference states."""
    reference = REFERENCES[id].build(**settings)
    for block in built.layers:
        own, starts = adapter(block), reference.start(block.layer)
        if own.keys() != starts.keys():
            raise AssertionError(f"layer {block.layer.number}: {sorted(own)} given, {sorted(starts)} expected")
        sizes = {name: tuple(value.shape) for name, value in own.items()}
        assert sizes == {name: tuple(shape) for name, shape in reference.shapes(block.layer).items()}
        troubles = {name: complaint(start, own[name]) for name, start in starts.items()}
        troubles = {name: trouble for name, trouble in troubles.items() if trouble}
        assert not troubles, f"layer {block.layer.number}: {troubles}"
