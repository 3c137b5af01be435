"""Tokenizers of Hugging Face: a tokenizer.json, or the folder it is in."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.data.token_interface import Tokenizer, not_usable, windows
from zoo.errors import DataError
from zoo.system.regular_files import parse_object, read_regular

if TYPE_CHECKING:
    import numpy as np

KIND = "tokenizer.json"
LARGEST = 256 << 20  # bytes of such a file
# The end of a text, where no tokenizer_config.json beside it says which.
ENDS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>", "[SEP]")
BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class TokenizerJson(Tokenizer):
    """A tokenizer of the package `tokenizers`, with its own rules; special tokens in a text are plain text.

    Where it has no special token that ends a text, an id after all others does.
    """

    def __init__(self, model: str, end: str | None, spec: str, pad: int = 1) -> None:
        super().__init__(pad)
        self.spec = spec
        self._model, self._about = _loaded(model, spec)
        added = self._model.get_added_tokens_decoder()
        self._added = {token: "" if one.special else one.content for token, one in added.items()}
        special = {one.content: token for token, one in added.items() if one.special}
        size = 1 + max([*self._model.get_vocab(with_added_tokens=True).values(), -1])
        ends = [end] if end is not None else [name for name in ENDS if name in special]
        self.eos = special.get(ends[0], size) if ends else size
        self.vocab_size = max(size, self.eos + 1)
        self.content = json.dumps({"zoo_tokenizer": KIND, "end": end, "model": model}).encode()

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        parts = [list(windows(text)) for text in texts]
        flat = [part for of_text in parts for part in of_text]
        encoded = self._model.encode_batch_fast(flat, add_special_tokens=False)
        return self._rows((one.ids for one in encoded), map(len, parts))

    def _pieces(self) -> list[bytes]:
        written = _writer(self._about.get("decoder"))
        unknown = self._about["model"].get("unk_token")
        pieces = [b""] * self.vocab_size
        for token, number in self._model.get_vocab(with_added_tokens=True).items():
            if number in self._added:
                pieces[number] = self._added[number].encode()
            elif token != unknown:
                pieces[number] = written(token)
        return pieces


def open_path(path: Path, pad: int) -> TokenizerJson:
    """The tokenizer of a folder, or of a file that is called tokenizer.json or anything else."""
    file = path / KIND if path.is_dir() else path
    try:
        model = read_regular(file, LARGEST).decode("utf-8")
    except OSError as error:
        raise DataError(f"the tokenizer {file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise not_usable(str(file), "a tokenizer.json", error) from error
    return TokenizerJson(model, _configured_end(file.with_name("tokenizer_config.json")), str(path), pad)


def open_saved(spec: str, known: Mapping[str, Any], pad: int) -> TokenizerJson:
    """A tokenizer from the copy that a run keeps."""
    model, end = known.get("model"), known.get("end")
    if not isinstance(model, str) or not (end is None or isinstance(end, str)):
        raise DataError(f"{spec} is a damaged tokenizer: put back a copy of it")
    return TokenizerJson(model, end, spec, pad)


def _configured_end(file: Path) -> str | None:
    try:
        named = parse_object(read_regular(file, LARGEST)).get("eos_token")
    except (OSError, ValueError):
        return None
    content = named.get("content") if isinstance(named, dict) else named
    return content if isinstance(content, str) else None


def _loaded(model: str, spec: str) -> tuple[Any, dict[str, Any]]:
    try:
        import tokenizers
    except ImportError as error:
        raise DataError(f"{spec} needs the package tokenizers: install it with pip install tokenizers") from error
    # Several processes encode; threads in each would only get in each other's way.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        about = parse_object(model)
        loaded = tokenizers.Tokenizer.from_str(model)
    except Exception as error:  # the package knows no other kind
        raise not_usable(spec, "a tokenizer.json", error) from error
    loaded.no_truncation()
    loaded.no_padding()
    loaded.encode_special_tokens = True
    return loaded, about


class _writer:
    """What a token writes, by the rules of a decoder."""

    def __init__(self, decoder: Mapping[str, Any] | None) -> None:
        self._rules = _flat(decoder)
        self._bytes = _bytes_of_letters() if any(rule["type"] == "ByteLevel" for rule in self._rules) else None

    def __call__(self, token: str) -> bytes:
        if self._bytes is not None:
            return b"".join(self._bytes.get(letter, letter.encode()) for letter in token)
        for rule in self._rules:
            if rule["type"] == "ByteFallback" and (match := BYTE.fullmatch(token)):
                return bytes([int(match[1], 16)])
            token = _applied(rule, token)
        return (token if self._rules else f" {token}").encode()  # without rules, tokens are joined by spaces


def _flat(decoder: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if decoder is None:
        return []
    if decoder["type"] == "Sequence":
        return [rule for each in decoder["decoders"] for rule in _flat(each)]
    return [decoder]


def _applied(rule: Mapping[str, Any], token: str) -> str:
    if rule["type"] == "Replace" and "String" in rule["pattern"]:
        return token.replace(rule["pattern"]["String"], rule["content"])
    if rule["type"] == "Metaspace":
        return token.replace(rule["replacement"], " ")
    if rule["type"] == "WordPiece":
        return token.removeprefix(rule["prefix"]) if token.startswith(rule["prefix"]) else f" {token}"
    if rule["type"] == "BPEDecoder":
        return token.replace(rule["suffix"], " ")
    return token


def _bytes_of_letters() -> dict[str, bytes]:
    """The letters that byte-level BPE writes for bytes: printable ones for themselves, the others from U+0100 on."""
    own = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [value for value in range(256) if value not in own]
    letters = {chr(value): bytes([value]) for value in own}
    return letters | {chr(256 + i): bytes([value]) for i, value in enumerate(others)}
