"""`zoo-train --settings` and docs/settings.md: everything that can be set is listed, as it is, with what it means."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zoo.catalogue import core_settings, settings_list
from zoo.cli import train as cli
from zoo.config import checks, configuration, gin_bridge, load
from zoo.config.values import describe, render
from zoo.errors import ZooError

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = {entry.key: entry for group in core_settings.core() for entry in group.entries}
LIMITED = {key: entry.limits for key, entry in ENTRIES.items() if re.match(r"at least|above|from", entry.limits)}


@pytest.fixture(scope="module")
def loaded() -> configuration.Config:
    """The configuration of a run without any Gin file."""
    return load.load_config([], [])


def test_the_list_has_every_setting_with_its_default_and_no_other(loaded: configuration.Config) -> None:
    known = {**loaded.defaults, **loaded.values}
    assert {group.name for group in core_settings.core()} == {
        "train",
        "records",
        "data",
        "model",
        "recipe",
        "suite",
        "ladder",
    }
    assert {key: entry.default for key, entry in ENTRIES.items()} == {k: render(value) for k, value in known.items()}


def test_types_are_told_as_the_checks_of_values_tell_them(loaded: configuration.Config) -> None:
    for name, configurable in gin_bridge.core_configurables().items():
        for setting in checks.parameters(configurable).values():
            if entry := ENTRIES.get(f"{name}.{setting.name}"):
                assert entry.kind == describe(setting.annotation), entry.key


@pytest.mark.parametrize("key", ENTRIES)
def test_every_setting_has_a_meaning(key: str) -> None:
    assert len(ENTRIES[key].meaning) > 10 and ENTRIES[key].meaning.endswith(".")


def test_no_docstring_explains_what_there_is_not(loaded: configuration.Config) -> None:
    for name, configurable in gin_bridge.core_configurables().items():
        explained = core_settings.explained(inspect.getdoc(configurable.wrapped) or "")
        assert list(explained) == [key.partition(".")[2] for key in ENTRIES if key.startswith(f"{name}.")]


def test_a_docstring_is_read_with_limits_and_continued_lines() -> None:
    text = """Do it.

    Not this one: no.

    a: first,
        continued.
    b (at least 1): second: yes.
    """
    read = core_settings.explained(text)
    assert read == {"a": ("", "first, continued."), "b": ("at least 1", "second: yes.")}


LADDER: dict[str, Any] = {"depths": (1, 2), "seeds": (2, 2), "gain": "one", "harm": "other"}


def build(name: str) -> Callable[..., Any]:
    return {
        "train": lambda **given: importlib.import_module("zoo.training.settings").Settings(**given),
        "recipe": lambda **given: importlib.import_module("zoo.config.recipe").Recipe(**given),
        "suite": lambda **given: importlib.import_module("zoo.bench.suite").Suite(**given),
        "ladder": lambda **given: importlib.import_module("zoo.bench.ladder").Ladder(**{**LADDER, **given}),
        "data": lambda **given: importlib.import_module("zoo.data.batches").data(**given),
        "model": lambda **given: importlib.import_module("zoo.model.build").model(16, 8, **given),
    }[name]


@pytest.mark.parametrize("key", LIMITED)
def test_values_outside_the_limits_are_refused(key: str) -> None:
    limits = LIMITED[key].replace("2⁶³", str(2**63)).replace(",", "")
    low, *high = map(int, re.findall(r"\d+", limits))
    name, _, setting = key.partition(".")
    for outside in (low - 3, *(each + 1 for each in high)):
        value = (outside,) * 2 if ENTRIES[key].kind.startswith(("tuple", "a tuple")) else outside
        with pytest.raises(ZooError):
            build(name)(**{setting: value})


def test_most_numbers_have_limits() -> None:
    numbers = [entry.key for entry in ENTRIES.values() if entry.kind in ("int", "float", "int or None")]
    assert len(LIMITED) > 0.8 * len(numbers)


def test_the_list_is_quick_and_imports_no_torch() -> None:
    watched = (
        "import sys, time; from zoo.cli import train\n"
        "assert train.main(['--settings']) == 0 and train.main(['--settings', 'warm']) == 0\n"
        "heavy = {'torch', 'fairseq2', 'numpy'} & sys.modules.keys()\n"
        "sys.exit(f'imported {heavy}' if heavy else time.process_time() > 2)"
    )
    done = subprocess.run([sys.executable, "-c", watched], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("word", "shown", "hidden"),
    [
        ("", "train.warmup = 0.05", "wr_8_2"),
        ("train", "train.patience = 0", "data.corpus"),
        ("WARM", "float, from 0 to 1", "train.patience"),
        ("cosine", "train.schedule", "train.warmup"),  # a word of the meaning
        ("device", "one of 'auto', 'cpu', 'cuda'", "train.lr"),
        ("wr_8_2", "temporal_mixing.wr_8_2.n = 2", "train."),
        ("temporal_mixing.wr_8_2", "how many earlier tokens", "train."),
        ("v1_m3", "residual.v1_m3", "train."),
    ],
)
def test_a_word_chooses(word: str, shown: str, hidden: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--settings", *filter(None, [word])]) == 0
    told = capsys.readouterr().out
    assert shown in told and hidden not in told


def test_a_word_that_is_nowhere_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--settings", "train.warnup"]) == 2
    assert "(nearest: train.warmup" in capsys.readouterr().err


def test_lines_fit_the_width_except_for_what_can_be_copied() -> None:
    meanings = [line for line in settings_list.lines(list(core_settings.core()), 60) if line.startswith(" " * 6)]
    assert meanings and all(len(line) <= 60 for line in meanings)


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("write_settings_page", ROOT / "tools" / "write_settings_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text("utf-8") == module.render(), "run tools/run python tools/write_settings_page.py"
