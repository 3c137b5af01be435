from __future__ import annotations

import base64
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from helpers.given_tokenizers import byte_level

from zoo.data.known_corpora import INSTALLED
from zoo.data.locate import locate
from zoo.data.sentencepiece_model import train
from zoo.data.token_interface import PROBE, Tokenizer
from zoo.data.tokenizer import open_tokenizer
from zoo.errors import DataError
from zoo.export import tokenizer_file
from zoo.export.byte_pairs import of_bytes
from zoo.export.tokenizer_file import tokenizer_files

SPEECHES = sorted(path for path in locate(INSTALLED).iterdir() if path.suffix == ".txt")
REAL = "\n\n".join(path.read_text("utf-8") for path in SPEECHES[::60])[:150_000]
PATTERN = r"'(?:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s+$|\s*[\r\n]|\s+(?!\S)|\s"


def given_sentencepiece(**settings: Any) -> bytes:
    """A SentencePiece model as others train one."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(REAL[:60_000].splitlines()), model_writer=model, minloglevel=4, **settings
    )
    return model.getvalue()


def tiktoken_copy() -> bytes:
    """An encoding of tiktoken as a run keeps it, with pairs joined as their frequency asks for."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    for word in ("th", "the", "er", "in", "on", " a", " the", "12", "123", "  ", "an", "and", " and", "é", "日"):
        ranks.setdefault(word.encode(), len(ranks))
    known = {base64.b64encode(piece).decode(): rank for piece, rank in ranks.items()}
    special = {"<|endoftext|>": 300, "<|other|>": 301}
    return json.dumps(
        {"zoo_tokenizer": "tiktoken", "name": "small", "pattern": PATTERN, "special": special, "ranks": known}
    ).encode()


def opened(kind: str, folder: Path) -> Tokenizer:
    if kind == "bytes":
        return open_tokenizer("bytes", 64)
    if kind.startswith("tokenizer.json"):
        ends = ["<|endoftext|>"] if kind.endswith("with an end") else []
        return open_tokenizer(byte_level(folder / "tokenizer.json", [REAL[:20_000]], ends))
    contents = {
        "trained here": lambda: train([REAL], 800, len(REAL)),
        "tiktoken": tiktoken_copy,
        "unigram": lambda: given_sentencepiece(vocab_size=500, model_type="unigram"),
        "unigram in bytes": lambda: given_sentencepiece(vocab_size=700, model_type="unigram", byte_fallback=True),
        "bpe": lambda: given_sentencepiece(vocab_size=700, model_type="bpe", byte_fallback=True, eos_id=-1),
    }
    (folder / "a.model").write_bytes(contents[kind]())
    return open_tokenizer(str(folder / "a.model"))


KINDS = [
    *("trained here", "bytes", "tiktoken", "tokenizer.json", "tokenizer.json with an end"),
    *("unigram", "unigram in bytes", "bpe"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_gives_the_same_tokens(kind: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = opened(kind, tmp_path)
    for name, text in tokenizer_files(tokenizer, 128).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    there = AutoTokenizer.from_pretrained(tmp_path)
    assert there.eos_token_id == there.bos_token_id == tokenizer.eos and there.model_max_length == 128
    names = "▁ <|endoftext|> </s> <0x41>" if tokenizer.lossless else "▁ <|endoftext|>"
    texts = [REAL[:40_000], PROBE, "", names, *(_unicode(seed) for seed in range(20))]
    for text in texts:
        expected = tokenizer.encode([text])[0].tolist()
        assert there(text)["input_ids"] == [tokenizer.eos, *expected], text[:80]
        if tokenizer.lossless:
            assert there.decode(expected) == tokenizer.decode(expected), text[:80]


def _unicode(seed: int) -> str:
    pick = random.Random(seed)
    spans = [(0x20, 0x7F), (0x80, 0x250), (0x2000, 0x2100), (0x4E00, 0x4F00), (0x1F600, 0x1F640)]
    words = (chr(pick.randint(*pick.choice(spans))) for _ in range(60))
    return "".join(pick.choice([" ", "\n", "the", "12345", word]) for word in words)


def test_a_tokenizer_that_would_differ_is_refused(monkeypatch) -> None:
    spoilt = of_bytes()
    spoilt["pre_tokenizer"]["pretokenizers"][0]["add_prefix_space"] = True
    monkeypatch.setattr(tokenizer_file, "of_bytes", lambda: spoilt)
    with pytest.raises(DataError, match="as a tokenizer.json, the tokenizer would give other tokens, such as for"):
        tokenizer_files(open_tokenizer("bytes"), 16)
    spoilt["model"]["vocab"]["one more"] = 256
    with pytest.raises(DataError, match=r"would have another number for <\|endoftext\|>"):
        tokenizer_files(open_tokenizer("bytes"), 16)
