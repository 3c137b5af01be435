"""python -m zoo, completion for shells, and JSON where programs read along."""

from __future__ import annotations

import dataclasses
import importlib
import json
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

from zoo.__main__ import COMMANDS, MODULES, main as zoo_main
from zoo.cli import completion

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> str:
    return completion.script("bash", list(completion.commands()), completion.method_words())


def completed(script: str, line: str, folder: Path) -> list[str]:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    code = (
        f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; _zoo;"
        ' printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, cwd=folder, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_flags_commands_and_methods(script: str, tmp_path: Path) -> None:
    (tmp_path / "v1_notes").touch()
    assert "--allow-leak" in completed(script, "zoo-train --all", tmp_path)
    assert completed(script, "zoo-train --gin v1_m3", tmp_path) == ["v1_m3"]
    assert {"v1_m3", "v1_notes"} <= set(completed(script, "zoo-train --gin v1_", tmp_path))
    assert completed(script, "zoo-train --gin sizes/ti", tmp_path) == ["sizes/tiny"]
    assert completed(script, "zoo-plugins sh", tmp_path) == ["show"]
    assert completed(script, "zoo-plugins check --th", tmp_path) == ["--thorough"]
    assert completed(script, "zoo-data prepare --work", tmp_path) == ["--workers"]
    assert completed(script, "zoo-eval v1", tmp_path) == ["v1_notes"]
    assert completed(script, ".venv/bin/zoo-eval --ch", tmp_path) == ["--choices"]


def test_a_reader_that_stops_early_sees_no_traceback() -> None:
    command = '"$0" -m zoo completion bash | true; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(["bash", "-c", command, sys.executable], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_take_the_script(shell: str, tmp_path: Path) -> None:
    text = completion.script(shell, list(completion.commands()), completion.method_words())
    assert "zoo-eval" in text and "--choices" in text or "-l choices" in text
    if shell == "zsh":
        assert "bashcompinit" in text
    else:
        assert all(line.startswith("complete -c zoo-") for line in text.splitlines())
    if shutil.which(shell):
        (tmp_path / "script").write_text(text)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


def test_every_command_is_known_to_both() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = setup["options.entry_points"]["console_scripts"].split("\n")
    scripts = {
        name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines if line.strip())
    }
    ours = {f"zoo-{name}": f"zoo.cli.{MODULES.get(name, name)}:main" for name in COMMANDS if name != "completion"}
    assert ours == scripts
    assert {f"zoo.cli.{name}:main" for name in completion.MODULES} == set(scripts.values())


def test_python_m_zoo(capsys: pytest.CaptureFixture[str]) -> None:
    assert zoo_main(["--help"]) == 0 and "completion" in capsys.readouterr().out
    assert zoo_main([]) == 2
    capsys.readouterr()
    assert zoo_main(["trian"]) == 2
    assert "there is no command trian (nearest: train)" in capsys.readouterr().err
    assert zoo_main(["train", "--settings", "rank_timeout", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["key"] == "train.rank_timeout" and entry["default"] == "600.0"
    assert zoo_main(["completion", "bash"]) == 0 and "complete -F _zoo" in capsys.readouterr().out


def test_listings_are_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    plugins = importlib.import_module("zoo.cli.plugins")
    assert plugins.main(["show", "wr_8_2", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert shown["id"] == "wr_8_2" and "# " in shown["card_text"] and any(s["name"] == "n" for s in shown["settings"])
    assert plugins.main(["search", "REZERO"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("residual.rezero  ")
    assert plugins.main(["search", "gate", "attention", "--json"]) == 0
    ids = [row["id"] for row in json.loads(capsys.readouterr().out)]
    assert "gated_attention" in ids and "v1_m3" not in ids
    assert plugins.main(["search", "nothing-is-called-this"]) == 1
    assert "no method mentions" in capsys.readouterr().err
    data = importlib.import_module("zoo.cli.data")
    assert data.main(["get", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)][0] == "sotu"


def test_a_summary_is_json_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from helpers import tiny_training

    train = importlib.import_module("zoo.cli.train")
    summary = tiny_training.go(tiny_training.config(tmp_path, steps=4), tmp_path / "run")
    monkeypatch.setattr(
        "zoo.training.trainer.run", lambda *_, **__: dataclasses.replace(summary, perplexity=float("nan"))
    )
    assert train.main(["--json", "--run", str(tmp_path / "other")]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert printed["status"] == "finished" and printed["perplexity"] is None
    assert printed["valid_loss"] == summary.valid_loss and printed["folder"] == str(tmp_path / "other")
