"""Any tokenizer of the zoo as the tokenizer.json and tokenizer_config.json that transformers reads."""

from __future__ import annotations

import json
from typing import Any

from zoo.data.byte_tokenizer import Bytes
from zoo.data.sentencepiece_model import SentencePiece
from zoo.data.tiktoken_model import Tiktoken
from zoo.data.token_interface import PROBE, Tokenizer
from zoo.data.tokenizer_json import TokenizerJson
from zoo.errors import DataError, ZooError
from zoo.export.byte_pairs import of_bytes, of_tiktoken
from zoo.export.sentence_pieces import of_sentencepiece

END = "<|endoftext|>"  # the name of the token between documents, where a tokenizer has none for it
AT_ONCE = 50  # tokens whose texts are encoded together, as a check


def tokenizer_files(tokenizer: Tokenizer, length: int) -> dict[str, str]:
    """The files by name. The tokens of a text are the same there and here; a text begins with the end of the one before."""
    parts, added = _parts(tokenizer)
    names = {one["id"]: one["content"] for one in added}
    if tokenizer.eos not in names:
        names[tokenizer.eos] = _free_name(parts)
        added = [*added, _added(tokenizer.eos, names[tokenizer.eos])]
    end = names[tokenizer.eos]
    about = {
        **parts,
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda one: one["id"]),
        "post_processor": _begins_with(end, tokenizer.eos),
    }
    text = json.dumps(about, ensure_ascii=False)
    _check(tokenizer, text, end)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": end,
        "eos_token": end,
        "pad_token": end,
        "model_max_length": length,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "split_special_tokens": True,  # in a text, the name of such a token is plain text
        "clean_up_tokenization_spaces": False,
    }
    return {"tokenizer.json": text, "tokenizer_config.json": json.dumps(settings, indent=2, ensure_ascii=False) + "\n"}


def _parts(tokenizer: Tokenizer) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The parts of a tokenizer.json that decide on tokens; and the tokens that no text is cut into."""
    if isinstance(tokenizer, SentencePiece):
        parts, whole = of_sentencepiece(tokenizer.content, tokenizer.segmented)
        return parts, [_added(i, *one) for i, one in whole.items()]
    known = json.loads(tokenizer.content)
    if isinstance(tokenizer, Bytes):
        return of_bytes(), []
    if isinstance(tokenizer, Tiktoken):
        return of_tiktoken(known), [_added(i, name) for name, i in known["special"].items()]
    if isinstance(tokenizer, TokenizerJson):
        about = json.loads(known["model"])
        return about, about.get("added_tokens") or []
    raise DataError(f"there is no tokenizer.json for a {type(tokenizer).__name__}")


def _free_name(parts: dict[str, Any]) -> str:
    vocabulary = parts["model"]["vocab"]
    taken = set(vocabulary) if isinstance(vocabulary, dict) else {each[0] for each in vocabulary}
    return END if END not in taken else "<|end_of_document|>"


def _added(i: int, name: str, special: bool = True) -> dict[str, Any]:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": i, "content": name, **plain, "special": special}


def _begins_with(end: str, i: int) -> dict[str, Any]:
    """Every text begins as a document does."""
    token = {"SpecialToken": {"id": end, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [token, first],
        "pair": [token, first, token, second],
        "special_tokens": {end: {"id": end, "ids": [i], "tokens": [end]}},
    }


def _check(tokenizer: Tokenizer, text: str, end: str) -> None:
    """Refuse a tokenizer.json that gives other tokens."""
    try:
        import tokenizers
    except ImportError as error:
        raise ZooError("a tokenizer.json needs the package tokenizers: pip install 'transformer-zoo[hf]'") from error
    try:
        there = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the package knows no other kind
        raise DataError(f"the tokenizer cannot be written as a tokenizer.json: {error}") from error
    there.encode_special_tokens = True
    if there.token_to_id(end) != tokenizer.eos:
        raise DataError(f"as a tokenizer.json, the tokenizer would have another number for {end}")
    for sample in _samples(tokenizer):
        if there.encode(sample, add_special_tokens=False).ids != tokenizer.encode([sample])[0].tolist():
            raise DataError(f"as a tokenizer.json, the tokenizer would give other tokens, such as for {sample[:60]!r}")


def _samples(tokenizer: Tokenizer) -> list[str]:
    """Texts with all kinds of characters, and with what every token writes."""
    pieces = [piece.decode("utf-8", "ignore") for piece in tokenizer.pieces]
    return [PROBE, *(" ".join(pieces[i : i + AT_ONCE]) for i in range(0, len(pieces), AT_ONCE))]
