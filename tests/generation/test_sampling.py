"""What is drawn: how often each token comes, and when a text ends."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from helpers.random_models import factory, random_model, tokens

from zoo.errors import ZooError
from zoo.generation.generate import generate
from zoo.generation.sampling import Sampling

END = 1


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def frequencies(sampling: Sampling, probabilities: list[float], count: int = 4000) -> Counter[int]:
    numbers = torch.rand(count, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return Counter(sampling.choose(torch.tensor([probabilities]).expand(count, -1), numbers).tolist())


PROBABILITIES = [0.1, 0.4, 0.0, 0.3, 0.2]


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        ({}, {0: 0.1, 1: 0.4, 3: 0.3, 4: 0.2}),
        ({"top_k": 2}, {1: 4 / 7, 3: 3 / 7}),
        ({"top_k": 99}, {0: 0.1, 1: 0.4, 3: 0.3, 4: 0.2}),
        ({"top_p": 0.5}, {1: 4 / 7, 3: 3 / 7}),
        ({"top_p": 0.71}, {1: 4 / 9, 3: 3 / 9, 4: 2 / 9}),
        ({"top_p": 1e-9}, {1: 1.0}),
        ({"top_k": 3, "top_p": 0.5}, {1: 4 / 7, 3: 3 / 7}),  # of the three, 4/9 and 3/9 make up a half
        ({"top_k": 2, "top_p": 0.5}, {1: 1.0}),  # of the two, 4/7 is a half already
        ({"top_k": 1}, {1: 1.0}),
        ({"temperature": 0.0}, {1: 1.0}),
    ],
)
def test_tokens_come_as_often_as_they_should(chosen: dict[str, Any], wanted: dict[int, float]) -> None:
    found = frequencies(Sampling(**({"temperature": 1.0} | chosen)), PROBABILITIES)
    assert found.keys() == wanted.keys()
    for token, part in wanted.items():
        assert found[token] / 4000 == pytest.approx(part, abs=0.03)


def test_the_ends_of_the_numbers_stay_within_what_is_kept() -> None:
    rows = torch.tensor([[0.0, 0.3, 0.7, 0.0]]).expand(2, -1)
    numbers = torch.tensor([0.0, 1.0 - 1e-17], dtype=torch.float64)
    for chosen in ({}, {"top_k": 3}, {"top_p": 0.99}):
        assert set(Sampling(**chosen).choose(rows, numbers).tolist()) <= {1, 2}


@torch.no_grad()
def test_the_temperature_is_that_of_the_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.generation.generate.ROWS", 3000)
    built = random_model(depth=1).eval()
    prompt = [3, 4]
    logits = built(torch.tensor([prompt]))[0, -1]
    for temperature in (0.5, 2.0):
        drawn = generate(built, [prompt], END, Sampling(temperature), max_tokens=1, samples=3000)
        found = Counter(text.tokens[0] if text.tokens else END for text in drawn)
        wanted = (logits / temperature).softmax(dim=-1)
        distance = sum(abs(found[token] / 3000 - float(wanted[token])) for token in range(50)) / 2
        assert distance < 0.06


def test_a_text_does_not_depend_on_what_is_made_beside_it() -> None:
    built = random_model(depth=2, temporal_mixing=factory("temporal_mixing", "wr_8_2")).eval()
    prompts = [row[:n].tolist() for row, n in zip(tokens(3, 8), (1, 8, 4), strict=True)]
    sampling = Sampling(1.0, seed=5)
    together = list(generate(built, prompts, END, sampling, max_tokens=12, samples=3))
    assert [(text.prompt, text.sample) for text in together] == [(i, j) for i in range(3) for j in range(3)]
    alone = list(generate(built, prompts[:1], END, sampling, max_tokens=12))
    assert alone[0] == together[0]
    fewer = list(generate(built, prompts[:2], END, sampling, max_tokens=12, samples=2))
    assert fewer[3] == together[4]
    assert len({tuple(text.tokens) for text in together}) == 9
    other = list(generate(built, prompts[:1], END, Sampling(1.0, seed=6), max_tokens=12))
    assert other[0].tokens != alone[0].tokens


def test_texts_end_by_themselves_or_at_the_limit() -> None:
    built = random_model(depth=1).eval()
    with torch.no_grad():
        built.output[END] = 0.0  # an end about as likely as any other token
    texts = list(generate(built, [[3], [4, 5, 6]], END, Sampling(3.0), max_tokens=30, samples=40))
    ended, cut = [t for t in texts if t.ended], [t for t in texts if not t.ended]
    assert ended and cut
    assert all(len(text.tokens) == 30 for text in cut)
    assert all(END not in text.tokens for text in texts)
    assert {len(text.tokens) for text in ended if text.prompt == 0} & {0, 1}  # even before the longer prompt is over


def test_no_number_is_worse_than_a_sentence() -> None:
    built = random_model(depth=1).eval()
    with torch.no_grad():
        built.output[7] = float("nan")
    with pytest.raises(ZooError, match="diverged"):
        next(generate(built, [[3]], END, Sampling(), max_tokens=3))


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"temperature": -0.1}, "temperature = -0.1 must be 0"),
        ({"temperature": float("nan")}, "temperature = nan must be 0"),
        ({"temperature": float("inf")}, "temperature = inf must be 0"),
        ({"top_k": 0}, "top-k = 0 must be at least 1"),
        ({"top_p": 0.0}, "top-p = 0.0 must be above 0 and at most 1"),
        ({"top_p": 1.1}, "top-p = 1.1 must be above 0 and at most 1"),
    ],
)
def test_settings_that_make_no_sense(chosen: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ZooError, match=sentence):
        Sampling(**chosen)


def test_a_tiny_temperature_is_greedy_and_does_not_overflow() -> None:
    built = random_model(depth=1).eval()
    texts = [list(generate(built, [[3]], END, Sampling(t), max_tokens=5)) for t in (0.0, 1e-300, 1e-5)]
    assert texts[0] == texts[1] == texts[2]
