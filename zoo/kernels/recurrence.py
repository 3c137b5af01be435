"""Recurrences with a backward of their own, in eager and in compiled code.

A compiler would write the loop over time out, step by step, and trace it for minutes. It sees one operator instead and nothing
inside: what runs is what runs without a compiler. What forward keeps for backward is not handed over, as its shapes may depend
on values; backward makes it again. So compiled code takes forward twice, and keeps no more than what was given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from zoo.kernels.autocast import without_autocast

Forward = Callable[..., tuple[Tensor, Tensor, Sequence[Tensor | None]]]
Backward = Callable[..., tuple[Tensor | None, ...]]
Shapes = Callable[..., tuple[Sequence[int], Sequence[int]]]


class _Kernel(NamedTuple):
    forward: Forward
    backward: Backward
    shapes: Shapes


_KERNELS: dict[str, _Kernel] = {}


def recurrence(
    name: str, *, forward: Forward, backward: Backward, shapes: Shapes
) -> Callable[..., tuple[Tensor, Tensor]]:
    """A function of tensors of one type, or None, and of a chunk; it returns the rows and the last state.

    `forward` returns these and what `backward` needs. The latter takes the gradients of both (that of the last state is None
    where nothing came of it), which of the tensors need one, the chunk, and what was kept; it returns a gradient, or None, for
    each tensor. `shapes` returns those of the rows and of the last state. Autocast is off in all of them.
    """
    _KERNELS[name] = _Kernel(forward, backward, shapes)

    def run(*given: Tensor | None, chunk: int | None) -> tuple[Tensor, Tensor]:
        if torch.compiler.is_compiling():
            tensors = [x for x in given if x is not None]
            rows, last = OPAQUE(name, tensors, [x is not None for x in given], chunk)
            return rows, last
        rows, last = _Recurrence.apply(name, chunk, *given)
        return rows, last

    return run


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str, chunk: int | None, *given: Tensor | None) -> tuple[Tensor, Tensor]:
        rows, last, kept = _forward(name, chunk, given)
        ctx.save_for_backward(*kept)
        ctx.set_materialize_grads(False)
        ctx.kernel, ctx.chunk, ctx.shape = name, chunk, rows.shape
        return rows, last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_rows: Tensor | None, d_last: Tensor | None) -> tuple[Tensor | None, ...]:
        d_rows = _of_rows(d_rows, d_last, ctx.shape)
        return (
            None,
            None,
            *_backward(ctx.kernel, d_rows, d_last, ctx.needs_input_grad[2:], ctx.chunk, ctx.saved_tensors),
        )


def _forward(
    name: str, chunk: int | None, given: Sequence[Tensor | None]
) -> tuple[Tensor, Tensor, Sequence[Tensor | None]]:
    assert given[0] is not None
    with without_autocast(given[0]):
        return _KERNELS[name].forward(*given, chunk)


def _backward(
    name: str,
    d_rows: Tensor,
    d_last: Tensor | None,
    needed: Sequence[bool],
    chunk: int | None,
    kept: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    with without_autocast(d_rows):
        return _KERNELS[name].backward(d_rows, d_last, needed, chunk, *kept)


def _of_rows(d_rows: Tensor | None, d_last: Tensor | None, shape: Sequence[int]) -> Tensor:
    """The gradient of the rows: 0 where only the last state has one."""
    if d_rows is not None:
        return d_rows
    assert d_last is not None
    return d_last.new_zeros(shape)


# -- what a compiler sees -----------------------------------------------------------------------------------------------


def _opaque_forward(kernel: str, given: list[Tensor], there: list[bool], chunk: int | None) -> tuple[Tensor, Tensor]:
    rows, last, _ = _forward(kernel, chunk, _in_place(given, there))
    rows, last = _owned([rows, last], given)
    return rows, last


def _opaque_backward(
    kernel: str,
    d_rows: Tensor | None,
    d_last: Tensor | None,
    needed: list[bool],
    given: list[Tensor],
    there: list[bool],
    chunk: int | None,
) -> list[Tensor]:
    """The gradients that are needed, in the order of what was given."""
    inputs = _in_place(given, there)
    rows, _, kept = _forward(kernel, chunk, inputs)
    d_rows, wanted = _of_rows(d_rows, d_last, rows.shape), iter(needed)
    needs = [next(wanted) if own else False for own in there]
    gradients = _backward(kernel, d_rows, d_last, needs, chunk, kept)
    every = [grad for grad, need in zip(gradients, needs, strict=False) if need and grad is not None]
    return _owned(every, [*given, *(x for x in (d_rows, d_last) if x is not None)])


def _in_place(given: list[Tensor], there: list[bool]) -> list[Tensor | None]:
    """The given tensors in their places, and None in the others."""
    tensors = iter(given)
    return [next(tensors) if own else None for own in there]


def _owned(results: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    """The results, each a block of memory that neither another one nor what was given has: an operator's must be."""
    seen, owned = {x.untyped_storage().data_ptr() for x in given}, []
    for x in results:
        if not x.is_contiguous() or x.untyped_storage().data_ptr() in seen:
            x = x.clone(memory_format=torch.contiguous_format)
        seen.add(x.untyped_storage().data_ptr())
        owned.append(x)
    return owned


def _fake_forward(kernel: str, given: list[Tensor], there: list[bool], chunk: int | None) -> tuple[Tensor, Tensor]:
    rows, last = _KERNELS[kernel].shapes(*_in_place(given, there))
    return given[0].new_empty(rows), given[0].new_empty(last)


def _fake_backward(
    kernel: str,
    d_rows: Tensor | None,
    d_last: Tensor | None,
    needed: list[bool],
    given: list[Tensor],
    there: list[bool],
    chunk: int | None,
) -> list[Tensor]:
    return [x.new_empty(x.shape) for x, need in zip(given, needed, strict=True) if need]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    ctx.kernel, given, ctx.there, ctx.chunk = inputs
    ctx.save_for_backward(*given)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, d_rows: Tensor | None, d_last: Tensor | None) -> tuple[Any, ...]:
    needed = list(ctx.needs_input_grad[1])
    given = list(ctx.saved_tensors)
    made = iter(OPAQUE_BACKWARD(ctx.kernel, d_rows, d_last, needed, given, ctx.there, ctx.chunk))
    return None, [next(made) if need else None for need in needed], None, None


OPAQUE = torch.library.custom_op(
    "zoo::recurrence",
    _opaque_forward,
    mutates_args=(),
    schema="(str kernel, Tensor[] given, bool[] there, int? chunk) -> (Tensor, Tensor)",
)
OPAQUE_BACKWARD = torch.library.custom_op(
    "zoo::recurrence_backward",
    _opaque_backward,
    mutates_args=(),
    schema="(str kernel, Tensor? d_rows, Tensor? d_last, bool[] needed, Tensor[] given, bool[] there, int? chunk) -> Tensor[]",
)
OPAQUE.register_fake(_fake_forward)
OPAQUE_BACKWARD.register_fake(_fake_backward)
OPAQUE.register_autograd(_differentiate, setup_context=_keep)
