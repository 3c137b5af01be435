"""`zoo-train` as people call it: with the real configuration, data and model, in processes of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
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

from zoo.cli import train as train_module
from zoo.config.gin_bridge import reset_config
from zoo.runs.metrics import read_rows
from zoo.runs.summary import logdir
from zoo.system import process as process_module

TESTS = Path(__file__).parents[1]
METHOD = "v1_m3"
SHORT = ["train.steps=20", "train.validate_every=10", "train.log_every=5", "train.save_every=5", "train.device='cpu'"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A little text: a folder with its splits."""
    return tiny_training.write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path_factory.getbasetemp() / "zoo-cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    yield
    reset_config()


def arguments(corpus: Path, *more: str) -> list[str]:
    return ["--gin", "sizes/tiny", METHOD, "--set", f"data.corpus='{corpus}'", *SHORT, *more]


def start(*given: str | Path, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "zoo.cli.train", *map(str, given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


# --- without training


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    watched = (
        "import sys; from zoo.cli import train\n"
        "try: train.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'gin', 'fairseq2', 'tensorboard', 'rich', 'numpy', 'sentencepiece'} & sys.modules.keys()\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - began < 2  # under 1 s on an idle machine; the imports above are what it hangs on
    assert "--gin FILE" in done.stdout and "--set BINDING" in done.stdout


def test_version_names_core_and_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        train_module.main(["--version"])
    assert not left.value.code
    first, *others = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"zoo-train \d+\.\d+\.\d+, plugin interface \d+\.\d+", first)
    assert any(re.fullmatch(r"  transformer-zoo \d+\.\d+\.\d+: \d+ methods", line) for line in others)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--gim", "x"], "there is no --gim (nearest: --gin)"),
        (["--steps=3"], "there is no --steps=3: write --set train.steps=3"),
        (["--gin", "v1_m3", "--steps", "5"], "there is no --steps: write --set train.steps=5"),
        (["--batch-size", "5"], "write --set data.batch_size=5"),
        (["--seed", "5"], "write --set model.seed=5 or --set train.seed=5"),
        (["--train.lr"], "write --set train.lr=VALUE"),
        (["--lr", "--allow-leak"], "write --set train.lr=VALUE"),
        (["--runns", "5"], "there is no --runns (nearest: --runs"),
        (["v1_m3"], "write --gin v1_m3"),
        (["train.steps=3"], "train.steps=3 belongs behind a flag: --set train.steps=3"),
        (["train.steps = 3"], "--set 'train.steps = 3'"),
        ([""], "one of the words is empty"),
        (["--run"], "expected one argument"),
    ],
)
def test_a_wrong_flag_gets_a_suggestion(given: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        train_module.main(given)
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert said.startswith("zoo-train: ") and told in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--gin", "v1_m33"], "v1_m3"),
        (["--gin", "sizes/tinny"], "(nearest: sizes/tiny"),
        (["--set", "train.steps"], "--set 'train.steps': expected NAME=VALUE"),
        (["--set", "train.stepps=3"], "steps"),
        (["--set", "train.steps=0"], "train.steps = 0 must be at least 1"),
        (["--set", "train.precision='half'"], "precision"),
        (["--set", "data.corpus='/no/such/corpus'"], "/no/such/corpus"),
        (["--set", "data.corpus=/no/such/corpus"], "strings need quotes"),
        (["--set", "train.seed=99999999999999999999"], "train.seed = 99999999999999999999 must be below"),
    ],
)
def test_a_mistake_is_a_sentence_and_no_traceback(
    given: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_module.main([*given, "--runs", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "zoo-train: " in said and told in said and "Traceback" not in said


def test_an_unexpected_error_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*given: Any, **wanted: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("zoo.training.trainer.run", broken)
    with pytest.raises(ZeroDivisionError):
        train_module.main(["--runs", str(tmp_path)])


# --- under torchrun


def torchrun_takes(*given: str) -> list[str]:
    """What torchrun leaves to the command it starts."""
    from torch.distributed.run import get_args_parser

    return list(get_args_parser().parse_args(["--no-python", "zoo-train", *given]).training_script_args)


def test_torchrun_leaves_every_flag_to_us_but_one_that_has_another_spelling(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for action in train_module.parser()._actions:
        for flag in action.option_strings:
            if flag not in ("--run", "-h"):
                assert torchrun_takes("--gin", "x", flag, "y") == ["--gin", "x", flag, "y"]
    with pytest.raises(SystemExit):
        torchrun_takes("--gin", "x", "--run", "y")
    assert "--run could match" in capsys.readouterr().err
    assert train_module.parser().parse_args(["--folder", "x"]) == train_module.parser().parse_args(["--run", "x"])


def test_sentences_name_the_flag_that_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").touch()
    given = ["--gin", "sizes/tiny", "--folder", str(tmp_path)]
    for variables, flag in (({}, "--run"), ({"TORCHELASTIC_RUN_ID": "none"}, "--folder")):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert train_module.main(given) == 2
        assert f"name another one with {flag}\n" in capsys.readouterr().err


def test_the_help_tells_exit_codes_and_signals(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        train_module.main(["--help"])
    said = capsys.readouterr().out
    assert "--folder DIR" in said and "exit codes:" in said and "128+N" in said and "SIGHUP" in said


# --- the C library's allocator


@pytest.mark.parametrize("load", [0.0, 1000.0])
def test_it_starts_again_with_the_allocator_settings_once(monkeypatch: pytest.MonkeyPatch, load: float) -> None:
    calls: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda *given: calls.append(given))
    monkeypatch.setattr(os, "confstr", lambda name: "glibc 2.36")
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "zoo.cli.train", "--gin", "a b"])
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    for name in (*process_module.ENVIRONMENT, "GOMP_SPINCOUNT", process_module.RESTARTED):
        monkeypatch.delenv(name, raising=False)
    process_module.prepare_process()
    ((program, given, environment),) = calls
    spins = environment["GOMP_SPINCOUNT"]
    assert (int(spins) < 10_000) == (load > 0)  # beside other work threads do not spin for long
    assert program == sys.executable and given[1:] == ["-m", "zoo.cli.train", "--gin", "a b"]
    assert process_module.ENVIRONMENT.items() <= environment.items()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "getloadavg", lambda: (500.0, 0.0, 0.0))
    process_module.prepare_process()
    assert len(calls) == 1 and os.environ["GOMP_SPINCOUNT"] == spins  # the runs of a bench do as it found right


@pytest.mark.parametrize("name", [*process_module.ENVIRONMENT])
def test_settings_of_ones_own_are_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    calls: list[tuple[str, list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda *given: calls.append(given))
    for each in (*process_module.ENVIRONMENT, process_module.RESTARTED):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, "1000")
    process_module.prepare_process()
    assert calls[0][2][name] == "1000"


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (*process_module.ENVIRONMENT, process_module.RESTARTED):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setattr(os, "confstr", lambda name: None)
    monkeypatch.setattr(os, "execve", lambda *given: pytest.fail("started again"))
    process_module.prepare_process()


# --- training


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A real run in a process of its own: its folder, and what it said."""
    run = tmp_path_factory.mktemp("finished") / "run"
    base = {
        name: value
        for name, value in os.environ.items()
        if name not in process_module.ENVIRONMENT and name != process_module.RESTARTED
    }
    cache = str(run.parent / "cache")  # of its own, still empty
    process = start(*arguments(corpus), "--run", run, env={**base, "OMP_NUM_THREADS": "1", "ZOO_CACHE": cache})
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return run, out, err


def test_it_ends_with_a_table_and_the_tensorboard_command(finished: tuple[Path, str, str], corpus: Path) -> None:
    run, out, _ = finished
    summary = json.loads((run / "summary.json").read_text())
    table = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines() if "  " in line)
    assert table["method"] == f"residual.{METHOD}"
    assert table["parameters"] == f"{summary['parameters']:,}"
    assert table["corpus"] == str(corpus) and table["device"] == "cpu, float32"
    assert table["steps"] == "20" and table["tokens"] == f"{20 * 8 * 32:,}"
    assert f"{summary['valid_loss']:.4f}" in table["valid loss"]
    assert f"unigram entropy {summary['unigram_entropy']:.4f}" in table["valid loss"]
    assert table.keys() >= {"train loss", "perplexity", "bits per byte", "accuracy", "tokens/s", "time"}
    assert f"tensorboard --logdir {logdir(run)}\n" in out and str(run) in out


def test_away_from_a_terminal_it_says_what_it_is_its_first_step_and_one_line_per_validation(
    finished: tuple[Path, str, str], corpus: Path
) -> None:
    run, _, err = finished
    logged = [line for line in err.splitlines() if line.startswith("zoo-train: ")]
    assert logged[0] == f"zoo-train: reading and encoding {corpus}, once for all runs"
    first, second, *lines = err.splitlines()[len(logged) :]
    assert re.fullmatch(rf"residual\.{METHOD}: [\d,]+ parameters, cpu, float32; folder {re.escape(str(run))}", first)
    assert re.fullmatch(
        rf"{re.escape(str(corpus))}: [\d,]+ tokens to train on, [\d,]+ to validate on; 20 steps of 256 tokens", second
    )
    assert [line.split()[:2] for line in lines] == [["step", "1/20"], ["step", "10/20"], ["step", "20/20"]], err


def test_the_folder_of_a_real_run(finished: tuple[Path, str, str], corpus: Path) -> None:
    run, _, _ = finished
    versions = json.loads((run / "versions.json").read_text())
    assert [(plugin["slot"], plugin["id"]) for plugin in versions["plugins"]] == [("residual", METHOD)]
    assert versions["plugins"][0]["distribution"] == "transformer-zoo" and versions["plugins"][0]["version"]
    assert {path.name for path in (run / "raw").iterdir()} >= {"bindings.gin"}
    assert any(path.name.endswith(f"{METHOD}.gin") for path in (run / "raw").iterdir())
    assert f"data.corpus='{corpus}'" in (run / "raw" / "bindings.gin").read_text()
    assert "train.lr" in (run / "operative.gin").read_text()
    assert "train.steps = 20" in (run / "config.gin").read_text()
    assert (run / "tokenizer.model").stat().st_size > 1000
    rows = read_rows(run)
    assert rows[0]["kind"] == "train" and rows[0]["loss"] > rows[-1]["loss"]


def test_a_finished_run_again_shows_its_table_and_says_so(
    finished: tuple[Path, str, str], corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out, _ = finished
    assert train_module.main([*arguments(corpus), "--run", str(run)]) == 0
    said = capsys.readouterr().out
    assert "already finished" in said.splitlines()[0] and said.splitlines()[1:] == out.splitlines()


def test_its_configuration_file_reproduces_it_bit_for_bit(finished: tuple[Path, str, str], tmp_path: Path) -> None:
    run, _, _ = finished
    assert train_module.main(["--gin", str(run / "config.gin"), "--run", str(tmp_path / "again")]) == 0
    assert tiny_training.outcome(tmp_path / "again") == tiny_training.outcome(run)
    assert (tmp_path / "again" / "config.gin").read_text() == (run / "config.gin").read_text()


def test_unused_bindings_are_told_once(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = arguments(corpus, "train.steps=1", "residual.v1_m1.first='standard'")
    assert train_module.main([*given, "--run", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert said.count("residual.v1_m1.first = 'standard' was never used") == 1, said


def test_without_a_gin_file_it_says_that_this_is_the_baseline(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["model.depth=1", "model.aspect=16", "data.vocab_size=512", "data.length=32", "train.steps=1"]
    assert train_module.main(["--set", f"data.corpus='{corpus}'", *small, "--runs", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "no --gin: this trains the baseline" in said.err and "method         baseline" in said.out
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("baseline-corpus=corpus0-")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_saves_says_how_to_go_on_and_the_same_command_does(
    number: int, finished: tuple[Path, str, str], corpus: Path, tmp_path: Path
) -> None:
    run, longer = tmp_path / "run", "train.steps=100000"
    process = start(*arguments(corpus, longer), "--run", run)
    wait_for(lambda: (run / "metrics.jsonl").exists() and len(read_rows(run, "train")) > 0, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "interrupted" in out and "the same command continues from there" in err
    step = json.loads((run / "summary.json").read_text())["steps"]
    again = start(*arguments(corpus, longer), "--run", run)
    wait_for(lambda: read_rows(run)[-1]["step"] > step + 5, again)
    again.kill()
    _, err = again.communicate()
    assert f"continuing after step {step:,} of" in err
    rows = [(row["kind"], row["step"]) for row in read_rows(run)]
    assert len(rows) == len(set(rows)) and rows[0][1] == 5


def wait_for(reached: Any, process: subprocess.Popen[str], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


# --- a terminal


def drawn_on(terminal: int) -> str:
    """All that was written to a terminal, which hands it out in pieces."""
    pieces = b""
    while select.select([terminal], [], [], 0.2)[0]:
        pieces += os.read(terminal, 65536)
    return pieces.decode()


def test_on_a_terminal_it_draws_a_bar_with_loss_speed_and_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zoo.training import trainer

    ours, theirs = pty.openpty()
    with open(theirs, "w") as terminal:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(sys, "stderr", terminal)
        trainer.run(tiny_training.config(tmp_path), tmp_path / "run")  # type: ignore[arg-type]
        drawn = drawn_on(ours)
    os.close(ours)
    assert "12/12" in drawn and re.search(r"loss \d\.\d{3}", drawn) and "tokens/s" in drawn
    assert re.search(r"\d+:\d\d", drawn)
    assert "step 4/12" in drawn  # validations stand above it
    assert drawn.rindex("\x1b[?25h") > drawn.rindex("\x1b[?25l")  # the cursor is shown again


def test_the_table_on_a_terminal(finished: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.runs.summary import print_summary, read_summary

    run, _, _ = finished
    found = read_summary(run)
    assert found is not None
    ours, theirs = pty.openpty()
    with open(theirs, "w") as terminal, contextlib.redirect_stdout(terminal):
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "200")
        print_summary(found, run)
        terminal.flush()
        drawn = drawn_on(ours)
    os.close(ours)
    assert "│" in drawn and "valid loss" in drawn and f"tensorboard --logdir {logdir(run)} " in drawn
