from __future__ import annotations

import random
import re
import time

import numpy as np
import pytest

from zoo.data import sentencepiece_model
from zoo.data.sentencepiece_model import SentencePiece
from zoo.errors import DataError

TEXTS = [
    "The quick brown fox jumps over the lazy dog.\nThe dog does not mind, nor does the fox.\n\n" * 5,
    "Naïve façades: the dogs' café over there – \tquick, quick!\n" * 5,
]


def _train(texts: list[str], vocab_size: int) -> bytes:
    return sentencepiece_model.train(texts, vocab_size, sum(map(len, texts)))


def _encode(tokenizer: SentencePiece, text: str) -> list[int]:
    return tokenizer.encode([text])[0].tolist()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> SentencePiece:
    path = tmp_path_factory.mktemp("tokenizer") / "a.model"
    path.write_bytes(_train(TEXTS, 320))
    return SentencePiece(path)


def _unicode(seed: int) -> str:
    """Any characters, spaces and newlines among them, but halves of surrogate pairs."""
    pick = random.Random(seed)
    planes = [
        (0x20, 0x7F),
        (0, 0x20),
        (0x80, 0x250),
        (0x2000, 0x2100),
        (0x2580, 0x25A0),
        (0x4E00, 0x9FFF),
        (0xE000, 0x10FFFF),
    ]
    spans = (pick.choice(planes) for _ in range(pick.randint(0, 300)))
    return "".join(pick.choice([" ", "\n", "the", chr(pick.randint(*span))]) for span in spans)


@pytest.mark.parametrize("seed", range(50))
def test_any_text_decodes_to_itself(tokenizer, seed):
    text = _unicode(seed)
    tokens = _encode(tokenizer, text)
    assert tokenizer.decode(tokens) == text
    assert sum(len(tokenizer.pieces[token]) for token in tokens) == len(text.encode())
    assert all(1 < token < tokenizer.vocab_size for token in tokens)  # neither unknown nor the end


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "  a  b ",
        "\n",
        "\n\n x",
        "\r\n\t",
        "▁",
        "a▁ b▁▁",
        "▅⁇",
        "</s>",
        "<unk>",
        "<s> <0x0A>",
        "\ufeff\ufffd\u2028",
        "e\u0301ﬁ",
        "\0",
        " \u00a0\u3000",
    ],
)
def test_nothing_in_a_text_is_special(tokenizer, text):
    tokens = _encode(tokenizer, text)
    assert tokenizer.decode(tokens) == text
    assert tokenizer.eos not in tokens


def test_what_was_seen_is_shorter_than_its_bytes(tokenizer):
    assert len(_encode(tokenizer, "The quick brown fox")) < 10


def test_a_character_whose_end_is_missing(tokenizer):
    tokens = _encode(tokenizer, "a🙂b")
    assert len(tokens) > 3 and tokenizer.decode(tokens[:-2]) == "a\ufffd"


def test_a_control_token_writes_nothing(tokenizer):
    assert tokenizer.bos == tokenizer.eos == 1
    assert tokenizer.decode([0, tokenizer.eos, *_encode(tokenizer, "the"), tokenizer.eos]) == "the"


@pytest.mark.parametrize("vocab_size", [320, 70_000])
def test_documents_stand_in_a_row(tokenizer, vocab_size, monkeypatch):
    monkeypatch.setattr(tokenizer, "vocab_size", vocab_size)
    documents = [*TEXTS, "▁ a", *(_unicode(i) for i in range(50))] * 5
    row = tokenizer.encode_documents(documents)
    expected = [tokenizer.eos]
    for document in documents:
        expected += [*_encode(tokenizer, document), tokenizer.eos]
    assert row.tolist() == expected
    assert row.dtype == (np.uint16 if vocab_size == 320 else np.int32)
    assert tokenizer.encode_documents([]).tolist() == [tokenizer.eos]


def test_training_is_silent_and_gives_the_same_again(capfd):
    assert _train(TEXTS, 320) == _train(TEXTS, 320) != _train(TEXTS, 321)
    with pytest.raises(DataError):
        _train(TEXTS, 5000)
    assert capfd.readouterr() == ("", "")


def test_a_vocabulary_that_the_text_does_not_support_names_one_that_it_does(tmp_path):
    for vocab_size in (5000, 1 << 20):
        with pytest.raises(DataError, match="data.vocab_size = .* or less") as caught:
            _train(TEXTS, vocab_size)
        most = int(re.findall(r"\d+", str(caught.value))[-1])
        path = tmp_path / "a.model"
        path.write_bytes(_train(TEXTS, most))
        assert SentencePiece(path).vocab_size == most
        with pytest.raises(DataError):
            _train(TEXTS, most + 1)


@pytest.mark.parametrize("vocab_size", [1, 2, 100, 260])
def test_a_vocabulary_that_is_too_small_names_one_that_is_not(vocab_size):
    with pytest.raises(DataError, match=f"data.vocab_size = {vocab_size} .* or more") as caught:
        _train(TEXTS, vocab_size)
    least = int(re.findall(r"\d+", str(caught.value))[-1])
    _train(TEXTS, least)
    with pytest.raises(DataError):
        _train(TEXTS, least - 1)


@pytest.mark.parametrize("texts", [[], [""], ["\n\n"], ["▁▁"], ["▅"]])
def test_nothing_to_train_on(texts):
    with pytest.raises(DataError, match="nothing to learn"):
        _train(texts, 300)


def test_of_a_large_text_a_part_is_trained_on(monkeypatch):
    monkeypatch.setattr(sentencepiece_model, "SAMPLE", 2000)
    lines = ["even numbers are common\n", "odd OOOO\n"] * 1000
    assert b"OOOO" not in _train(["".join(lines)], 280)


def test_a_line_may_be_long(tokenizer):
    text = "the fox " * 100_000 + "x" * 300_000
    began = time.monotonic()
    assert tokenizer.decode(_encode(tokenizer, text)) == text
    assert time.monotonic() - began < 5


def test_a_file_that_is_no_tokenizer(tmp_path):
    (tmp_path / "a.model").write_bytes(b"nothing of the sort")
    with pytest.raises(DataError, match="a.model is not a SentencePiece model"):
        SentencePiece(tmp_path / "a.model")
    with pytest.raises(DataError, match="b.model cannot be read: No such file"):
        SentencePiece(tmp_path / "b.model")


def test_fairseq2_reads_the_same_model(tokenizer):
    from zoo.system import fairseq2_setup  # noqa: F401  # before anything of fairseq2

    # isort: split
    from fairseq2.data.tokenizers.sentencepiece import SentencePieceEncoder, SentencePieceModel

    model = SentencePieceModel(tokenizer.path)
    assert (model.vocabulary_size, model.eos_idx) == (tokenizer.vocab_size, tokenizer.eos)
    encode = SentencePieceEncoder(model)
    for text in [*TEXTS, *(_unicode(i).replace("▁", "") for i in range(20))]:
        assert encode(text).tolist() == _encode(tokenizer, text)


def test_an_altered_model_is_refused_or_works(tokenizer, tmp_path):
    data = tokenizer.path.read_bytes()
    numbers, refused = random.Random(5), 0
    for _ in range(60):
        altered = bytearray(data)
        for _ in range(numbers.choice((1, 1, 2, 20))):
            altered[numbers.randrange(len(altered))] = numbers.randrange(256)
        (tmp_path / "altered").write_bytes(
            altered[: numbers.choice((len(data), len(data), numbers.randrange(len(data))))]
        )
        try:
            assert isinstance(SentencePiece(tmp_path / "altered").decode([0, 5, 259]), str)
        except DataError:
            refused += 1
    assert refused > 10
