"""The loop: what it computes, what it does at which step, how it ends."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import tiny_training
from helpers.tiny_training import BATCH, LENGTH, Config, Model, config, go, outcome, saved, without_dropout

from zoo.errors import ConfigError
from zoo.extension import hint
from zoo.runs import checkpoint
from zoo.runs.metrics import read_rows
from zoo.training.schedules import learning_rate
from zoo.training.settings import Settings


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


# --- settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("lr", -1.0),
        ("lr", math.nan),
        ("warmup", 1.5),
        ("betas", (0.9, 1.0)),
        ("log_every", 0),
        ("tokens", 0),
        ("rank_timeout", 0.5),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"train\.{name} = "):
        Settings(**{name: value})


def test_a_budget_in_tokens_decides(tmp_path: Path) -> None:
    per_step = BATCH * LENGTH * 2
    summary = go(config(tmp_path, tokens=3 * per_step + 1, accumulate=2), tmp_path / "run")
    assert (summary.steps, summary.tokens) == (4, 4 * per_step)


# --- what is computed


def naive(settings: Settings, steps: int, lr_factor: float = 1.0) -> list[float]:
    """The same training written out: plain AdamW on the mean loss over the accumulated batches. No dropout."""
    model = without_dropout(tiny_training.VOCABULARY, LENGTH, seed=settings.seed)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=settings.betas, eps=settings.eps)
    reader, losses = tiny_training.Reader(settings.seed, 0, 1, tiny_training.nothing), []
    for step in range(1, steps + 1):
        block = torch.cat([next(reader) for _ in range(settings.accumulate)])
        loss = F.cross_entropy(model.logits(block[:, :-1]).flatten(0, 1), block[:, 1:].flatten())
        loss.backward()
        if settings.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, settings)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("settings", [{}, {"accumulate": 3}, {"clip": 0.05}, {"clip": 0.0, "weight_decay": 0.5}])
def test_it_computes_what_the_naive_loop_computes(tmp_path: Path, settings: dict[str, Any]) -> None:
    made = dataclasses.replace(config(tmp_path, log_every=1, **settings), model=without_dropout)
    go(made, tmp_path / "run")
    losses = [row["loss"] for row in read_rows(tmp_path / "run", "train")]
    assert losses == pytest.approx(naive(Settings(**made.settings), 12), rel=2e-5)
    assert losses[-1] < 0.6 * losses[0]


def test_a_parameter_may_ask_for_another_learning_rate(tmp_path: Path) -> None:
    def still(vocab_size: int, max_length: int, seed: int) -> Model:
        model = Model(vocab_size, max_length, seed)
        hint(model.layers[0].gate, lr_factor=0.0)
        hint(model.layers[1].gate, lr_factor=0.5)
        return model

    go(dataclasses.replace(config(tmp_path, steps=1, save_every=1), model=still), tmp_path / "run")
    weights = saved(tmp_path / "run")["model"]
    assert weights["layers.0.gate"].item() == 1.0
    assert abs(weights["layers.1.gate"].item() - 1.0) == pytest.approx(0.5 * 0.05, rel=1e-3)  # Adam's first step is lr
    assert (weights["layers.1.scale"] - 1.0).abs().max().item() == pytest.approx(0.05, rel=1e-3)


def test_a_row_is_the_mean_since_the_last_one(tmp_path: Path) -> None:
    single, double = tmp_path / "single", tmp_path / "double"
    go(config(tmp_path, log_every=1), single)
    go(config(tmp_path, log_every=5), double)
    losses = [row["loss"] for row in read_rows(single, "train")]
    rows = read_rows(double, "train")
    assert [row["step"] for row in rows] == [5, 10, 12]
    assert [row["loss"] for row in rows] == pytest.approx(
        [sum(losses[:5]) / 5, sum(losses[5:10]) / 5, sum(losses[10:]) / 2]
    )


def test_validation_is_the_whole_split(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made = config(tmp_path)
    summary = go(made, run)
    model = made.built[-1].eval()
    model.load_state_dict(saved(run)["model"])
    nll, correct, count = 0.0, 0, 0
    for tokens, targets in made.data.evaluate("valid"):
        for row, wanted in zip(model.logits(tokens), targets, strict=True):
            for logits, target in zip(row, wanted, strict=True):
                if target != -100:
                    nll -= logits.log_softmax(-1)[target].item()
                    correct += int(logits.argmax() == target)
                    count += 1
    assert summary.valid_loss == pytest.approx(nll / count, rel=1e-5)
    assert summary.perplexity == pytest.approx(math.exp(nll / count), rel=1e-5)
    assert summary.bits_per_byte == pytest.approx(nll / math.log(2) / 1000, rel=1e-5)
    assert summary.accuracy == pytest.approx(correct / count)
    assert [row["step"] for row in read_rows(run, "valid")] == [4, 8, 12]
    assert read_rows(run, "valid")[-1]["loss"] == summary.valid_loss


def test_the_last_step_is_validated_in_any_case(tmp_path: Path) -> None:
    go(config(tmp_path, steps=5), tmp_path / "run")
    assert [row["step"] for row in read_rows(tmp_path / "run", "valid")] == [4, 5]


def test_the_model_is_told_to_compile_and_to_save_activations(tmp_path: Path) -> None:
    made = config(tmp_path, steps=1, compile=True, checkpoint_activations=True)
    go(made, tmp_path / "run")
    assert made.built[-1].compiled and made.built[-1].checkpoint_activations
    plain = config(tmp_path, steps=1)
    go(plain, tmp_path / "plain")
    assert not plain.built[-1].compiled and not plain.built[-1].checkpoint_activations


@pytest.mark.parametrize(
    ("precision", "dtype"), [("auto", torch.float32), ("float32", torch.float32), ("bfloat16", torch.bfloat16)]
)
def test_the_precision_of_the_forward_pass_on_the_cpu(tmp_path: Path, precision: str, dtype: torch.dtype) -> None:
    seen = set()

    def watched(vocab_size: int, max_length: int, seed: int) -> Model:
        model = Model(vocab_size, max_length, seed)
        model.layers[0].inner.register_forward_hook(lambda module, inputs, output: seen.add(output.dtype))
        return model

    go(dataclasses.replace(config(tmp_path, steps=1, precision=precision), model=watched), tmp_path / "run")
    assert seen == {dtype}
    assert {tensor.dtype for tensor in saved(tmp_path / "run")["model"].values()} == {torch.float32}


# --- the same again


def test_the_same_configuration_gives_the_same_bits(tmp_path: Path) -> None:
    for name in ("one", "two"):
        go(config(tmp_path, accumulate=2), tmp_path / name)
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    go(config(tmp_path, seed=1), tmp_path / "one")
    go(config(tmp_path, seed=2), tmp_path / "two")
    assert outcome(tmp_path / "one")["model"] != outcome(tmp_path / "two")["model"]


def test_how_often_it_logs_saves_and_validates_does_not_change_the_weights(tmp_path: Path) -> None:
    go(config(tmp_path), tmp_path / "one")
    go(config(tmp_path, log_every=5, save_every=1, validate_every=7), tmp_path / "two")
    assert outcome(tmp_path / "one")["model"] == outcome(tmp_path / "two")["model"]


# --- ends


def test_early_stop_after_so_many_validations_without_a_better_one(tmp_path: Path) -> None:
    summary = go(config(tmp_path, steps=100, validate_every=1, patience=3, lr=0.0), tmp_path / "run")
    assert (summary.status, summary.steps, summary.best_step) == ("stopped early", 4, 1)


def test_what_is_better_by_less_than_min_delta_is_not_better(tmp_path: Path) -> None:
    settings = {"steps": 6, "validate_every": 1, "patience": 2}
    assert go(config(tmp_path, min_delta=0.0, **settings), tmp_path / "one").status == "finished"
    assert go(config(tmp_path, min_delta=100.0, **settings), tmp_path / "two").steps == 3


def test_the_folder_holds_everything_that_is_needed_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    made = config(tmp_path)
    summary = go(made, run)
    assert (run / "config.gin").read_text() == made.text
    assert (run / "operative.gin").read_text() == made.operative()
    assert (run / "raw" / "00_some.gin").read_text() == "train.steps = 1\n"
    assert (run / "raw" / "bindings.gin").read_text() == "train.lr = 1.0\n"
    assert (run / "tokenizer.model").read_bytes() == b"one two three"
    versions = json.loads((run / "versions.json").read_text())
    assert versions["corpus"] == "counting" and versions["world_size"] == 1
    assert versions["packages"]["torch"] == torch.__version__.partition("+")[0]
    assert versions["machine"]["threads"] == 1 and "python" in versions and "git" in versions
    written = json.loads((run / "summary.json").read_text())
    assert written["status"] == summary.status == "finished"
    assert written["probes"]["gate"].keys() == {"1", "2"}
    assert written["parameters"] == sum(p.numel() for p in made.built[-1].parameters())
    assert written["unigram_entropy"] == 2.56 and written["stamps"]["started"] <= written["stamps"]["ended"]
    assert [kept.step for kept in checkpoint.listed(run / "checkpoints")] == [9, 12]


def test_speed_and_memory_are_written(tmp_path: Path) -> None:
    summary = go(config(tmp_path), tmp_path / "run")
    (row, *_) = read_rows(tmp_path / "run", "train")
    assert row["tokens_per_second"] > 0 and 1e7 < row["peak_memory"] < 1e11
    assert summary.tokens_per_second > 0 and 0 < summary.seconds < 60


def test_a_figure_that_was_never_measured_is_null_and_read_as_nan(tmp_path: Path) -> None:
    from zoo.runs import summary as summaries

    def spoil(number: int) -> None:
        made.built[-1].layers[0].spoilt = "forward"

    made: Config = config(tmp_path, before=spoil, max_skipped=2)
    go(made, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["valid_loss"] is None
    again = summaries.read_summary(tmp_path / "run")
    assert again is not None and math.isnan(again.valid_loss) and again.steps == 2


@pytest.mark.parametrize("signalled", [False, True])
def test_the_hparams_tab_learns_that_a_run_is_over(tmp_path: Path, signalled: bool) -> None:
    import os
    import signal

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def before(number: int) -> None:
        if signalled:
            os.kill(os.getpid(), signal.SIGTERM)

    go(config(tmp_path, before=before), tmp_path / "run")
    tags = EventAccumulator(str(tmp_path / "run")).Reload().PluginTagToContent("hparams")
    assert ("_hparams_/session_end_info" in tags) is not signalled and "_hparams_/session_start_info" in tags
