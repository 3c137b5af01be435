"""Gin files that are no Gin files, or that stand for more than anyone can hold: a sentence, and soon."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.fake_project import error_of, load, write

from zoo.config.load import load_config
from zoo.errors import ConfigError, ZooError

pytestmark = pytest.mark.usefixtures("project")


def macros(count: int, value: str) -> str:
    """A chain: each macro stands for `value`, in which %s is the one before."""
    lines = ["m0 = 1", *(f"m{i} = {value.replace('%s', f'%m{i - 1}')}" for i in range(1, count))]
    return "\n".join([*lines, f"model.anything = %m{count - 1}", ""])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("d = [1]\nmodel.table = {%d: 1}\n", "%d stands for a list, which cannot be a key"),
        ("d = {1: 2}\nmodel.table = {%d: 1}\n", "%d stands for a dict, which cannot be a key"),
        (macros(25, "[%s, %s]"), "a.gin:26: model.anything: its macros stand for more than 100,000 values"),
        (macros(25, "{1: %s, 2: %s}"), "its macros stand for more than 100,000 values"),
        (macros(2000, "%s"), "macros deep"),
        (macros(40, "[[[%s]]]"), "more than 50 brackets within each other"),
        (f"model.depth = {'9' * 400}\n", "a.gin:1: model.depth: an integer of more than 30 digits is out of range"),
        (f"model.depth = 0x{'f' * 9000}\n", "an integer of more than 30 digits is out of range"),
        (f"model.scales = (1, [{'9' * 400}])\n", "an integer of more than 30 digits is out of range"),
        (f"model.depth = {'9' * 9000}\n", "a.gin:1: "),
        (f"model.depth = {'[' * 3000}\n", "a.gin:1: "),
        (f"m = 1\nmodel.depth = {list(range(1000))}\n", "…"),
        ("model.depth = \x1b[31m\n", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_values_beyond_all_measure(text: str, told: str) -> None:
    said = error_of(text)
    assert told in said and len(said) < 2000 and "\x1b" not in said


def test_a_long_binding_is_told_by_its_beginning() -> None:
    said = error_of("", f"model.depth={'9' * 400}")
    assert said.startswith("--set 'model.depth=999") and len(said) < 200


def test_what_is_within_measure_is_taken() -> None:
    assert load(macros(10, "[%s, %s]")).get("model.anything")[0][1]
    assert load("k = 'a'\nmodel.table = {%k: 1}\n").get("model.table") == {"a": 1.0}


def test_files_that_include_each_other_twice() -> None:
    for i in range(25):
        write(f"f{i}.gin", f"include 'f{i + 1}.gin'\n" * 2)
    write("f25.gin", "model.depth = 1\n")
    with pytest.raises(ConfigError, match=r"f0\.gin: too many includes, more than 1,000 in all"):
        load_config(["f0"])


def test_files_that_include_each_other_deeply() -> None:
    for i in range(2000):
        write(f"f{i}.gin", f"include 'f{i + 1}.gin'\n")
    with pytest.raises(ConfigError, match=r"f0\.gin: too many includes, more than 50 deep"):
        load_config(["f0"])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("/dev/zero", "/dev/zero cannot be read: it is not a regular file"),
        ("pipe", "pipe cannot be read: it is not a regular file"),
        ("/tmp", "is a folder, not a Gin file"),
        ("large", "large cannot be read: it has more than 1,048,576 bytes"),
        ("a\0b", "is not the name of a Gin file"),
        ("a\ud800b", "is not the name of a Gin file"),
        ("sizes/tinny", "there is no Gin file sizes/tinny (nearest: sizes/tiny)"),
        ("tinny", "there is no Gin file tinny (nearest: tiny)"),
    ],
)
def test_what_is_no_gin_file(project: Path, name: str, told: str) -> None:
    (project / "gin/sizes/tiny.gin").touch()
    os.mkfifo("pipe")
    with open("large", "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigError) as refused:
        load_config([name])
    assert told in str(refused.value)


def test_a_working_directory_that_was_deleted(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = (
        "import os, sys; os.rmdir(os.getcwd()); from zoo.cli import train; sys.exit(train.main(['--gin', 'v1_m3']))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path / "gone", capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "zoo-train: the working directory was deleted: change to another one\n",
    )


SEEDS = (
    "model.depth = 3\nmodel.scales = (1.0, 2)\nmodel.table = {'a': 1e3, 'b': %m}\nm = -2\n",
    "include 'seed.gin'\nmodel:\n  depth = 2\n  residual = @residual.gate\nresidual.gate.gain = 0.5\n",
    "train.lr = 1e-3  # rate\nmodel.names = ['x', \"y\\n\"]\nmodel.initialise = None\n",
)
PIECES = (
    *("%m", "@residual.gate", "@gate()", "include", "import", "from", "model.", "train.", "9", "-1", "1e999", "None"),
    *"[](){},:=./#'\"\\\n\t\0é",
)


def mutated(numbers: random.Random) -> str:
    text = numbers.choice(SEEDS)
    for _ in range(numbers.randrange(1, 6)):
        start = numbers.randrange(len(text) + 1)
        end = min(len(text), start + numbers.choice((0, 0, 1, 3, 9)))
        text = text[:start] + numbers.choice((*PIECES, text[: numbers.randrange(len(text) + 1)])) + text[end:]
    return text


def fuzz(seed: int, count: int) -> int:
    """How many of so many mutated files were refused; whatever is no sentence is raised."""
    write("seed.gin", SEEDS[0])
    numbers, refused = random.Random(seed), 0
    for _ in range(count):
        text = mutated(numbers)
        Path("a.gin").write_text(text, encoding="utf-8")
        try:
            loaded = load_config(["a"])
            assert load_config([write("b.gin", loaded.text)]).text == loaded.text
        except ZooError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{text!r} raises {type(error).__name__}: {error}") from error
    return refused


def test_mutated_files_are_read_or_refused() -> None:
    began = time.process_time()
    assert 50 < fuzz(1, 150) < 150
    assert time.process_time() - began < 30
