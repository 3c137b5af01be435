"""SentencePiece: models trained here (BPE, byte fallback), without loss; and those that were given.

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

from zoo.data.token_interface import Tokenizer, windows
from zoo.errors import DataError
from zoo.system.regular_files import read_regular

if TYPE_CHECKING:
    import numpy as np

SPACE = "▁"  # what SentencePiece writes for a space; in a text, it is spelt out in bytes
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


class SentencePiece(Tokenizer):
    """A SentencePiece model. Of one that was trained here, every text can be encoded, and decodes to itself.

    A model that adds a space before every text, or normalises it, is given whole texts, as its makers did. One without
    an end of sentence gets an id for it after all others.
    """

    def __init__(self, path: Path | str, pad: int = 1) -> None:
        import sentencepiece

        super().__init__(pad)
        self.path = Path(path)
        self.spec = str(path)
        try:
            self.content = read_regular(self.path)
            self._model = sentencepiece.SentencePieceProcessor(model_proto=self.content)
        except OSError as error:
            raise DataError(f"the tokenizer {self.path} cannot be read: {error.strerror}") from error
        except (RuntimeError, ValueError) as error:
            raise DataError(f"{self.path} is not a SentencePiece model") from error
        self._size: int = self._model.vocab_size()
        own_end: int = self._model.eos_id()
        self.eos = self._size if own_end < 0 else own_end
        self.vocab_size = max(self._size, self.eos + 1)
        try:
            sound = len(self.pieces) == self.vocab_size and self._size > 0 and own_end < self._size
            self.segmented = self._special is not None and self._keeps("A  é\tb ▁\n 日🙂\n\n c")
        except (ValueError, LookupError, RuntimeError) as error:
            raise DataError(f"{self.path} is a damaged SentencePiece model: {error}") from error
        if not sound:
            raise DataError(f"{self.path} is a damaged SentencePiece model")

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        parts = [SEGMENT.findall(text) if self.segmented else list(windows(text)) for text in texts]
        return self._rows(self._encode(list(itertools.chain.from_iterable(parts))), map(len, parts))

    def _keeps(self, text: str) -> bool:
        """Whether a text that is encoded in segments is written back."""
        return self.decode(itertools.chain.from_iterable(self._encode(SEGMENT.findall(text)))) == text

    def _pieces(self) -> list[bytes]:
        return [self._piece(token) for token in range(self._size)] + [b""] * (self.vocab_size - self._size)

    def _piece(self, token: int) -> bytes:
        if self._model.is_control(token) or self._model.is_unknown(token):
            return b""
        piece: str = self._model.id_to_piece(token)
        return bytes([int(piece[1:-1], 16)]) if self._model.is_byte(token) else piece.replace(SPACE, " ").encode()

    def _encode(self, segments: Sequence[str]) -> list[list[int]]:
        threads = min(os.cpu_count() or 1, 8) if len(segments) > 100 else 1
        if self._special is None:
            whole: list[list[int]] = self._model.encode(list(segments), num_threads=threads)
            return whole
        encoded = iter(self._model.encode([s for s in segments if s != SPACE], num_threads=threads))
        return [self._special if s == SPACE else next(encoded) for s in segments]

    @functools.cached_property
    def _special(self) -> list[int] | None:
        """The mark of a space where it stands in a text itself; None if the model does not spell in bytes."""
        spelt = [self._model.piece_to_id(f"<0x{byte:02X}>") for byte in SPACE.encode()]
        return spelt if all(map(self._model.is_byte, spelt)) else None


def train(documents: Iterable[str], vocab_size: int, characters: int) -> bytes:
    """Train a SentencePiece model on documents, which have so many characters in all, and say nothing."""
    import sentencepiece

    step = 1 + characters // SAMPLE
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
        return f"data.vocab_size = {vocab_size} is more than the training text supports: set it to {match[1]} or less"
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", error):
        return f"data.vocab_size = {vocab_size} is less than the training text needs: set it to {match[1]} or more"
    if "sentences_.empty()" in error:
        return "the training text has nothing to learn a vocabulary from: give more text"
    return f"SentencePiece cannot learn {vocab_size} pieces from the training text: {error}"
