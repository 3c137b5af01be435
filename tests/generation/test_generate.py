"""Text from a trained run: how it is shown, and what is refused."""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.random_models import factory, random_model

from zoo.cli.generate import main
from zoo.config.load import load_config
from zoo.errors import RunError, ZooError
from zoo.generation.generate import generate
from zoo.generation.open_run import Run, open_run
from zoo.generation.sampling import Sampling
from zoo.runs import checkpoint
from zoo.training import trainer

SAYING = "one two three four five six seven eight nine ten.\n"
END = 1


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learnt one saying by heart."""
    root = tmp_path_factory.mktemp("generate")
    for split, count in (("train", 60), ("valid", 2), ("test", 1)):
        (root / f"{split}.jsonl").write_text((json.dumps({"text": SAYING}) + "\n") * count)
    bindings = {
        "data.corpus": str(root),
        "data.cache": str(root / "cache"),
        "data.vocab_size": 300,
        "data.length": 24,
        "data.batch_size": 4,
        "model.depth": 2,
        "model.aspect": 16,
        "train.steps": 80,
        "train.save_every": 40,
        "train.lr": 0.01,
        "train.device": "cpu",
    }
    loaded = load_config(["wr_1", "v4_m1c"], [f"{key} = {value!r}" for key, value in bindings.items()])
    trainer.run(loaded, root / "run", show=False)
    return root / "run"


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    return open_run(folder)


class Terminal(io.StringIO):
    """A standard output that says it is a terminal, and remembers each piece that was written."""

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return super().write(text)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The sentence with which the command ends."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as ended:
        code = ended.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("zoo-generate: ") and "Traceback" not in err
    return err


# --- the command


def test_it_says_what_it_learnt(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run", str(folder), "--prompt", "one two", "--greedy"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (SAYING + "\n", "")


def test_without_a_prompt_it_begins_a_document(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run", str(folder), "--greedy", "--json", "--no-cache"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line == {"prompt": "", "sample": 1, "text": SAYING, "tokens": line["tokens"], "ended": True}
    assert 0 < line["tokens"] < 24


def test_an_earlier_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert open_run(folder).step == 80
    assert open_run(folder, 40).step == 40
    assert "no checkpoint of step 41; it has those of 40, 80" in refusal(capsys, "--run", folder, "--checkpoint", 41)


def test_the_same_command_gives_the_same_texts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def texts(*more: str) -> list[str]:
        command = ["--run", str(folder), "--samples", "2", "--prompt", "six", "--prompt", "two", "--temperature", "3"]
        assert main([*command, "--json", *more]) == 0
        return [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]

    first = texts("--seed", "4")
    assert len(set(first)) == 4
    assert texts("--seed", "4") == first == texts("--seed", "4", "--no-cache")
    assert texts("--seed", "5") != first


def test_several_texts_are_told_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run", str(folder), "--greedy", "--prompt", "nine"]) == 0
    alone = capsys.readouterr().out.splitlines()
    assert main(["--run", str(folder), "--greedy", "--prompt", "nine", "--prompt", "eight", "--samples", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "--- prompt 1, sample 1 ---"
    assert [line for line in lines if line.startswith("---")][-1] == "--- prompt 2, sample 2 ---"
    assert lines[1] == alone[0] and alone[0].startswith("nine")


@pytest.mark.parametrize("source", ["file", "standard input"])
def test_prompts_a_line(
    folder: Path, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = "\ufeffone two\r\n\none two three four\n".encode()
    (tmp_path / "prompts").write_bytes(data)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    name = str(tmp_path / "prompts") if source == "file" else "-"
    assert main(["--run", str(folder), "--greedy", "--json", "--prompts", name, "--prompt", "one"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["prompt"] for line in lines] == ["one", "one two", "one two three four"]
    assert {line["prompt"] + line["text"] for line in lines} == {SAYING}


def test_a_single_text_appears_on_a_terminal_as_it_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["--run", str(folder), "--prompt", "one é", "--max-tokens", "8", "--temperature", "9"]) == 0
    assert terminal.pieces[0] == "one é"
    assert len(terminal.pieces) == 1 + 8 + 1


def test_characters_of_several_tokens_appear_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.cli.generate import Shown
    from zoo.generation.sampling import Text

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    shown = Shown(run, [""], 1, as_json=False)
    made = run.encode("ü\x1b[2J→")[1:]
    text = Text(0, 0, [])
    for token in [*made, made[-1]]:  # and the last byte once more: half a character at the end
        text.tokens.append(token)
        shown.token(text)
    shown.whole(text)
    assert terminal.getvalue() == "ü�[2J→�\n"


# --- lengths


def test_what_is_too_long_for_weights_of_positions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = refusal(capsys, "--run", folder, "--prompt", "one", "--max-tokens", 99)
    assert "has weights for 24 positions" in sentence and "larger data.length" in sentence
    fits = int(sentence.rstrip().rpartition("--max-tokens ")[2])
    assert main(["--run", str(folder), "--prompt", "one", "--max-tokens", str(fits), "--temperature", "9"]) == 0
    capsys.readouterr()
    assert "has weights for" in refusal(capsys, "--run", folder, "--prompt", "one", "--max-tokens", fits + 1)
    sentence = refusal(capsys, "--run", folder, "--prompt", SAYING * 5)
    assert "leaves no room" in sentence and "was trained on 24 at a time" in sentence


def test_what_is_longer_than_trained_runs_on_with_a_warning(run: Run) -> None:
    built = random_model(depth=1, max_length=6).eval()
    free = run._replace(model=built)
    assert free.limit([[1, 2]], None) == (5, [])  # the fifth is not read any more
    assert free.limit([[1, 2]], 3) == (3, [])
    limit, notes = free.limit([[1, 2]], 20)
    assert limit == 20 and "more than the 6 tokens" in notes[0]
    limit, notes = free.limit([[1] * 48], 20)
    assert limit == 20 and "the prompt alone, 48 tokens, is 8.0 times the 6 tokens" in notes[0]
    (text,) = generate(built, [[1, 2]], -1, Sampling(0.0), max_tokens=20)
    assert len(text.tokens) == 20


def test_all_of_the_length_can_be_used() -> None:
    built = random_model(depth=1, max_length=6, score_mixing=factory("score_mixing", "v4_mc")).eval()
    for cache in (True, False):
        (text,) = generate(built, [[1, 2]], -1, Sampling(0.0), max_tokens=5, cache=cache)
        assert len(text.tokens) == 5
        with pytest.raises(ZooError, match="6 positions"):
            next(generate(built, [[1, 2]], -1, Sampling(0.0), max_tokens=6, cache=cache))


# --- refusals


def test_folders_that_are_no_runs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"there is no folder {folder.parent / 'rum'} (nearest: run)" in refusal(
        capsys, "--run", folder.parent / "rum"
    )
    assert "is not the folder of a run" in refusal(capsys, "--run", tmp_path)
    assert "--run RUN" in refusal(capsys)


def test_flags_that_do_not_exist_or_make_no_sense(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no --promt (nearest: --prompt" in refusal(capsys, "--run", folder, "--promt", "x")
    assert "belongs behind a flag: --prompt 'hello'" in refusal(capsys, "--run", folder, "hello")
    assert f"write --run {folder}" in refusal(capsys, folder)
    assert "top-p = 2.0" in refusal(capsys, "--run", folder, "--top-p", 2)
    assert "samples = 0" in refusal(capsys, "--run", folder, "--samples", 0)
    assert "max-tokens = -1" in refusal(capsys, "--run", folder, "--max-tokens", -1)
    assert "not allowed with" in refusal(capsys, "--run", folder, "--greedy", "--temperature", 1)
    assert "not valid text" in refusal(capsys, "--run", folder, "--prompt", "\udcff")


def test_prompts_that_cannot_be_read(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, empty = tmp_path / "bad", tmp_path / "empty"
    bad.write_bytes(b"fine\n\xff\xfe\n")
    empty.write_bytes(b"\n\n")
    for path, sentence in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "directory"),
        (bad, "not UTF-8: see line 2"),
        (empty, "there is no prompt in"),
    ):
        assert sentence in refusal(capsys, "--run", folder, "--prompts", path)


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_a_run_without_a_checkpoint(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(copy / "checkpoints")
    assert "has no checkpoint yet; train it first: zoo-train --gin" in refusal(capsys, "--run", copy)


def test_a_damaged_checkpoint_is_passed_over(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older, newer = sorted((copy / "checkpoints").iterdir())
    newer.write_bytes(newer.read_bytes()[:1000])
    assert main(["--run", str(copy), "--greedy", "--max-tokens", "1"]) == 0
    assert "is damaged" in capsys.readouterr().err
    older.write_bytes(b"")
    assert "every checkpoint" in refusal(capsys, "--run", copy)


def test_a_method_that_is_not_installed(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copy / "config.gin"
    file.write_text(file.read_text().replace("temporal_mixing.wr_1", "temporal_mixing.gone"))
    (copy / "versions.json").write_text((copy / "versions.json").read_text().replace("wr_1", "gone"))
    sentence = refusal(capsys, "--run", copy)
    assert "there is no temporal_mixing method gone" in sentence
    assert "the run was made with" in sentence and "temporal_mixing.gone of transformer-zoo" in sentence


def test_a_method_of_another_version(copy: Path) -> None:
    file = copy / "versions.json"
    versions = json.loads(file.read_text())
    versions["plugins"][0]["version"] = "0.0.1"
    file.write_text(json.dumps(versions))
    assert "the run was made with transformer-zoo 0.0.1" in open_run(copy).notes[0]
    shutil.copy(copy / "config.gin", copy / "before")
    (copy / "config.gin").write_text((copy / "before").read_text().replace("model.depth = 2", "model.depth = 3"))
    with pytest.raises(RunError, match=r"(?s)does not fit the model.*made with transformer-zoo 0\.0\.1"):
        open_run(copy)


def test_a_model_whose_defaults_have_changed(copy: Path) -> None:
    used = copy / "operative.gin"
    used.write_text(used.read_text().replace("model.norm_eps = 1e-05", "model.norm_eps = 0.1"))
    with pytest.raises(RunError, match=r"model\.norm_eps was 0\.1 and is 1e-05\. Use the version"):
        open_run(copy)
    (copy / "config.gin").write_text((copy / "config.gin").read_text() + "model.norm_eps = 0.1\n")
    assert open_run(copy).config.get("model.norm_eps") == 0.1


def test_a_method_that_cannot_is_refused_by_its_id(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.check_cache()
    monkeypatch.setattr(type(run.model.layers[0].temporal_mixing), "decodes", False)
    with pytest.raises(ZooError, match=r"^wr_1 cannot be decoded step by step.*--no-cache"):
        run.check_cache()


# --- a real process


def test_help_is_quick() -> None:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "zoo.cli.generate", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--top-p" in done.stdout
    assert time.perf_counter() - start < 3  # far less on an idle machine; importing torch alone takes longer


def test_ctrl_c_ends_a_stream(run: Run, folder: Path, tmp_path: Path) -> None:
    endless = tmp_path / "endless"
    shutil.copytree(folder, endless, ignore=shutil.ignore_patterns("checkpoints"))
    file = endless / "config.gin"
    lines = [line for line in file.read_text().splitlines() if "score_mixing" not in line]  # no limit of positions
    file.write_text("\n".join(lines) + "\n")
    (endless / "operative.gin").unlink()
    weights = {name: weight for name, weight in run.model.state_dict().items() if "score_mixing" not in name}
    weights["embed.weight"] = torch.zeros_like(weights["embed.weight"])  # every token as likely as any other
    checkpoint.save(endless / "checkpoints", 1, {"model": weights})

    command = [sys.executable, "-m", "zoo.cli.generate", "--run", str(endless), "--max-tokens", "1000000"]
    for _ in range(5):
        code, error = _interrupted(command)
        if code != 0:  # 0: on a slow machine the end of the text was drawn before the signal came
            break
    assert code == 130
    assert "Traceback" not in error


def _interrupted(command: list[str]) -> tuple[int, str]:
    """How a command ends, and what it says, when Ctrl-C comes after its first output."""
    controller, terminal = pty.openpty()
    shown = subprocess.Popen(
        command, stdout=terminal, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    os.close(terminal)
    assert os.read(controller, 1000)
    shown.send_signal(signal.SIGINT)
    error = shown.communicate(timeout=60)[1].decode()
    os.close(controller)
    return shown.returncode, error


def test_a_pipe_that_is_closed_is_no_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    monkeypatch.setattr(sys, "stdout", os.fdopen(writing, "w"))
    assert main(["--run", str(folder), "--max-tokens", "2"]) == 0
    sys.stdout.close()


def replaced(path: Path, make: Any) -> None:
    path.unlink()
    make(path)


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        ("tokenizer.model", lambda path: path.write_bytes(path.read_bytes()[:-3]), "tokenizer.model is"),
        ("tokenizer.model", lambda path: replaced(path, os.mkfifo), "not a regular file"),
        ("config.gin", lambda path: path.write_bytes(b"\xff\0"), "config.gin is not a Gin file"),
        ("config.gin", lambda path: replaced(path, os.mkfifo), "it is not a regular file"),
        ("config.gin", lambda path: replaced(path, Path.mkdir), "config.gin is a folder"),
        ("operative.gin", lambda path: path.write_bytes(b"\xff\0"), "operative.gin is damaged"),
        ("config.gin", lambda path: path.write_text(path.read_text() + "train.clip = 7.0\n"), "of another run"),
    ],
)
def test_files_of_a_run_that_are_damaged(
    copy: Path, name: str, damage: Any, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(copy / name)
    assert told in refusal(capsys, "--run", copy)


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, '{"plugins": 3}', '{"plugins": [{}]}', None])
def test_a_run_without_its_versions_still_writes(
    copy: Path, text: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "versions.json").unlink() if text is None else (copy / "versions.json").write_text(text)
    assert main(["--run", str(copy), "--greedy", "--max-tokens", "1"]) == 0
