"""Mixtures: weights, turns, one tokenizer, exact resume."""

from __future__ import annotations

import io
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.data.batches import Data, data
from zoo.data.mixture import PERIOD, Turns, shares
from zoo.data.opening import configured_fingerprint
from zoo.errors import DataError


@pytest.mark.parametrize("weights", [(0.7, 0.3), (0.5, 0.25, 0.25), (0.999, 0.001), (1 / 3, 1 / 7, 11 / 21)])
def test_the_tokens_follow_the_weights_at_every_moment(weights: tuple[float, ...]) -> None:
    num_blocks = [40, 7, 1000][: len(weights)]
    turns = Turns(weights, num_blocks, seed=1)
    numbers = turns(np.arange(3 * PERIOD))
    which = np.searchsorted(np.cumsum(num_blocks), numbers, side="right")
    for count in (1000, 5000, PERIOD, 3 * PERIOD):
        for corpus, weight in enumerate(weights):
            assert abs((which[:count] == corpus).sum() - weight * count) <= 1 + 1e-4 * count
    for corpus, size in enumerate(num_blocks):  # each epoch of a corpus has every block of it once
        own = numbers[which == corpus] - sum(num_blocks[:corpus])
        epochs = [own[i : i + size].tolist() for i in range(0, len(own) - size + 1, size)]
        assert all(sorted(epoch) == list(range(size)) for epoch in epochs)
        assert size < 3 or len(epochs) < 2 or epochs[0] != epochs[1]


def test_any_place_can_be_asked_for_alone() -> None:
    turns = Turns((0.6, 0.4), (5, 3), seed=2)
    assert turns(np.arange(100)).tolist() == [int(turns(np.array([i]))[0]) for i in range(100)]


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": -1.0, "b": 1.0}, {"a": float("inf")}, {"a": float("nan")}])
def test_weights_that_are_none(weights: dict[str, float]) -> None:
    with pytest.raises(DataError, match="data.corpus"):
        shares(weights)


WORDS = {"a": ["re", "un", "over", "dis"], "b": ["MIS", "TAKE", "TURN", "LAY"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixture")
    for name, words in WORDS.items():
        pick = random.Random(name)
        for split, count in (("train", 3000), ("valid", 300), ("test", 200)):
            (folder / name).mkdir(exist_ok=True)
            text = "".join(pick.choice(words) + pick.choice((" ", ".\n")) for _ in range(count * (1 + (name == "b"))))
            (folder / name / f"{split}.txt").write_text(text)
    return folder


def mixed(folder: Path, **settings: object) -> Data:
    weights = {str(folder / "a"): 3.0, str(folder / "b"): 1.0}
    given = {"vocab_size": 300, "length": 16, "batch_size": 8, "cache": str(folder / "cache")} | settings
    return data(weights, **given)  # type: ignore[arg-type]


def test_one_tokenizer_and_blocks_by_weight(folder: Path) -> None:
    it = mixed(folder)
    assert len({part.prepared.tokenizer.identity for part in it.parts}) == 1
    assert it.tokenizer.decode(it.tokenizer.encode(["over MIS"])[0].tolist()) == "over MIS"
    rows = torch.cat(list(itertools.islice(it.train(1), 100)))
    lower = sum(any(c.islower() for c in it.tokenizer.decode(row.tolist())) for row in rows)
    assert lower == pytest.approx(600, abs=1)
    assert it.name == f"75% {folder / 'a'} + 25% {folder / 'b'}"
    assert it.num_blocks == sum(it.blocks_of)


def test_each_corpus_is_evaluated_on_its_own(folder: Path) -> None:
    it = mixed(folder)
    one, other = it.evaluations("valid")
    assert (one.name, one.share, other.share) == ("a", 0.75, 0.25)
    for each in (one, other):
        counted = sum(int((targets != -100).sum()) for _, targets in each.batches)
        assert counted == each.tokens
    assert one.tokens + other.tokens == it.tokens("valid")


def test_it_resumes_exactly_and_ranks_share(folder: Path) -> None:
    it = mixed(folder)
    whole = list(itertools.islice(it.train(5), 30))
    reader = it.train(5)
    for step in (0, 1, 7, 20):
        while step > 0 and not torch.equal(next(reader), whole[step - 1]):
            pass
        file = io.BytesIO()
        torch.save(reader.state_dict(), file)
        file.seek(0)
        resumed = it.train(5)
        resumed.load_state_dict(torch.load(file, weights_only=True))
        assert all(map(torch.equal, itertools.islice(resumed, 30 - step), whole[step:]))
    ranks = [next(mixed(folder, batch_size=4).train(5, rank, 2)) for rank in range(2)]
    assert sorted(torch.cat(ranks).tolist()) == sorted(whole[0].tolist())


def test_the_fingerprint_is_of_corpora_and_weights(folder: Path) -> None:
    it = mixed(folder)
    weights = {str(folder / "a"): 3.0, str(folder / "b"): 1.0}
    settings = {
        "data.format": "auto",
        "data.text_key": "text",
        "data.skip_bad": False,
        "data.cache": str(folder / "cache"),
    }
    assert configured_fingerprint({**settings, "data.corpus": weights}) == it.fingerprint
    weights[str(folder / "a")] = 2.0
    assert configured_fingerprint({**settings, "data.corpus": weights}) != it.fingerprint
    assert configured_fingerprint({**settings, "data.corpus": str(folder / "a")}) == it.parts[0].prepared.fingerprint


def test_a_prepared_corpus_brings_its_tokenizer(folder: Path) -> None:
    made = data(str(folder / "a"), vocab_size=280, length=16, cache=str(folder / "cache")).parts[0].prepared.folder
    weights, settings = {str(made): 3.0, str(folder / "b"): 1.0}, {"length": 16, "cache": str(folder / "cache")}
    with pytest.raises(DataError, match=r"is prepared.*set data\.tokenizer to '.*tokenizer\.model'"):
        data(weights, vocab_size=280, **settings)  # type: ignore[arg-type]
    it = data(weights, tokenizer=str(made / "tokenizer.model"), **settings)  # type: ignore[arg-type]
    assert len({part.prepared.tokenizer.identity for part in it.parts}) == 1
