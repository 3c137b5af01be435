"""Bytes as tokens: 256 of them, and the end of a document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.data.token_interface import Tokenizer

if TYPE_CHECKING:
    import numpy as np

NAME = "bytes"


class Bytes(Tokenizer):
    """The bytes of UTF-8."""

    def __init__(self, pad: int = 1) -> None:
        super().__init__(pad)
        self.spec = NAME
        self.content = json.dumps({"zoo_tokenizer": NAME}).encode()
        self.vocab_size, self.eos = 257, 256

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        import numpy as np

        return [np.frombuffer(text.encode(), np.uint8).astype(self._kind) for text in texts]

    def _pieces(self) -> list[bytes]:
        return [bytes([value]) for value in range(256)] + [b""]
