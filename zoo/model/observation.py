"""The answers of a block's parts in a forward pass, one by one, to find the first that is wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from zoo.model.block import Block

Answers = list[tuple[str, Tensor]]  # label, in which {residual} stands for the method in that slot → quantity

READ = {"attention": "attention input {residual}", "ffn": "ffn input {residual}"}
WRITTEN = {"attention": "stream after attention {residual}", "ffn": "output {residual}"}


def parts_of(answer: Any) -> Iterator[Tensor]:
    """The tensors of an answer: itself, or those of a tuple."""
    return (each for each in (answer if isinstance(answer, tuple) else (answer,)) if isinstance(each, Tensor))


@contextlib.contextmanager
def observed(block: Block) -> Iterator[Answers]:
    """Note every answer while this is entered, in the order of computation. At other times a block pays nothing for it."""
    answers: Answers = []
    with contextlib.ExitStack() as stack:

        def note(owner: nn.Module, name: str, label: Callable[[Any], str]) -> None:
            stack.enter_context(_answering(owner, name, label, answers))

        note(block.residual, "read", lambda site: READ[site])
        for mixing in set(block.mixers.values()):
            note(mixing, "forward", lambda _: "temporal mixing {temporal_mixing}")
            note(mixing, "inner", lambda _: "temporal mixing inside {temporal_mixing}")
        if block.attention is not None:
            note(block.attention.head_mixing, "project", lambda _: "projected heads {head_mixing}")
            note(block.attention.head_mixing, "output", lambda _: "attended heads {head_mixing}")
        note(block, "attend", lambda _: "attention {score_mixing}")
        note(block.residual, "write", lambda site: WRITTEN[site])
        note(block, "feed_forward", lambda _: "ffn")
        yield answers


@contextlib.contextmanager
def _answering(owner: nn.Module, name: str, label: Callable[[Any], str], answers: Answers) -> Iterator[None]:
    """Note what a method of `owner` answers, under the label of its first argument."""
    original = getattr(owner, name)

    def noted(first: Any, *others: Any) -> Any:
        answer = original(first, *others)
        answers.extend((label(first), each) for each in parts_of(answer))
        return answer

    owner.__dict__[name] = noted  # hides the method of the class
    try:
        yield
    finally:
        del owner.__dict__[name]
