"""What the layers below did in this forward pass, as far as some extension declared that it reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

if TYPE_CHECKING:
    from zoo.block import Block
    from zoo.scores import Scores
    from zoo.state import State

# What an extension may declare in `reads`, and what it then finds here.
READABLE = {
    "input": "history.inputs: what attention read in each layer below",
    "attention": "history.attention: the attention output of each layer below",
    "ffn": "history.ffn: the FFN output of each layer below",
    "attention_sum": "history.attention_sum: their sum (None under the first layer)",
    "ffn_sum": "history.ffn_sum: their sum (None under the first layer)",
    "heads": "history.heads: the queries and keys of each layer below, before any mixing of scores",
    "scores": "history.scores: what each layer below attended with, unmasked",
    "blocks": "history.blocks: the layers below, to run them again",
}


class Heads(NamedTuple):
    """A layer's own queries and keys, after rotary positions."""

    q: Tensor  # (B, H, T, d)
    k: Tensor  # (B, Hkv, S, d)


class Pattern(NamedTuple):
    """How a layer attended: with what scores, made from what heads."""

    scores: Scores
    heads: Heads


class Record(NamedTuple):
    """What one block did."""

    block: Block
    input: Tensor
    attention: Tensor
    ffn: Tensor
    pattern: Pattern | None  # None where no attention took place


class Current(NamedTuple):
    """The layer under way, as far as it has come."""

    block: Block
    input: Tensor
    attention: Tensor | None = None


@dataclass(frozen=True)
class History:
    """Grows in the stack's loop only; blocks read it and never change it."""

    embedding: Tensor
    reads: frozenset[str] = frozenset()
    inputs: tuple[Tensor, ...] = ()
    attention: tuple[Tensor, ...] = ()
    ffn: tuple[Tensor, ...] = ()
    attention_sum: Tensor | None = None
    ffn_sum: Tensor | None = None
    heads: tuple[Heads, ...] = ()
    scores: tuple[Scores, ...] = ()
    blocks: tuple[Block, ...] = ()
    state: State | None = None  # of decoding, for an extension that keeps something of its own
    now: Current | None = None

    @property
    def current(self) -> Current:
        assert self.now is not None, "no layer is under way"
        return self.now

    def under_way(self, block: Block, input: Tensor, attention: Tensor | None = None) -> History:
        return replace(self, now=Current(block, input, attention))

    def after(self, record: Record) -> History:
        keep = self.reads
        return History(
            self.embedding,
            keep,
            inputs=(*self.inputs, record.input) if "input" in keep else (),
            attention=(*self.attention, record.attention) if "attention" in keep else (),
            ffn=(*self.ffn, record.ffn) if "ffn" in keep else (),
            attention_sum=_add(self.attention_sum, record.attention) if "attention_sum" in keep else None,
            ffn_sum=_add(self.ffn_sum, record.ffn) if "ffn_sum" in keep else None,
            heads=(*self.heads, record.pattern.heads) if "heads" in keep and record.pattern else (),
            scores=(*self.scores, record.pattern.scores) if "scores" in keep and record.pattern else (),
            blocks=(*self.blocks, record.block) if "blocks" in keep else (),
            state=self.state,
        )


def _add(total: Tensor | None, term: Tensor) -> Tensor:
    return term if total is None else total + term


def check_reads(reads: Iterable[str], who: str) -> None:
    """Refuse a declaration that the history cannot serve."""
    unknown = sorted(set(reads) - READABLE.keys())
    if unknown:
        kept = ", ".join(READABLE)
        raise ValueError(f"{who} reads {', '.join(unknown)}, which the history does not keep; it keeps {kept}")
