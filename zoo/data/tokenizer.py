"""Text to tokens and back, without loss: SentencePiece (BPE, byte fallback), trained on a corpus.

BPE counts integers, so that the same text gives the same pieces on any machine and with any number of threads.
"""

from __future__ import annotations

import functools
import io
import itertools
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import DataError
from zoo.system.regular_files import read_regular

if TYPE_CHECKING:
    import numpy as np

SPACE = "▁"  # what SentencePiece writes for a space; in a text, it is spelt out in bytes
END = ""  # of a document, among its segments, which are never empty
# A text is taken a line at a time (of bounded length: the time for one grows faster than its length).
SEGMENT = re.compile(f"{SPACE}|[^\n{SPACE}]{{0,16383}}\n|[^\n{SPACE}]{{1,16384}}")
SAMPLE = 64 << 20  # characters: of a larger text, every n-th line is trained on
SETTINGS: dict[str, Any] = {
    "model_type": "bpe",
    "byte_fallback": True,
    "character_coverage": 0.9995,  # rarer characters are spelt in bytes, and so is the newline
    "normalization_rule_name": "identity",
    "remove_extra_whitespaces": False,
    "add_dummy_prefix": False,
    "max_sentence_length": 1 << 20,
    "num_threads": 1,
    "unk_id": 0,  # SentencePiece wants one; no text has it
    "eos_id": 1,
    "bos_id": -1,
    "pad_id": -1,
}


class Tokenizer:
    """A SentencePiece model. Every text can be encoded, and decodes to itself.

    One id stands between documents: it ends one (`eos`) and begins the next (`bos`).
    """

    def __init__(self, path: Path | str) -> None:
        import sentencepiece

        self.path = Path(path)
        try:
            self._model = sentencepiece.SentencePieceProcessor(model_proto=read_regular(self.path))
        except OSError as error:
            raise DataError(f"The tokenizer {self.path} cannot be read: {error.strerror}.") from error
        except (RuntimeError, ValueError) as error:
            raise DataError(f"{self.path} is not a SentencePiece model.") from error
        self.vocab_size: int = self._model.vocab_size()
        self.eos: int = self._model.eos_id()
        self.bos: int = self.eos
        if self.eos < 0 or not self._model.is_byte(self._model.piece_to_id("<0x0A>")):
            raise DataError(f"{self.path} is a SentencePiece model without an end-of-sentence piece or byte fallback.")
        try:
            sound = len(self.pieces) == self.vocab_size and self.eos < self.vocab_size
        except (ValueError, LookupError, RuntimeError) as error:
            raise DataError(f"{self.path} is a damaged SentencePiece model: {error}.") from error
        if not sound:
            raise DataError(f"{self.path} is a damaged SentencePiece model.")

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without `bos` or `eos`."""
        return list(itertools.chain.from_iterable(self._encode(SEGMENT.findall(text))))

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; bytes that are no UTF-8 become U+FFFD."""
        return b"".join(self.pieces[token] for token in tokens).decode("utf-8", "replace")

    def encode_documents(self, documents: Iterable[str]) -> np.ndarray:
        """All documents in one row, with `eos` before, between and after them."""
        import numpy as np

        kind = np.uint16 if self.vocab_size <= 1 << 16 else np.int32
        rows = [np.array([self.eos], kind)]
        segments = (segment for document in documents for segment in (*SEGMENT.findall(document), END))
        while some := list(itertools.islice(segments, 1 << 14)):
            rows.append(np.fromiter(itertools.chain.from_iterable(self._encode(some)), kind))
        return np.concatenate(rows)

    @functools.cached_property
    def pieces(self) -> list[bytes]:
        """What each token writes; control tokens write nothing."""
        return [self._piece(token) for token in range(self.vocab_size)]

    def _piece(self, token: int) -> bytes:
        if self._model.is_control(token) or self._model.is_unknown(token):
            return b""
        piece: str = self._model.id_to_piece(token)
        return bytes([int(piece[1:-1], 16)]) if self._model.is_byte(token) else piece.replace(SPACE, " ").encode()

    def _encode(self, segments: Sequence[str]) -> list[list[int]]:
        threads = min(os.cpu_count() or 1, 8) if len(segments) > 100 else 1
        encoded = iter(self._model.encode([s for s in segments if s not in self._special], num_threads=threads))
        return [self._special[s] if s in self._special else next(encoded) for s in segments]

    @functools.cached_property
    def _special(self) -> dict[str, list[int]]:
        return {SPACE: [self._model.piece_to_id(f"<0x{byte:02X}>") for byte in SPACE.encode()], END: [self.eos]}


def train(documents: Sequence[str], vocab_size: int) -> bytes:
    """Train a SentencePiece model on documents, and say nothing."""
    import sentencepiece

    step = 1 + sum(map(len, documents)) // SAMPLE
    lines = itertools.islice((line for document in documents for line in SEGMENT.findall(document)), 0, None, step)
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line.removesuffix("\n") for line in lines if line != SPACE),
            model_writer=model,
            vocab_size=max(vocab_size, 258),  # the least for which it says what would do: unknown, end, bytes
            minloglevel=4,
            **SETTINGS,
        )
    except RuntimeError as error:
        raise DataError(_sentence(str(error), vocab_size)) from error
    return model.getvalue()


def _sentence(error: str, vocab_size: int) -> str:
    if match := re.search(r"set it to a value <= (\d+)", error):
        return f"data.vocab_size = {vocab_size} is more than the training text supports: set it to {match[1]} or less."
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", error):
        return f"data.vocab_size = {vocab_size} is less than the training text needs: set it to {match[1]} or more."
    if "sentences_.empty()" in error:
        return "The training text has nothing to learn a vocabulary from: give more text."
    return f"SentencePiece cannot learn {vocab_size} pieces from the training text: {error}"
