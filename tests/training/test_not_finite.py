"""Losses, gradients and probes that are not finite: skipped, counted, named, and how such a run ends."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import tiny_training
from helpers.tiny_training import BATCH, LENGTH, Config, Model, config, go, saved

from zoo.runs.metrics import read_rows
from zoo.training.settings import Settings


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def spoiling(folder: Path, layer: int, how: str, bad: set[int], **settings: Any) -> Config:
    """A configuration whose model spoils what the given layer computes, in the given steps."""

    def before(number: int) -> None:
        made.built[-1].layers[layer - 1].spoilt = how if number in bad else ""

    made = config(folder, before=before, **settings)
    return made


@pytest.mark.parametrize("how", ["forward", "backward"])
def test_a_bad_step_is_skipped_counted_and_never_reaches_the_weights(tmp_path: Path, how: str) -> None:
    run = tmp_path / "run"
    summary = go(spoiling(tmp_path, 2, how, {5, 6}, steps=6, save_every=4), run)
    assert (summary.status, summary.skipped_steps, summary.steps) == ("finished", 2, 6)
    assert [(row["step"], row["in_a_row"]) for row in read_rows(run, "skipped")] == [(5, 1), (6, 2)]
    assert tiny_training.digest(saved(run, -1)["model"]) == tiny_training.digest(
        saved(run, -2)["model"]
    )  # of steps 6 and 4
    assert tiny_training.digest(saved(run, -1)["optimizer"]["state"]) == tiny_training.digest(
        saved(run, -2)["optimizer"]["state"]
    )


def test_it_recovers_from_a_few_bad_steps(tmp_path: Path) -> None:
    summary = go(spoiling(tmp_path, 1, "forward", {2, 3, 5, 6, 9}, max_skipped=3), tmp_path / "run")
    assert (summary.status, summary.skipped_steps) == ("finished", 5)
    assert saved(tmp_path / "run")["state"]["skipped_in_a_row"] == 0


@pytest.mark.parametrize("layer", [1, 2])
def test_so_many_in_a_row_end_as_diverged_and_tell_what_blew_up_first(tmp_path: Path, layer: int) -> None:
    summary = go(spoiling(tmp_path, layer, "forward", set(range(5, 100)), max_skipped=3), tmp_path / "run")
    assert (summary.status, summary.steps, summary.skipped_steps) == ("diverged", 7, 3)
    assert summary.blew_up == f"layer {layer} output is NaN"


@pytest.mark.parametrize("layer", [1, 2])
def test_a_gradient_that_blows_up_is_named_by_the_parameter_nearest_to_the_loss(tmp_path: Path, layer: int) -> None:
    summary = go(spoiling(tmp_path, layer, "backward", set(range(5, 100)), max_skipped=1), tmp_path / "run")
    assert summary.status == "diverged"
    # The layer above is finite; within the layer its inner product is the last parameter from the top.
    assert summary.blew_up.startswith(f"the gradient of layer {layer} inner.")
    assert "though the forward pass is finite" in summary.blew_up


def test_looking_for_the_cause_does_not_change_the_random_numbers(tmp_path: Path) -> None:
    """A run whose first step is bad trains afterwards as one that found no cause to look for."""
    looked, rng = [], []

    def watched(vocab_size: int, max_length: int, seed: int) -> Model:
        model = Model(vocab_size, max_length, seed)
        inspect = model.inspect

        def inspected(tokens: torch.Tensor, targets: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
            looked.append((len(rng), torch.get_rng_state()))
            return inspect(tokens, targets)

        model.inspect = inspected  # type: ignore[method-assign]
        model.layers[0].register_forward_pre_hook(lambda module, inputs: rng.append(torch.get_rng_state()))
        return model

    made = dataclasses.replace(spoiling(tmp_path, 2, "forward", {1}, steps=2), model=watched)
    go(made, tmp_path / "run")
    ((passes, at_inspect),) = looked
    step, inspection, following = rng[passes - 1 : passes + 2]
    assert torch.equal(at_inspect, step)  # the cause is looked for with the very same dropout
    assert torch.equal(inspection, step) and not torch.equal(following, step)
    torch.set_rng_state(step)
    Model.logits(made.built[-1], torch.zeros(BATCH, LENGTH, dtype=torch.long))
    assert torch.equal(following, torch.get_rng_state())  # as if nobody had looked


def test_a_loss_that_is_not_finite_with_finite_gradients_is_skipped_too(tmp_path: Path) -> None:
    class Odd(Model):
        def forward(self, tokens: Any, targets: Any = None, reduction: str = "sum", z_loss: float = 0.0) -> Any:
            return super().forward(tokens, targets, reduction) + float("inf")

    summary = go(dataclasses.replace(config(tmp_path, max_skipped=2), model=Odd), tmp_path / "run")
    assert (summary.status, summary.skipped_steps) == ("diverged", 2)


def test_a_loss_of_the_last_validation_that_is_not_finite_is_diverged_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from zoo.runs import summary as summaries
    from zoo.training import trainer

    run = tmp_path / "run"
    summary = trainer.run(spoiling(tmp_path, 2, "evaluation", set(range(5, 13))), run)  # type: ignore[arg-type]
    told = "the validation loss is NaN at step 8 (layer 2 output is NaN)"  # the first of the last ones
    assert (summary.status, summary.steps, summary.skipped_steps, summary.blew_up) == ("diverged", 12, 0, told)
    said = capsys.readouterr().err
    assert said.count(told) == 1 and "valid loss NaN (best 2." in said and "nan" not in said
    table = dict(summaries.rows(summary, run))
    assert table["status"] == f"diverged: {told}" and table["valid loss"].startswith("not finite, best 2.")
    assert {table[name] for name in ("perplexity", "bits per byte", "accuracy")} == {"not finite"}
    assert "not measured" not in str(table)
    assert "evaluation mode" in summaries.advice(summary)
    again = summaries.read_summary(run)
    assert again is not None and again.over and dict(summaries.rows(again, run)) == table


def test_a_validation_that_recovers_is_a_note(tmp_path: Path) -> None:
    from zoo.runs import summary as summaries

    summary = go(spoiling(tmp_path, 2, "evaluation", {4}, steps=8), tmp_path / "run")
    (note,) = summary.notes
    assert summary.status == "finished" and math.isfinite(summary.valid_loss) and summary.blew_up == ""
    assert (
        note.startswith("the loss of 1 validation was not finite") and "NaN at step 4 (layer 2 output is NaN)" in note
    )
    assert ("note", note) in summaries.rows(summary, tmp_path / "run")


def test_early_stop_with_a_loss_that_is_not_finite_is_diverged(tmp_path: Path) -> None:
    made = spoiling(tmp_path, 1, "evaluation", set(range(2, 100)), validate_every=1, patience=2)
    assert (summary := go(made, tmp_path / "run")).status == "diverged" and summary.steps == 3


def test_a_run_whose_every_step_was_skipped_is_not_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from zoo.runs import summary as summaries
    from zoo.training import trainer

    made = spoiling(tmp_path, 1, "forward", set(range(1, 100)), steps=4, max_skipped=9)
    summary = trainer.run(made, tmp_path / "run")  # type: ignore[arg-type]
    assert (summary.status, summary.skipped_steps, summary.blew_up) == ("diverged", 4, "layer 1 output is NaN")
    assert "train.lr" not in summaries.advice(summary) and "no step could be trained" in summaries.advice(summary)
    assert "train loss" not in capsys.readouterr().err


def test_what_diverged_later_may_need_a_smaller_rate_and_tells_when_it_was_validated(tmp_path: Path) -> None:
    from zoo.runs import summary as summaries

    summary = go(spoiling(tmp_path, 1, "forward", set(range(5, 100)), max_skipped=3), tmp_path / "run")
    table = dict(summaries.rows(summary, tmp_path / "run"))
    assert table["valid loss"].startswith(f"{summary.valid_loss:.4f} at step 4   (unigram")
    assert "smaller train.lr" in summaries.advice(summary)


@pytest.mark.parametrize("log_every", [2, 5, 100])
def test_a_line_tells_the_mean_since_the_last_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], log_every: int
) -> None:
    from zoo.training import trainer

    trainer.run(config(tmp_path, steps=8, log_every=log_every), tmp_path / "run")  # type: ignore[arg-type]
    lines = [line for line in capsys.readouterr().err.splitlines() if "train loss" in line]
    go(config(tmp_path, steps=8, log_every=1), tmp_path / "each")
    losses = [row["loss"] for row in read_rows(tmp_path / "each", "train")]
    for line, step in zip(lines, (4, 8), strict=True):
        since = (
            (step - 1) // log_every * log_every if step % log_every == 0 or step == 8 else step // log_every * log_every
        )
        assert f"train loss {sum(losses[since:step]) / (step - since):.4f}" in line


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_probe_that_is_not_finite_is_told_once_and_keeps_nothing_from_being_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: float
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from zoo.runs import summary as summaries
    from zoo.training import trainer

    class Odd(Model):
        def probes(self) -> dict[str, dict[int, torch.Tensor]]:
            odd = {1: torch.tensor([1.0, value]), 2: torch.tensor([1.0, 2.0])}
            return {**super().probes(), "odd": odd, "number": {1: torch.tensor(value)}}

    made = dataclasses.replace(config(tmp_path), model=Odd)
    summary = trainer.run(made, tmp_path / "run")  # type: ignore[arg-type]
    assert summary.status == "finished" and "empty there: odd, number" in summary.notes[0]
    written = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert written["probes"]["odd"] == {"1": [1.0, None], "2": [1.0, 2.0]} and written["probes"]["number"] == {
        "1": None
    }
    assert capsys.readouterr().err.count("the probe odd of layer 1 is not finite at step 4") == 1
    assert read_rows(tmp_path / "run", "probes")[-1]["probes"]["odd"]["1"] == [1.0, None]
    assert "loss/train" in EventAccumulator(str(tmp_path / "run")).Reload().Tags()["scalars"]
    assert go(config(tmp_path), tmp_path / "run").steps == 12 and summaries.read_summary(tmp_path / "run") is not None


def test_a_diverged_run_is_over(tmp_path: Path) -> None:
    first = go(spoiling(tmp_path, 1, "forward", set(range(5, 100)), max_skipped=3), tmp_path / "run")
    again = config(tmp_path, max_skipped=3)
    assert go(again, tmp_path / "run") == first
    assert [type(built) for built in again.built] == [Settings]  # nothing was built for it
