"""The trainer with the real configuration, data and model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import tiny_training
from helpers.tiny_training import outcome
from helpers.torchrun import torchrun

from zoo.cli import train as cli
from zoo.cli.generate import main as generate
from zoo.config.gin_bridge import reset_config
from zoo.config.load import load_config
from zoo.data.batches import BatchReader
from zoo.errors import ConfigError
from zoo.model import block
from zoo.runs import checkpoint
from zoo.runs.metrics import METRICS, read_rows
from zoo.runs.summary import Summary
from zoo.training import trainer

METHOD = "v1_m5"
SETTINGS = [
    "model.dropout = 0.1",
    "train.steps = 24",
    "train.accumulate = 2",
    "train.validate_every = 7",
    "train.log_every = 3",
    "train.save_every = 5",
    "train.device = 'cpu'",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_training.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    yield
    reset_config()


def from_files(corpus: Path) -> list[str]:
    return [f"data.corpus = '{corpus}'", f"data.cache = '{corpus.parent / 'cache'}'"]


def go(corpus: Path, run: Path, *more: str) -> Summary:
    bindings = [*SETTINGS, *from_files(corpus), "data.length = 32", "data.batch_size = 16", *more]
    return trainer.run(load_config(["sizes/tiny", METHOD], bindings), run, show=False)


@pytest.fixture(scope="module")
def whole_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    run = tmp_path_factory.mktemp("whole") / "run"
    assert go(corpus, run).status == "finished"
    return run


@pytest.fixture(scope="module")
def whole(whole_run: Path) -> dict[str, Any]:
    return outcome(whole_run)


def at_batch(monkeypatch: pytest.MonkeyPatch, number: int, act: Any) -> None:
    """Act before the n-th batch from now."""
    original, batches = BatchReader.__next__, iter(range(1, 10_000))

    def patched(self: BatchReader) -> torch.Tensor:
        if next(batches) == number:
            act()
        return original(self)

    monkeypatch.setattr(BatchReader, "__next__", patched)


def test_it_learns(whole: dict[str, Any]) -> None:
    losses = [row["loss"] for row in whole["rows"] if row["kind"] == "valid"]
    assert len(losses) == 4 and losses == sorted(losses, reverse=True)
    assert whole["summary"]["methods"] == [f"residual.{METHOD}"]


def test_it_goes_over_several_epochs(whole_run: Path) -> None:
    """Else the test below would not see a reader that loses its place at the end of one."""
    kept = checkpoint.read(checkpoint.listed(whole_run / "checkpoints")[-1])
    assert kept["ranks"][0]["reader"]["epoch"] >= 1


@pytest.mark.parametrize("batch", [14, 41])
def test_interrupted_and_continued_it_ends_in_the_same_bits(
    corpus: Path, tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    with monkeypatch.context() as patched:
        at_batch(patched, batch, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert go(corpus, tmp_path / "run").status == "interrupted"
    assert go(corpus, tmp_path / "run").status == "finished"
    assert outcome(tmp_path / "run") == whole


@pytest.mark.parametrize("file", ["mamba2", "hybrids/gated_deltanet_1_1"])
def test_a_mixer_in_attentions_place_trains_is_interrupted_goes_on_and_speaks(
    file: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same bits as without the interruption; with what decoding keeps, the same text as without."""
    settings = [
        *from_files(corpus),
        "data.length=32",
        "train.steps=6",
        "train.lr=0.02",
        "train.save_every=2",
        "train.device='cpu'",
    ]
    command = ["--gin", "sizes/tiny", file, "--set", *settings, "--run"]
    assert cli.main([*command, str(tmp_path / "whole")]) == 0
    with monkeypatch.context() as patched:
        at_batch(patched, 4, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert cli.main([*command, str(tmp_path / "run")]) == 128 + signal.SIGTERM
    assert cli.main([*command, str(tmp_path / "run")]) == 0
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
    texts = []
    for more in ([], ["--no-cache"]):
        capsys.readouterr()
        given = ["--run", str(tmp_path / "run"), "--prompt", "one two", "--max-tokens", "24", "--samples", "4"]
        assert generate([*given, *more]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_saved_activations_change_no_bit(corpus: Path, tmp_path: Path, whole: dict[str, Any]) -> None:
    go(corpus, tmp_path / "run", "train.checkpoint_activations = True")
    assert outcome(tmp_path / "run") == whole


@pytest.mark.parametrize(
    ("part", "told"), [("feed_forward", "layer 1 ffn is NaN"), ("attend", "layer 1 attention is NaN")]
)
def test_what_blows_up_in_a_real_model_is_named(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, told: str
) -> None:
    original = getattr(block.Block, part)

    def spoilt(self: block.Block, *given: Any) -> Any:
        answer = original(self, *given)
        bad = self.layer.index == 0
        if isinstance(answer, tuple):
            return (answer[0] * float("nan"), *answer[1:]) if bad else answer
        return answer * float("nan") if bad else answer

    at_batch(monkeypatch, 9, lambda: monkeypatch.setattr(block.Block, part, spoilt))
    summary = go(corpus, tmp_path / "run", "train.max_skipped = 3")
    assert (summary.status, summary.steps, summary.skipped_steps, summary.blew_up) == ("diverged", 7, 3, told)
    kept = checkpoint.read(checkpoint.listed(tmp_path / "run" / "checkpoints")[-1])
    assert all(bool(tensor.isfinite().all()) for tensor in kept["model"].values())


@pytest.mark.parametrize(
    ("part", "site", "told"),
    [
        ("read", "attention", "layer 1 attention input (residual.v1_m5) is NaN"),
        ("write", "attention", "layer 1 stream after attention (residual.v1_m5) is NaN"),
        ("read", "ffn", "layer 1 ffn input (residual.v1_m5) is NaN"),
        ("write", "ffn", "layer 1 output (residual.v1_m5) is NaN"),
    ],
)
def test_a_method_that_is_nan_from_the_start_is_named_where_it_is(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, site: str, told: str
) -> None:
    from zoo.runs.summary import advice

    built = load_config(["sizes/tiny", METHOD], []).build("model", vocab_size=8, max_length=4)
    method = type(built.layers[0].residual)
    original = getattr(method, part)

    def spoilt(self: Any, where: str, *given: Any) -> Any:
        answer = original(self, where, *given)
        return answer * float("nan") if where == site else answer

    monkeypatch.setattr(method, part, spoilt)
    summary = go(corpus, tmp_path / "run", "train.max_skipped = 2")
    assert (summary.status, summary.steps, summary.blew_up) == ("diverged", 2, told)
    assert "train.lr" not in advice(summary)


def test_looking_for_the_cause_leaves_the_blocks_as_they_were(corpus: Path) -> None:
    built = load_config(["sizes/tiny", METHOD], []).build("model", vocab_size=8, max_length=4).eval()
    tokens = torch.tensor([[1, 2, 3]])
    before = built(tokens)
    found = [where for where, _ in built.inspect(tokens, tokens)]
    assert torch.equal(built(tokens), before) and "read" not in vars(built.layers[0].residual)
    assert found.index("layer 1 attention {score_mixing}") < found.index("layer 1 ffn") < found.index("final norm")


def test_a_diverged_run_is_a_result_not_a_failure(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(block.FeedForward, "forward", lambda self, x, *_: x * float("inf"))
    given = [
        "--gin",
        "sizes/tiny",
        "--set",
        *from_files(corpus),
        "train.max_skipped=2",
        "--run",
        str(tmp_path / "run"),
    ]
    assert cli.main(given) == 0
    said = capsys.readouterr()
    assert "diverged: layer 1 ffn is" in said.out and "diverged: layer 1 ffn is" in said.err
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "diverged"


def test_what_it_reports_is_what_the_text_says(corpus: Path, tmp_path: Path) -> None:
    """Bits per byte and the unigram entropy, from the files themselves."""
    import math
    from collections import Counter

    import sentencepiece

    summary = go(corpus, tmp_path / "run", "train.steps = 7")
    made = load_config(["sizes/tiny"], from_files(corpus)).build("data")
    text = (corpus / "valid.txt").read_bytes()
    nll = summary.valid_loss * made.tokens("valid")
    assert summary.bits_per_byte == pytest.approx(nll / math.log(2) / len(text), rel=2e-3)  # but for line ends
    pieces = sentencepiece.SentencePieceProcessor(str(tmp_path / "run" / "tokenizer.model"))
    train_ids, valid_ids = (pieces.encode((corpus / f"{split}.txt").read_text()) for split in ("train", "valid"))
    counts, size = Counter(train_ids), pieces.vocab_size()
    entropy = -sum(math.log((counts[i] + 1) / (len(train_ids) + size)) for i in valid_ids) / len(valid_ids)
    assert summary.unigram_entropy == pytest.approx(entropy, rel=0.02)


def test_cuda_that_is_not_there_gets_a_sentence(corpus: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("it is there")
    with pytest.raises(ConfigError, match='train.device = "cuda", but torch finds no CUDA device here'):
        go(corpus, tmp_path / "run", "train.device = 'cuda'")


# --- processes


def command(corpus: Path, run: Path) -> list[str]:
    bindings = [*SETTINGS, *from_files(corpus), "train.steps = 60"]
    return ["zoo.cli.train", "--gin", "sizes/tiny", METHOD, "--set", *bindings, "--run", str(run)]


@pytest.mark.slow
def test_a_real_command_that_is_killed_at_random_moments_ends_in_the_same_bits(corpus: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", *command(corpus, tmp_path / "whole")], check=True)
    run, kills = tmp_path / "run", 0
    for wait in (0.0, 0.3, 0.05, 0.6, 0.15):
        process = subprocess.Popen([sys.executable, "-m", *command(corpus, run)])
        while not run.exists() and process.poll() is None:
            time.sleep(0.01)
        rows = _rows(run)
        while _rows(run) <= rows and process.poll() is None:
            time.sleep(0.01)
        time.sleep(wait)
        kills += process.poll() is None
        process.kill()
        process.wait()
    assert kills >= 2
    subprocess.run([sys.executable, "-m", *command(corpus, run)], check=True)
    assert outcome(run) == outcome(tmp_path / "whole")


def _rows(run: Path) -> int:
    return len(read_rows(run)) if (run / METRICS).exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_torchrun_saves_on_every_rank_and_the_same_command_goes_on(
    corpus: Path, tmp_path: Path, number: int
) -> None:
    train = Path(sys.executable).with_name("zoo-train")
    together = torchrun(2, "--no-python", train)
    subprocess.run([*together, *command(corpus, tmp_path / "whole")[1:]], check=True)
    run = tmp_path / "run"
    process = subprocess.Popen([*together, *command(corpus, run)[1:]])
    while _rows(run) == 0 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    process.wait(60)
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["status"], summary["signal"]) == ("interrupted", number)
    subprocess.run([*together, *command(corpus, run)[1:]], check=True)
    assert outcome(run) == outcome(tmp_path / "whole")
