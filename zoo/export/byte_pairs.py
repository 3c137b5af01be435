"""Byte-level tokenizers as a tokenizer.json: bytes, and the encodings of tiktoken."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

COUNTED_POSSESSIVE = re.compile(
    r"(\{\d+(?:,\d*)?\})\+"
)  # what `tokenizers` would read as a repetition of the repetition


def letters() -> list[str]:
    """The letter that byte-level BPE writes for each byte: printable ones for themselves, the others from U+0100 on."""
    own = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(value if value in own else next(others)) for value in range(256)]


def of_bytes() -> dict[str, Any]:
    """Bytes as tokens."""
    return _byte_level({letter: byte for byte, letter in enumerate(letters())}, [], None)


def of_tiktoken(known: Mapping[str, Any]) -> dict[str, Any]:
    """An encoding of tiktoken, as a run keeps it."""
    ranks = {base64.b64decode(piece): int(rank) for piece, rank in known["ranks"].items()}
    written = letters()

    def spelt(piece: bytes) -> str:
        return "".join(written[byte] for byte in piece)

    by_rank = sorted(ranks.items(), key=lambda item: item[1])
    pairs = [_last_merge(ranks, piece, rank) for piece, rank in by_rank if len(piece) > 1]
    merges = [[spelt(pair[0]), spelt(pair[1])] for pair in pairs if pair]
    # Special tokens too: there may be a gap before their ids, which others would be given otherwise.
    vocabulary = {spelt(piece): rank for piece, rank in by_rank} | known["special"]
    return _byte_level(vocabulary, merges, known["pattern"])


def _last_merge(ranks: Mapping[bytes, int], piece: bytes, rank: int) -> tuple[bytes, bytes] | None:
    """The two tokens that are joined to this one at last; None if none are, so that no text has it."""
    parts = [piece[i : i + 1] for i in range(len(piece))]
    while len(parts) > 2:
        joined = [(ranks.get(a + b, rank), i) for i, (a, b) in enumerate(zip(parts, parts[1:], strict=False))]
        lowest, i = min(joined)
        if lowest >= rank:
            return None
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts[0], parts[1]


def _byte_level(vocabulary: dict[str, int], merges: list[list[str]], pattern: str | None) -> dict[str, Any]:
    bytes_to_letters = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    steps: list[dict[str, Any]] = [bytes_to_letters]
    if pattern is not None:
        regex = COUNTED_POSSESSIVE.sub(r"\1", pattern)
        steps.insert(0, {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False})
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": bytes_to_letters,
        "model": bpe_model(vocabulary, merges, ignore_merges=True),
    }


def bpe_model(vocabulary: dict[str, int], merges: list[list[str]], **settings: Any) -> dict[str, Any]:
    """The model of a tokenizer.json: BPE."""
    absent = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")
    plain = {**dict.fromkeys(absent), "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return {"type": "BPE", **plain, **settings, "vocab": vocabulary, "merges": merges}
