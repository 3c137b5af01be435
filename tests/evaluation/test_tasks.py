"""Figures of tasks, against a model that is asked token by token."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from helpers.untrained_run import untrained_run

from zoo.errors import ZooError
from zoo.evaluation.outcomes import FILE, Measure, Outcome, read_outcomes, write_outcome
from zoo.evaluation.pairing import paired_outcomes
from zoo.evaluation.scoring import Row, likelihoods
from zoo.evaluation.tasks import open_task
from zoo.generation.open_run import Run


def naive(run: Run, context: str, text: str, length: int = 32) -> tuple[float, bool]:
    """−ln p of the text after the context, a token at a time, and whether each is the likeliest."""
    whole = [run.tokenizer.bos, *(context + text).encode()]
    total, greedy = 0.0, True
    for place in range(1 + len(context.encode()), len(whole)):
        logits = run.model(torch.tensor([whole[max(0, place - length) : place]]))[0, -1].double()
        total -= torch.log_softmax(logits, 0)[whole[place]].item()
        greedy &= logits.argmax().item() == whole[place]
    return total, greedy


@torch.no_grad()
@pytest.mark.parametrize("methods", [(), ("v4_m1", "wr_8_2")], ids=["plain", "combined"])
def test_figures_are_those_of_a_naive_model(tmp_path: Path, methods: tuple[str, ...]) -> None:
    run = untrained_run(*methods)
    pairs = [("one two", "two one"), ("a long sentence ok", "né"), ("x", "xy")]
    (tmp_path / "pairs.jsonl").write_text(
        "".join(json.dumps({"sentence_good": good, "sentence_bad": bad}) + "\n" for good, bad in pairs)
    )
    found = open_task("pairs", str(tmp_path / "pairs.jsonl")).measure(run)
    margins = [naive(run, "", bad)[0] - naive(run, "", good)[0] for good, bad in pairs]
    assert found.measures["margin"].values == pytest.approx(margins, rel=1e-4, abs=1e-4)
    assert found.figures["accuracy"] == sum(margin > 0 for margin in margins) / 3
    assert (found.name, found.seed, found.step, found.items) == ("+".join(methods) or "baseline", 1, 7, 3)

    texts = ["the end is near", "to be or not"]
    (tmp_path / "cloze.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    found = open_task("cloze", str(tmp_path / "cloze.jsonl")).measure(run)
    words = [naive(run, text.rpartition(" ")[0], " " + text.rpartition(" ")[2]) for text in texts]
    assert found.figures["loss"] == pytest.approx(sum(nll for nll, _ in words) / 2, rel=1e-4)
    assert found.figures["accuracy"] == sum(greedy for _, greedy in words) / 2

    rows = [("Why?", ["so it is", "no"], 0), ("How?", ["a", "bb", "ccc"], 2)]
    (tmp_path / "choices.jsonl").write_text(
        "".join(json.dumps({"context": c, "choices": e, "answer": r}) + "\n" for c, e, r in rows)
    )
    found = open_task("choices", str(tmp_path / "choices.jsonl")).measure(run)
    bits = [[naive(run, c, f" {each}")[0] / math.log(2) for each in e] for c, e, _ in rows]
    right = [bits[i][r] for i, (_, _, r) in enumerate(rows)]
    sizes = [len(e[r]) + 1 for _, e, r in rows]
    assert found.figures["bits_per_byte"] == pytest.approx(sum(right) / sum(sizes), rel=1e-4)
    hits = [
        min(range(len(e)), key=lambda j, i=i, e=e: bits[i][j] / (len(e[j]) + 1)) == r
        for i, (_, e, r) in enumerate(rows)
    ]
    assert found.figures["accuracy"] == sum(hits) / 2


@torch.no_grad()
def test_a_corpus_is_measured_by_document(tmp_path: Path) -> None:
    run = untrained_run()
    texts = ["short", "ünï\ncode", "this document is longer than the thirty-two tokens that the model sees at once"]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    found = open_task("corpus", str(tmp_path / "texts.jsonl")).measure(run)
    nll = []
    for text in texts:
        whole, total = [run.tokenizer.eos, *text.encode(), run.tokenizer.eos], 0.0
        for first in range(1, len(whole), 32):  # what is scored at once has as much before it as fits
            last = min(first + 32, len(whole))
            seen = whole[max(0, last - 33) : last]
            logits = torch.log_softmax(run.model(torch.tensor([seen[:-1]]))[0].double(), -1)
            total -= sum(logits[len(seen) - 1 - (last - i), whole[i]].item() for i in range(first, last))
        nll.append(total)
    assert found.measures["loss"].values == pytest.approx(nll, rel=1e-4)
    assert found.figures["loss"] == pytest.approx(sum(nll) / sum(len(text.encode()) + 1 for text in texts), rel=1e-4)
    bits = sum(nll) / math.log(2) / sum(len(text.encode()) for text in texts)
    assert found.figures["bits_per_byte"] == pytest.approx(bits, rel=1e-4)
    again = untrained_run(corpus=str(tmp_path / "texts.jsonl"))
    (note,) = open_task("corpus", str(tmp_path / "texts.jsonl"), most=1).measure(again).notes
    assert "was trained on" in note and "--split test" in note


def test_tasks_that_cannot_be(tmp_path: Path) -> None:
    for arguments, complaint in (
        (("pears", "x"), "there is no kind of task pears (nearest: pairs)"),
        (("corpus", "sotu", "tst"), "there is no split tst (nearest: test)"),
        (("corpus", str(tmp_path / "none")), "there is no corpus at"),
        (("pairs", "x", "all", 0), "must be at least 1"),
    ):
        with pytest.raises(ZooError) as error:
            open_task(*arguments).identity  # type: ignore[arg-type]  # noqa: B018
        assert complaint in str(error.value)


def test_a_model_that_answers_nan_is_refused(tmp_path: Path) -> None:
    run = untrained_run()
    with torch.no_grad():
        run.model.norm.gain.fill_(float("nan"))
    (tmp_path / "cloze.jsonl").write_text('{"text": "a b"}\n')
    with pytest.raises(ZooError, match="not finite: its training diverged"):
        open_task("cloze", str(tmp_path / "cloze.jsonl")).measure(run)


def test_rows_do_not_depend_on_their_company() -> None:
    run = untrained_run("fox")
    rows = [Row([1, 2, 3, 4], 2), Row(list(range(1, 30)), 1), Row([5, 6])]
    together = likelihoods(run.model, rows, 32)
    for row, score in zip(rows, together, strict=True):
        (alone,) = likelihoods(run.model, [row], 32)
        assert score.nll == pytest.approx(alone.nll, rel=1e-5) and score.tokens == alone.tokens


def made_up(seed: int, values: tuple[float, ...], name: str = "a", **others: object) -> Outcome:
    fields: dict[str, object] = {
        "run": f"{name}{seed}",
        "name": name,
        "seed": seed,
        "task": "t",
        "kind": "pairs",
        "identity": "i",
        "step": 3,
        "measures": {"loss": Measure("lower", values)},
    }
    return Outcome(**{**fields, **others})  # type: ignore[arg-type]


def test_outcomes_are_read_as_they_were_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = made_up(1, (0.123456789, 2.0), notes=("a sentence",))
    weighted = made_up(2, (1.0, 2.0), measures={"bits": Measure("lower", (1.0, 2.0), (3.0, 4.0))})
    for each in (outcome, weighted, weighted):
        write_outcome(tmp_path, each)
    with (tmp_path / FILE).open("a") as file:
        file.write('{"run": 3}\n{"cut')
    heard: list[str] = []
    first, second = read_outcomes([tmp_path, tmp_path / "none"], heard.append)
    assert first.figures["loss"] == pytest.approx(outcome.figures["loss"], rel=1e-6) and first.notes == outcome.notes
    assert second == weighted
    assert [f"line {n}" in line for n, line in zip((4, 5), heard, strict=True)] == [True, True]


def test_outcomes_are_paired_by_seed_and_item() -> None:
    ours = [made_up(1, (1.0, 2.0, 4.0)), made_up(2, (1.5, 2.5, 4.0)), made_up(9, (0.0, 0.0, 0.0))]
    theirs = [made_up(2, (1.0, 2.0, 3.0), "b"), made_up(1, (0.5, 1.0, 3.5), "b")]
    difference = paired_outcomes(ours, theirs)
    assert difference.n == 2 and difference.mean == pytest.approx((0.5 + 1 + 0.5 + 0.5 + 0.5 + 1) / 6)
    alone = paired_outcomes(ours[:1], [made_up(5, (0.5, 1.0, 3.5), "b")])  # two runs: over items
    assert alone.n == 1 and alone.degrees == 2


@pytest.mark.parametrize(
    ("theirs", "measure", "complaint"),
    [
        ([made_up(1, (1.0,), identity="other")], "", "not the same items"),
        ([made_up(3, (1.0, 1.0)), made_up(4, (1.0, 1.0))], "", "no seed in common"),
        ([made_up(1, (1.0, 1.0)), made_up(1, (1.0, 1.0))], "", "seed 1 is there twice"),
        ([made_up(1, (1.0, 1.0))], "los", "has no figure los (nearest: loss)"),
        ([made_up(1, (1.0, 1.0), measures={"loss": Measure("lower", (1.0, 1.0), (2.0, 2.0))})], "", "tokenizers"),
    ],
)
def test_what_cannot_be_paired(theirs: list[Outcome], measure: str, complaint: str) -> None:
    with pytest.raises(ZooError) as error:
        paired_outcomes([made_up(1, (1.0, 2.0)), made_up(2, (1.0, 2.0))], theirs, measure)
    assert complaint in str(error.value)
