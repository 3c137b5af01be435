"""The encodings of tiktoken, by name; a run keeps its own copy, which needs no network."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zoo.data.token_interface import Tokenizer, not_usable, windows
from zoo.errors import DataError

if TYPE_CHECKING:
    import numpy as np

PREFIX = "tiktoken:"
END = "<|endoftext|>"


class Tiktoken(Tokenizer):
    """A byte-level BPE. Without loss; where an encoding has no end of text, an id after all others is one."""

    def __init__(self, encoding: Any, spec: str, pad: int = 1) -> None:
        super().__init__(pad)
        self._encoding = encoding
        self.spec = spec
        special = dict(encoding._special_tokens)
        size = encoding.max_token_value + 1
        self.eos = special.get(END, size)
        self.vocab_size = max(size, self.eos + 1)
        ranks = sorted(encoding._mergeable_ranks.items(), key=lambda item: item[1])
        known = {
            "zoo_tokenizer": "tiktoken",
            "name": encoding.name,
            "pattern": encoding._pat_str,
            "special": special,
            "ranks": {base64.b64encode(piece).decode(): rank for piece, rank in ranks},
        }
        self.content = json.dumps(known).encode()

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        parts = [list(windows(text)) for text in texts]
        tokens = (self._encoding.encode_ordinary(part) for of_text in parts for part in of_text)
        return self._rows(tokens, map(len, parts))

    def _pieces(self) -> list[bytes]:
        pieces = [b""] * self.vocab_size
        for piece, rank in self._encoding._mergeable_ranks.items():
            pieces[rank] = piece
        return pieces


def open_named(spec: str, pad: int) -> Tiktoken:
    """The encoding with the name after `tiktoken:`."""
    tiktoken = _package(spec)
    name = spec.removeprefix(PREFIX)
    if name not in tiktoken.list_encoding_names():
        raise DataError(f"tiktoken has no encoding {name!r}, only {', '.join(tiktoken.list_encoding_names())}")
    try:
        return Tiktoken(tiktoken.get_encoding(name), spec, pad)
    except OSError as error:  # that of requests too
        raise DataError(
            f"the files of {spec} cannot be fetched ({type(error).__name__}): they are needed once; on a computer with a"
            f" network, run TIKTOKEN_CACHE_DIR=folder python -c \"import tiktoken; tiktoken.get_encoding('{name}')\","
            " copy that folder here, and set $TIKTOKEN_CACHE_DIR to it"
        ) from error


def open_saved(spec: str, known: Mapping[str, Any], pad: int) -> Tiktoken:
    """An encoding from the copy that a run keeps."""
    tiktoken = _package(spec)
    try:
        encoding = tiktoken.Encoding(
            str(known["name"]),
            pat_str=known["pattern"],
            mergeable_ranks={base64.b64decode(piece, validate=True): rank for piece, rank in known["ranks"].items()},
            special_tokens=known["special"],
        )
        return Tiktoken(encoding, spec, pad)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, binascii.Error) as error:
        raise not_usable(spec, "a tokenizer of tiktoken", error) from error


def _package(spec: str) -> Any:
    try:
        import tiktoken
    except ImportError as error:
        raise DataError(f"{spec} needs the package tiktoken: install it with pip install tiktoken") from error
    return tiktoken
