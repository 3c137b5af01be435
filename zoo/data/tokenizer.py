"""Which tokenizer a text names: bytes, an encoding of tiktoken, a SentencePiece model, a tokenizer of Hugging Face."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.data import tiktoken_model, tokenizer_json
from zoo.data.byte_tokenizer import NAME as BYTES, Bytes
from zoo.data.sentencepiece_model import SentencePiece
from zoo.data.token_interface import Tokenizer
from zoo.errors import DataError
from zoo.system.regular_files import open_regular, parse_object, possible, read_regular

TRAINED = "sentencepiece"  # the value of data.tokenizer for one that is trained on the corpus


def open_tokenizer(spec: str, pad: int = 1) -> Tokenizer:
    """The tokenizer that a text names; a model has rows for its tokens up to the next multiple of `pad`.

    A file is known by what it holds: JSON is a tokenizer.json, or the copy that a run keeps of any other kind; all else
    is a SentencePiece model.
    """
    if spec == BYTES:
        return Bytes(pad)
    if spec.startswith(tiktoken_model.PREFIX):
        return tiktoken_model.open_named(spec, pad)
    path = Path(spec).expanduser() if possible(spec) else None
    try:
        if path is None or not (path.exists() or os.sep in spec):  # what can only be a path is missed as one
            raise DataError(_unknown(spec))
        if path.is_dir():
            return tokenizer_json.open_path(path, pad)
        with open_regular(path) as file:
            is_json = file.read(1) == b"{"
        return _from_json(path, pad) if is_json else SentencePiece(path, pad)
    except OSError as error:
        raise DataError(f"the tokenizer {path} cannot be read: {error.strerror or error}") from error


def padding(tokenizer: str, pad_vocab: int) -> int:
    """What the rows of a model are a multiple of: of a tokenizer trained here, the size was chosen, and stays."""
    return 1 if tokenizer == TRAINED else pad_vocab


def configured_size(settings: Mapping[str, Any]) -> int:
    """How many rows for tokens the model of a configuration has."""
    tokenizer = settings.get("data.tokenizer", TRAINED)
    if tokenizer == TRAINED:
        size: int = settings["data.vocab_size"]
        return size
    return open_tokenizer(tokenizer, settings["data.pad_vocab"]).padded_size


def _from_json(path: Path, pad: int) -> Tokenizer:
    try:
        known = parse_object(read_regular(path, tokenizer_json.LARGEST))
    except ValueError as error:
        raise DataError(f"{path} is neither a SentencePiece model nor a tokenizer.json: {error}") from error
    kind = known.get("zoo_tokenizer")
    if kind is None:
        return tokenizer_json.open_path(path, pad)
    if kind == BYTES:
        return Bytes(pad)
    if kind == "tiktoken":
        return tiktoken_model.open_saved(str(path), known, pad)
    if kind == tokenizer_json.KIND:
        return tokenizer_json.open_saved(str(path), known, pad)
    raise DataError(f"{path} is a tokenizer of a kind that this version does not know: {kind!r}")


def _unknown(spec: str) -> str:
    named = f"{TRAINED!r} (trained on the corpus), {BYTES!r}, a name such as 'tiktoken:gpt2'"
    return (
        f"there is no tokenizer {spec!r}: use {named}, or the path of a SentencePiece model, of a tokenizer.json, or of"
        " the folder it is in"
    )
