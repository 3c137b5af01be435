"""Runs and benches that start from a checkpoint of transformers, and what they leave."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from helpers.small_checkpoints import write_checkpoint, write_tokenizer
from helpers.tiny_training import digest, write_corpus

from zoo.bench.arms import Arm
from zoo.bench.selection import select_arms
from zoo.bench.store import Store
from zoo.cli import bench, export, train
from zoo.errors import ConfigError
from zoo.generation.open_run import open_run
from zoo.runs import checkpoint


@pytest.fixture
def start(tmp_path: Path) -> list[str]:
    """The bindings of a run from a checkpoint."""
    (tmp_path / "corpus").mkdir()
    write_corpus(tmp_path / "corpus")
    write_checkpoint(tmp_path / "checkpoint")
    return [
        f"model.start_from = {str(tmp_path / 'checkpoint')!r}",
        f"data.corpus = {str(tmp_path / 'corpus')!r}",
        f"data.cache = {str(tmp_path / 'cache')!r}",
        "data.length = 32",
        "data.batch_size = 4",
        "data.valid_tokens = 500",
        "train.steps = 4",
        "train.save_every = 2",
        "train.device = 'cpu'",
    ]


def test_a_run_starts_from_a_checkpoint_and_goes_on_without_it(
    tmp_path: Path, start: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run, again = tmp_path / "run", tmp_path / "again"
    flags = ["--gin", "denseformer", "--set", *start]
    assert train.main([*flags, "--run", str(run), "--set", "train.lr=0.0"]) == 0
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint")
    opened = open_run(run)
    tokens = torch.tensor([opened.encode("red green blue")])
    with torch.no_grad():
        torch.testing.assert_close(opened.model(tokens), theirs(tokens).logits, rtol=1e-5, atol=1e-5)
    assert opened.tokenizer.vocab_size == 300 and opened.tokenizer.padded_size == 320
    assert train.main([*flags, "--run", str(again)]) == 0
    whole = last_weights(again)
    max((again / "checkpoints").iterdir()).unlink()
    (again / "summary.json").unlink()
    shutil.rmtree(tmp_path / "checkpoint")
    capsys.readouterr()
    assert train.main(["--gin", str(again / "config.gin"), "--run", str(again)]) == 0
    told = capsys.readouterr()
    assert "continuing after step 2 of 4" in told.out + told.err and "never used" not in told.out + told.err
    assert last_weights(again) == whole != last_weights(run)
    assert train.main(["--gin", str(again / "config.gin"), "--run", str(tmp_path / "third")]) == 2
    assert "checkpoint cannot be read: No such file" in capsys.readouterr().err
    assert export.main([str(again), str(tmp_path / "exported")]) == 0
    assert "a ZooForCausalLM" in capsys.readouterr().out
    assert export.main([str(again), str(tmp_path / "exported")]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert export.main([str(tmp_path / "nothing"), str(tmp_path / "exported")]) == 2
    assert "zoo-export: there is no" in capsys.readouterr().err


def last_weights(folder: Path) -> str:
    """The hash of the last checkpoint's."""
    return digest(checkpoint.read(checkpoint.listed(folder / "checkpoints")[-1])["model"])


def test_another_tokenizer_is_refused(tmp_path: Path, start: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_tokenizer(other, "quite another text, with other words in other places " * 9)
    bindings = [*start, f"data.tokenizer = {str(other)!r}"]
    assert train.main(["--run", str(tmp_path / "run"), "--set", *bindings]) == 2
    told = capsys.readouterr().err
    assert "has a tokenizer of 300 tokens, and the text is encoded by another one" in told
    assert train.main(["--run", str(tmp_path / "run"), "--set", *start, "data.tokenizer = 'bytes'"]) == 2
    assert "leave data.tokenizer unbound" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_with_more_tokens_than_the_weights_have_is_another_model_s(
    tmp_path: Path, start: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_checkpoint(tmp_path / "small", vocab_size=200)
    others = [each for each in start if "start_from" not in each]
    bindings = [*others, f"model.start_from = {str(tmp_path / 'small')!r}"]
    assert train.main(["--run", str(tmp_path / "run"), "--set", *bindings]) == 2
    told = capsys.readouterr().err
    assert (
        "small' has a tokenizer of 300 tokens, and weights for 200: that is another model's; put its own there" in told
    )


def arms(start: list[str], *bindings: str) -> dict[str, Arm]:
    chosen, _ = select_arms(None, ["recipes/upcycling"], [*start, *bindings], ["denseformer", "mudd"])
    return {f"{arm.name} {arm.match}": arm for arm in chosen}


def test_every_arm_starts_from_the_checkpoint(start: list[str]) -> None:
    chosen = arms(start, "train.steps = 400")
    assert set(chosen) == {"baseline none", "denseformer method", "mudd method", "baseline tokens"}
    assert len({arm.values["model.start_from"] for arm in chosen.values()}) == 1
    assert len({arm.values["model.ffn_dim"] for arm in chosen.values()}) == 1
    assert chosen["baseline tokens"].steps > chosen["mudd method"].steps == chosen["baseline none"].steps
    assert chosen["baseline none"].parameters < chosen["mudd method"].parameters


def test_a_baseline_of_other_sizes_is_refused(start: list[str]) -> None:
    with pytest.raises(
        ConfigError, match="matched in flops has another FFN than the checkpoint .* 'none', 'tokens' or"
    ):
        arms(start, "suite.baselines = ('none', 'flops')")
    with pytest.raises(ConfigError, match="model.start_from: must be given a value"):
        arms(start[1:])


@pytest.mark.slow
def test_a_bench_of_upcycling(tmp_path: Path, start: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Plain and method go on from the same checkpoint, with the same seeds, to a verdict."""
    store = str(tmp_path / "bench")
    command = ["--gin", "recipes/upcycling", "--gin", "denseformer", "--seeds", "2", "--store", store, "--set", *start]
    assert bench.main([*command, "suite.baselines = ('none',)", "suite.costs = False"]) == 0
    results = Store(Path(store)).read().values()
    assert sorted((each.name, each.seed) for each in results) == [
        *(("baseline", seed) for seed in (1, 2)),
        *(("denseformer", seed) for seed in (1, 2)),
    ]
    assert "denseformer" in capsys.readouterr().out
