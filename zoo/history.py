"""What the layers below did in this forward pass, as far as some extension declared that it reads it.

Each extension gets a view of its own: a field that it did not declare in `reads` is an error to look at, also where
another method keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor

from zoo.errors import ZooError
from zoo.kernels.shared_gradients import share_gradients

if TYPE_CHECKING:
    from zoo.kernels.attend import Scores
    from zoo.state import State

__all__ = ["READABLE", "Block", "Current", "Heads", "History", "Projected"]


class Reader(Protocol):
    """An extension, as far as its history asks: what it declared that it reads."""

    @property
    def reads(self) -> frozenset[str]: ...

    def modules(self) -> Iterator[Any]: ...


class Block(Protocol):
    """A layer, as far as a method may use it; `zoo.replay` runs it again."""

    @property
    def attention_norm(self) -> Any:
        """The module of the norm before attention: `block.attention_norm(x)` is N1(x)."""

    @property
    def dropout(self) -> float:
        """The part of each sublayer's output that training sets to zero."""


def name_of(extension: object) -> str:
    """The id that an extension was built as; the name of its class where nobody gave it one."""
    return str(getattr(extension, "zoo_method", type(extension).__name__))


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
    "stream": "history.streams: the stream under the first layer, and as each layer below left it",
    "projected": "history.projected: each layer's own queries, keys and values, before any mixing of heads",
    "tokens": "history.tokens: the ids of the tokens of this pass",
}


class Heads(NamedTuple):
    """A layer's own queries and keys, after positions."""

    q: Tensor  # (B, H, T, d)
    k: Tensor  # (B, Hkv, S, d)


class Projected(NamedTuple):
    """The new tokens' queries, keys and values as they were projected, before any norm, position or cache."""

    q: Tensor  # (B, T, H, d)
    k: Tensor  # (B, T, Hkv, d)
    v: Tensor  # (B, T, Hkv, d)


class Pattern(NamedTuple):
    """How a layer attended: its scores, and the heads they were made of."""

    scores: Scores
    heads: Heads
    projected: Projected | None = None  # None where nobody reads it


class Record(NamedTuple):
    """What one block did."""

    block: Block
    input: Tensor
    attention: Tensor
    ffn: Tensor
    stream: Any  # as the block left it: a tensor, or a tuple of them where a method widens it
    pattern: Pattern | None  # None where no attention took place


class Current(NamedTuple):
    """The layer under way, as far as it has come."""

    block: Block
    input: Tensor
    attention: Tensor | None = None


class UndeclaredRead(ZooError):
    """A method that looked at a field of the history without declaring it."""


class Below(NamedTuple):
    """What is kept of the layers below; a field that nobody reads stays empty."""

    inputs: tuple[Tensor, ...] = ()
    attention: tuple[Tensor, ...] = ()
    ffn: tuple[Tensor, ...] = ()
    attention_sum: Tensor | None = None
    ffn_sum: Tensor | None = None
    heads: tuple[Heads, ...] = ()
    scores: tuple[Scores, ...] = ()
    blocks: tuple[Block, ...] = ()
    streams: tuple[Any, ...] = ()
    projected: tuple[Projected, ...] = ()


@dataclass(frozen=True)
class History:
    """Grows in the stack's loop only; blocks read it and never change it."""

    embedding: Tensor
    reads: frozenset[str] = frozenset()  # what is kept, for all extensions together
    below: Below = Below()
    state: State | None = None  # of decoding, for an extension that keeps something of its own
    now: Current | None = None
    reader: Reader | None = None  # who may look at no more than it declares; None: the core
    ids: Tensor | None = None  # of the tokens, where somebody reads them

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        self._check("input")
        return self.below.inputs

    @property
    def attention(self) -> tuple[Tensor, ...]:
        self._check("attention")
        return self.below.attention

    @property
    def ffn(self) -> tuple[Tensor, ...]:
        self._check("ffn")
        return self.below.ffn

    @property
    def attention_sum(self) -> Tensor | None:
        self._check("attention_sum")
        return self.below.attention_sum

    @property
    def ffn_sum(self) -> Tensor | None:
        self._check("ffn_sum")
        return self.below.ffn_sum

    @property
    def heads(self) -> tuple[Heads, ...]:
        self._check("heads")
        return self.below.heads

    @property
    def scores(self) -> tuple[Scores, ...]:
        self._check("scores")
        return self.below.scores

    @property
    def blocks(self) -> tuple[Block, ...]:
        self._check("blocks")
        return self.below.blocks

    @property
    def streams(self) -> tuple[Any, ...]:
        self._check("stream")
        return self.below.streams

    @property
    def projected(self) -> tuple[Projected, ...]:
        self._check("projected")
        return self.below.projected

    @property
    def tokens(self) -> Tensor:
        self._check("tokens")
        assert self.ids is not None, "the tokens are kept where an extension declares that it reads them"
        return self.ids

    @property
    def current(self) -> Current:
        assert self.now is not None, "no layer is under way"
        return self.now

    def _check(self, name: str) -> None:
        if self.reader is not None and name not in self.reader.reads and not _reads_inside(self.reader, name):
            raise UndeclaredRead(_undeclared(self.reader, name))

    def opened(self, stream: Any, tokens: Tensor) -> History:
        """The history under the first layer: the stream as it is opened there, and the ids of the tokens."""
        below = Below(streams=(_shared(stream),) if "stream" in self.reads else ())
        embedding = _shared(self.embedding) if self.reads else self.embedding
        return replace(self, embedding=embedding, below=below, ids=tokens if "tokens" in self.reads else None)

    def read_by(self, reader: Reader) -> History:
        """The view of one extension."""
        return replace(self, reader=reader)

    def under_way(self, block: Block, input: Tensor, attention: Tensor | None = None) -> History:
        """The history as the block under way sees it."""
        return replace(self, now=Current(block, input, attention))

    def after(self, record: Record) -> History:
        """The history with one layer more: what a layer above this block sees."""
        keep, below, pattern = self.reads, self.below, record.pattern
        longer = Below(
            inputs=(*below.inputs, _shared(record.input)) if "input" in keep else (),
            attention=(*below.attention, _shared(record.attention)) if "attention" in keep else (),
            ffn=(*below.ffn, _shared(record.ffn)) if "ffn" in keep else (),
            attention_sum=_add(below.attention_sum, record.attention) if "attention_sum" in keep else None,
            ffn_sum=_add(below.ffn_sum, record.ffn) if "ffn_sum" in keep else None,
            heads=(*below.heads, *_of(pattern, "heads")) if "heads" in keep else (),
            scores=(*below.scores, *_of(pattern, "scores")) if "scores" in keep else (),
            blocks=(*below.blocks, record.block) if "blocks" in keep else (),
            streams=(*below.streams, _shared(record.stream)) if "stream" in keep else (),
            projected=(*below.projected, *_of(pattern, "projected")) if "projected" in keep else (),
        )
        return History(self.embedding, keep, longer, self.state, ids=self.ids)


def _of(pattern: Pattern | None, name: str) -> tuple[Any, ...]:
    """What a layer's attention leaves for those above; nothing where none took place."""
    return () if pattern is None else (getattr(pattern, name),)


def _reads_inside(reader: Reader, name: str) -> bool:
    """Whether an extension inside this one declares it: a method may hand its history on."""
    return any(name in getattr(module, "reads", ()) for module in reader.modules())


def _undeclared(reader: Reader, name: str) -> str:
    field = READABLE[name].partition(":")[0]
    declaration = ", ".join(f'"{each}"' for each in sorted({*reader.reads, name}))
    return (
        f"{name_of(reader)} reads {field} without declaring it, so it may be empty: write"
        f" reads = frozenset({{{declaration}}}) in {type(reader).__name__}"
    )


def _shared(kept: Any) -> Any:
    """What is kept of a layer, for many readers: those that can add to one gradient of it."""
    if isinstance(kept, Tensor):
        return share_gradients(kept)[0]
    return getattr(type(kept), "_make", tuple)(share_gradients(*kept))


def _add(total: Tensor | None, term: Tensor) -> Tensor:
    return term if total is None else total + term


def check_reads(reads: Iterable[str], who: str) -> None:
    """Refuse a declaration that the history cannot serve."""
    unknown = sorted(set(reads) - READABLE.keys())
    if unknown:
        fields = ", ".join(READABLE)
        raise ValueError(f"{who} reads {', '.join(unknown)}, which the history does not keep; it keeps {fields}")
