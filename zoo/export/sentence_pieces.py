"""A SentencePiece model as a tokenizer.json.

Its pieces are written with the spaces that they stand for. A `▁` of the text itself is then no piece, and is spelt in
bytes, as the zoo's own tokenizers do.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from zoo.data.sentencepiece_model import SEGMENT, SPACE
from zoo.errors import DataError
from zoo.export.byte_pairs import bpe_model

UNIGRAM, BPE = 1, 2  # kinds of models
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # kinds of pieces


def of_sentencepiece(content: bytes, segmented: bool) -> tuple[dict[str, Any], dict[int, tuple[str, bool]]]:
    """The parts of a tokenizer.json; and the tokens that no text is cut into: id → what they are called, whether special.

    segmented: a text is cut into lines, and no space is added or taken away.
    """
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(content)
    kind, pieces = proto.trainer_spec.model_type, list(proto.pieces)
    names = [
        piece.piece if piece.type in (CONTROL, UNKNOWN, BYTE) else piece.piece.replace(SPACE, " ") for piece in pieces
    ]
    if kind not in (UNIGRAM, BPE) or proto.trainer_spec.treat_whitespace_as_suffix or len(set(names)) < len(names):
        raise DataError("this kind of SentencePiece model cannot be written as a tokenizer.json")
    in_bytes = any(piece.type == BYTE for piece in pieces)
    unknown = next(i for i, piece in enumerate(pieces) if piece.type == UNKNOWN)
    if kind == BPE:
        vocabulary = {name: i for i, name in enumerate(names)}
        model = bpe_model(
            vocabulary, _merges(pieces, names), unk_token=names[unknown], fuse_unk=True, byte_fallback=in_bytes
        )
    else:
        scored = [[name, piece.score] for name, piece in zip(names, pieces, strict=True)]
        model = {"type": "Unigram", "unk_id": unknown, "vocab": scored, "byte_fallback": in_bytes}
    parts = {
        "normalizer": None if segmented else _normalizer(proto.normalizer_spec),
        "pre_tokenizer": _split(SEGMENT.pattern) if segmented else _apart(kind, pieces),
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": model,
    }
    whole = (CONTROL, UNKNOWN, USER_DEFINED)
    return parts, {i: (names[i], piece.type != USER_DEFINED) for i, piece in enumerate(pieces) if piece.type in whole}


def _merges(pieces: list[Any], names: list[str]) -> list[list[str]]:
    """Every pair of pieces that make a third, the likeliest first."""
    usable = {name: i for i, name in enumerate(names) if pieces[i].type in (NORMAL, USER_DEFINED)}
    ranked: list[tuple[float, int, int, list[str]]] = []
    for name, i in usable.items():
        for cut in range(1, len(name)):
            left, right = name[:cut], name[cut:]
            if left in usable and right in usable:
                ranked.append((-pieces[i].score, usable[left], usable[right], [left, right]))
    return [pair for *_, pair in sorted(ranked)]


def _apart(kind: int, pieces: list[Any]) -> dict[str, Any] | None:
    """Nothing; but a unigram model of `tokenizers` would take the name of a control token in a text for the token itself."""
    names = [piece.piece for piece in pieces if piece.type in (CONTROL, UNKNOWN, BYTE) and len(piece.piece) > 1]
    if kind == BPE or not names:
        return None
    return _split("|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names))


def _split(pattern: str) -> dict[str, Any]:
    regex = pattern.replace("\n", r"\n")
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def _normalizer(spec: Any) -> dict[str, Any]:
    """What a model does to a text first."""
    steps: list[dict[str, Any]] = []
    if spec.precompiled_charsmap:
        charsmap = base64.b64encode(spec.precompiled_charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    steps.append({"type": "Replace", "pattern": {"String": SPACE}, "content": " "})
    if spec.remove_extra_whitespaces:
        steps.append({"type": "Replace", "pattern": {"Regex": "^ +| +$"}, "content": ""})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if spec.add_dummy_prefix:
        steps.append({"type": "Prepend", "prepend": " "})
    return {"type": "Sequence", "normalizers": steps}
