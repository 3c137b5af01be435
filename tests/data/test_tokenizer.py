from __future__ import annotations

import io
import json
import math
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tiktoken
import tokenizers
from helpers.given_tokenizers import byte_level
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from zoo.data import sentencepiece_model, tiktoken_model
from zoo.data.token_interface import PROBE, Tokenizer, windows
from zoo.data.tokenizer import configured_size, open_tokenizer, padding
from zoo.errors import DataError

TEXTS = [
    "The quick brown fox jumps over the lazy dog.\nThe dog does not mind, nor does the fox.\n\n" * 5,
    "Naïve façades: the dogs' café over there – \tquick, quick!\n" * 5,
]
HARD = [PROBE, "", " ", "\n\n", "<|endoftext|> </s> <s> [SEP] <0x0A>", "  two  spaces ", "日本語🙂", "the quick", "▁x▁"]
END = "<|endoftext|>"


def _own(folder: Path) -> str:
    (folder / "own.model").write_bytes(sentencepiece_model.train(TEXTS, 320, sum(map(len, TEXTS))))
    return str(folder / "own.model")


def _given(folder: Path) -> str:
    """A SentencePiece model as others make them: unigram, a space before every text, normalised, no end of sentence."""
    model = io.BytesIO()
    lines = [line for text in TEXTS for line in text.splitlines() if line]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=45, eos_id=-1, bos_id=-1, minloglevel=4
    )
    (folder / "given.model").write_bytes(model.getvalue())
    return str(folder / "given.model")


def _byte_level(folder: Path) -> str:
    return byte_level(folder / "tokenizer.json", TEXTS, [END])


def _metaspace(folder: Path) -> str:
    """As Llama's: ▁ for spaces, one before every text, bytes for what is rare; the end is named beside it."""
    spelt = {f"<0x{value:02X}>": 3 + value for value in range(256)}
    letters = sorted({letter for text in TEXTS for letter in text.replace(" ", "▁") if letter not in "\n\t"})
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | spelt
    vocabulary |= {letter: 259 + i for i, letter in enumerate(letters)} | {"th": 259 + len(letters)}
    made = tokenizers.Tokenizer(
        models.BPE(vocabulary, [("t", "h")], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    (folder / "llama").mkdir()
    made.save(str(folder / "llama" / "tokenizer.json"))
    (folder / "llama" / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "</s>"}}))
    return str(folder / "llama")


def _word_pieces(folder: Path) -> str:
    """As BERT's: lower case, no accents."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(
        TEXTS, trainers.WordPieceTrainer(vocab_size=120, special_tokens=["[UNK]"], show_progress=False)
    )
    made.enable_truncation(5)
    made.save(str(folder / "bert.json"))
    return str(folder / "bert.json")


def _encoding() -> tiktoken.Encoding:
    ranks = {bytes([value]): value for value in range(256)} | {b"th": 256, b"the": 257, b" the": 259}
    pattern = r"'(?:[sdmt])| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    return tiktoken.Encoding("small", pat_str=pattern, mergeable_ranks=ranks, special_tokens={END: 300})


def _named(folder: Path) -> str:
    return "tiktoken:small"


def _bytes(folder: Path) -> str:
    return "bytes"


KINDS: dict[str, Callable[[Path], str]] = {
    each.__name__[1:]: each for each in (_own, _given, _byte_level, _metaspace, _word_pieces, _named, _bytes)
}
LOSSLESS = ("own", "byte_level", "metaspace", "named", "bytes")


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiktoken, "get_encoding", lambda name: _encoding())
        patch.setattr(tiktoken, "list_encoding_names", lambda: ["small"])
        return {name: open_tokenizer(make(tmp_path_factory.mktemp(name)), 64) for name, make in KINDS.items()}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tokenizer(all_kinds: dict[str, Tokenizer], kind: str) -> Tokenizer:
    return all_kinds[kind]


def test_what_every_tokenizer_has(tokenizer: Tokenizer) -> None:
    assert len(tokenizer.pieces) == tokenizer.vocab_size <= tokenizer.padded_size < tokenizer.vocab_size + 64
    assert tokenizer.padded_size % 64 == 0
    assert 0 <= tokenizer.eos == tokenizer.bos < tokenizer.vocab_size and tokenizer.pieces[tokenizer.eos] == b""
    for text, tokens in zip(HARD, tokenizer.encode(HARD), strict=True):
        assert tokenizer.eos not in tokens and tokens.min(initial=0) >= 0, text
        assert tokens.max(initial=0) < tokenizer.vocab_size


def test_texts_are_written_back_where_the_tokenizer_keeps_them(tokenizer: Tokenizer, kind: str) -> None:
    assert tokenizer.lossless == (kind in LOSSLESS)
    for text, tokens in zip(HARD, tokenizer.encode(HARD), strict=True):
        written = tokenizer.decode(tokens.tolist())
        if kind in LOSSLESS:
            assert written == (f" {text.replace('▁', ' ')}" if kind == "metaspace" and text else text)


def test_tokens_are_those_of_the_package_itself(all_kinds: dict[str, Tokenizer]) -> None:
    for name in ("byte_level", "metaspace", "word_pieces"):
        spec = Path(all_kinds[name].spec)
        theirs = tokenizers.Tokenizer.from_file(str(spec / "tokenizer.json" if spec.is_dir() else spec))
        theirs.no_truncation()
        for text in (*TEXTS, "The dog\n\n jumps  over", PROBE):
            ours = all_kinds[name].encode([text])[0].tolist()
            assert ours == theirs.encode(text.replace("<unk>", ""), add_special_tokens=False).ids or "<unk>" in text
            if name == "byte_level":
                assert all_kinds[name].decode(ours) == theirs.decode(ours)
            if name == "metaspace" and ours:
                assert all_kinds[name].decode(ours).removeprefix(" ") == theirs.decode(ours)
    for text in HARD:
        assert all_kinds["named"].encode([text])[0].tolist() == _encoding().encode_ordinary(text)
    processor = sentencepiece.SentencePieceProcessor(model_file=all_kinds["given"].spec)
    for text in (*TEXTS, *HARD):
        assert all_kinds["given"].encode([text])[0].tolist() == processor.encode(text)


def test_the_copy_that_a_run_keeps_is_the_same_tokenizer(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(tokenizer.content)
    copy = open_tokenizer(str(tmp_path / "tokenizer.model"), 64)
    for name in ("identity", "vocab_size", "padded_size", "eos", "pieces"):
        assert getattr(copy, name) == getattr(tokenizer, name)
    assert [row.tolist() for row in copy.encode(HARD)] == [row.tolist() for row in tokenizer.encode(HARD)]
    assert pickle.loads(pickle.dumps(tokenizer.spec)) == tokenizer.spec


def test_identities_differ(all_kinds: dict[str, Tokenizer]) -> None:
    assert len({each.identity for each in all_kinds.values()}) == len(all_kinds)


def test_documents_stand_in_a_row(tokenizer: Tokenizer) -> None:
    rows = tokenizer.encode(HARD)
    expected = [tokenizer.eos, *(token for row in rows for token in (*row.tolist(), tokenizer.eos))]
    assert tokenizer.encode_documents(iter(HARD)).tolist() == expected


def test_bits_per_byte_are_of_the_same_bytes_for_all(all_kinds: dict[str, Tokenizer]) -> None:
    """A model that knows nothing needs log2(vocabulary) bits per token; one that knows the counts of tokens needs less.

    Over the bytes of the original text, whatever the tokenizer makes of it, both are bounds of one quantity: more tokens
    cost more, and no lossless tokenizer gets below what the order-0 counts of its own tokens allow.
    """
    text = "".join(TEXTS)
    size = len(text.encode())
    bits = {}
    for name in LOSSLESS:
        tokens = all_kinds[name].encode([text])[0].tolist()
        written = sum(len(all_kinds[name].pieces[token]) for token in tokens)
        assert written == size + (name == "metaspace")  # the space before the text
        counts = Counter(tokens)
        own = sum(-n * math.log2(n / len(tokens)) for n in counts.values()) / size
        assert own <= len(tokens) * math.log2(all_kinds[name].vocab_size) / size
        bits[name] = own
    # The order-0 entropy of bytes, by definition.
    of_bytes = Counter(text.encode())
    assert bits["bytes"] == pytest.approx(sum(-n / size * math.log2(n / size) for n in of_bytes.values()))
    assert bits["own"] < bits["named"] < bits["bytes"]  # larger pieces know more
    assert bits["metaspace"] < bits["bytes"] * 1.02


@pytest.mark.parametrize("length", [10, 1 << 16, 300_000])
def test_windows_are_the_text(length: int) -> None:
    pick = random.Random(length)
    text = "".join(pick.choices(["a", "word", " ", "\n", "x" * 999], k=length))[:length]
    parts = list(windows(text))
    assert "".join(parts) == text and max(map(len, parts)) <= 1 << 16
    assert "".join(windows("x" * length)) == "x" * length


def test_a_long_line_takes_no_long_time(tokenizer: Tokenizer) -> None:
    text = "the fox " * 20_000 + "x" * 100_000
    began = time.monotonic()
    tokens = tokenizer.encode([text])[0]
    assert len(tokens) > 1000 or not tokenizer.lossless
    assert time.monotonic() - began < 10


def test_a_special_token_in_a_text_is_plain_text(all_kinds: dict[str, Tokenizer]) -> None:
    for name in ("byte_level", "metaspace", "named"):
        text = f"{END}</s>"
        assert all_kinds[name].decode(all_kinds[name].encode([text])[0].tolist()).strip() == text


def test_the_end_of_a_text(all_kinds: dict[str, Tokenizer]) -> None:
    ends = {name: (each.eos, each.vocab_size) for name, each in all_kinds.items()}
    assert ends["own"] == (1, 320) and ends["given"] == (45, 46) and ends["byte_level"][0] == 0
    assert ends["metaspace"][0] == 2 and ends["word_pieces"] == (101, 102)  # one more, for it has none
    assert ends["named"] == (300, 301) and ends["bytes"] == (256, 257)


def test_only_a_tokenizer_that_was_trained_here_has_the_size_that_was_chosen() -> None:
    assert padding("sentencepiece", 64) == 1 and padding("bytes", 64) == 64
    assert open_tokenizer("bytes").padded_size == 257 and open_tokenizer("bytes", 64).padded_size == 320
    settings: dict[str, Any] = {"data.tokenizer": "sentencepiece", "data.vocab_size": 1001, "data.pad_vocab": 64}
    assert configured_size(settings) == 1001
    assert configured_size({**settings, "data.tokenizer": "bytes"}) == 320


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{", "neither a SentencePiece model nor a tokenizer.json"),
        (b"{}", "is not a tokenizer.json"),
        (b'{"model": {"type": "BPE"}}', "is not a tokenizer.json"),
        (b'{"zoo_tokenizer": "other"}', "of a kind that this version does not know: 'other'"),
        (b'{"zoo_tokenizer": "tokenizer.json", "model": 5}', "damaged"),
        (b'{"zoo_tokenizer": "tiktoken", "ranks": {}}', "is not a tokenizer of tiktoken"),
        pytest.param(b"{" + b'"a":{' * 100_000, "neither a SentencePiece model nor", id="deep"),
        (b"{\xff", "neither a SentencePiece model nor"),
        (b"nothing", "is not a SentencePiece model"),
        (b"", "is not a SentencePiece model|damaged"),
    ],
)
def test_a_file_that_is_no_tokenizer(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "it").write_bytes(content)
    with pytest.raises(DataError, match=sentence) as caught:
        open_tokenizer(str(tmp_path / "it"))
    assert str(tmp_path / "it") in str(caught.value)


@pytest.mark.parametrize("spec", ["nothing", "", "a\0b", "sentencepiece"])
def test_a_name_that_is_none_says_which_there_are(spec: str) -> None:
    with pytest.raises(DataError, match="there is no tokenizer .*: use 'sentencepiece' .*'bytes'.*tiktoken:gpt2.*path"):
        open_tokenizer(spec)


def test_a_path_that_leads_nowhere(tmp_path: Path) -> None:
    for spec in (tmp_path / "no.model", tmp_path):
        with pytest.raises(DataError, match="cannot be read: No such file"):
            open_tokenizer(str(spec))


def test_names_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="tiktoken has no encoding 'no', only gpt2"):
        open_tokenizer("tiktoken:no")

    def fail(name: str) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(tiktoken, "get_encoding", fail)
    with pytest.raises(DataError, match=r"tiktoken:gpt2 cannot be fetched .* set \$TIKTOKEN_CACHE_DIR"):
        open_tokenizer("tiktoken:gpt2")
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(DataError, match="pip install tiktoken"):
        open_tokenizer("tiktoken:gpt2")


def test_large_vocabularies_need_larger_numbers() -> None:
    ranks = {bytes([value]): value for value in range(256)} | {b"ab": 70_000}
    made = tiktoken.Encoding("large", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={})
    wide = tiktoken_model.Tiktoken(made, "large")
    assert wide.encode(["ab"])[0].tolist() == [70_000] and wide.encode(["ab"])[0].dtype == np.int32
    assert (wide.eos, wide.vocab_size) == (70_001, 70_002) and wide.pieces[60_000] == b""
