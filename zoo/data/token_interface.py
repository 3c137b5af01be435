"""What every tokenizer offers, whatever is behind it."""

from __future__ import annotations

import abc
import functools
import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from zoo.errors import DataError

if TYPE_CHECKING:
    import numpy as np

AT_ONCE = 1 << 10  # documents
# A text that a tokenizer writes back unchanged only if it keeps spaces, case, composition, rare characters and newlines.
# (▁ is not in it: many tokenizers write it for a space.)
PROBE = "A  b\tC\n\n é e\u0301 ﬁ ½ Ｗ 日本 🙂 <unk> naïve don't 1,000\r\n  x = 'y'  # \u00a0end"
# Where a long text may be cut: after newlines, else before the single space in front of a word.
LINE, WORD = re.compile(r"(?<=\n)(?=\S)"), re.compile(r"(?<=\S)(?= \S)")


class Tokenizer(abc.ABC):
    """Text to tokens and back. One id stands between documents: it ends one (`eos`) and begins the next (`bos`)."""

    spec: str  # `open_tokenizer` opens it again, in another process too
    content: bytes  # as a file that needs nothing beside it, `open_tokenizer` opens it as well
    vocab_size: int
    eos: int  # no text has it

    def __init__(self, pad: int) -> None:
        self._pad = pad

    @abc.abstractmethod
    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The tokens of each text, without `bos` or `eos`."""

    @abc.abstractmethod
    def _pieces(self) -> list[bytes]: ...

    @functools.cached_property
    def pieces(self) -> list[bytes]:
        """What each token writes; control tokens write nothing."""
        return self._pieces()

    @property
    def bos(self) -> int:
        return self.eos

    @property
    def padded_size(self) -> int:
        """How many rows a model has for the tokens: the vocabulary, rounded up for speed if that was asked for."""
        return -(-self.vocab_size // self._pad) * self._pad

    @functools.cached_property
    def identity(self) -> str:
        """What tells it from every other tokenizer."""
        return hashlib.sha256(self.content).hexdigest()

    @functools.cached_property
    def lossless(self) -> bool:
        """Whether a text with all kinds of characters is written back as it was, but for a space before it."""
        return self.decode(self.encode([PROBE])[0].tolist()).removeprefix(" ") == PROBE

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self.pieces[token] for token in tokens).decode("utf-8", "replace")

    def encode_documents(self, documents: Iterable[str]) -> np.ndarray:
        """All documents in one row, with `eos` before, between and after them."""
        import numpy as np

        end: np.ndarray = np.array([self.eos], self._kind)
        rows, waiting = [end], iter(documents)
        while some := list(itertools.islice(waiting, AT_ONCE)):
            rows.extend(itertools.chain.from_iterable((row, end) for row in self.encode(some)))
        return np.concatenate(rows)

    @property
    def _kind(self) -> type:
        """The type of tokens in an array."""
        import numpy as np

        return np.uint16 if self.vocab_size <= 1 << 16 else np.int32

    def _rows(self, tokens: Iterable[Sequence[int]], counts: Iterable[int]) -> list[np.ndarray]:
        """Arrays of which each joins the next so many lists of tokens."""
        import numpy as np

        lists = iter(tokens)
        return [
            np.fromiter(itertools.chain.from_iterable(itertools.islice(lists, count)), self._kind) for count in counts
        ]


def windows(text: str, size: int = 1 << 16) -> Iterator[str]:
    """A text in parts of bounded length: the time for one may grow faster than its length."""
    start = 0
    while len(text) - start > size:
        middle, end = start + size // 2, start + size
        cut = LINE.search(text, middle, end) or WORD.search(text, middle, end)
        stop = cut.start() if cut else end
        yield text[start:stop]
        start = stop
    yield text[start:]


def not_usable(name: str, what: str, error: object) -> DataError:
    """The error for a file that is no tokenizer."""
    reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
    return DataError(f"{name} is not {what}: {reason}")
