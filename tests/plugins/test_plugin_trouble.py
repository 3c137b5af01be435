"""Plugins that hang, crash, print or hide others, and names that are not yet methods: each gets a sentence."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.fake_distributions import Site, forget_modules

from zoo.catalogue import scaffold, status
from zoo.cli import plugins as cli
from zoo.plugins import finder, import_process, registry
from zoo.report import claims
from zoo.report.claims import claim_text, clauses
from zoo.slots import SLOTS

FINE = "def build(layer, gain: float = 1.0): return ('built', layer, gain)\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The only place where plugins are installed, and a home of its own."""
    folders = [str(tmp_path / "site"), str(tmp_path / "later")]
    original = importlib.metadata.distributions
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: original(path=folders))
    for folder in reversed(folders):
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    claims._installed.cache_clear()
    yield Site(tmp_path / "site")
    claims._installed.cache_clear()  # a process finds the methods once: the next test has others
    forget_modules(tmp_path)


def _install(site: Site, **codes: str) -> None:
    for name, code in codes.items():
        site.install(name, {"residual": {name: f"in_{name}:build"}}, {f"in_{name}.py": code + "\n" + FINE})


# --- importing


def test_what_hangs_or_crashes_is_named_and_the_others_are_seen(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import zoo.counting.flops  # noqa: F401  # torch with it: a forked process has it too, and needs no time for it

    monkeypatch.setattr(import_process, "PATIENCE", 5.0)
    _install(
        site, a="", b="import os; os._exit(3)", c="import time; time.sleep(1000)",
        d="import os, signal; os.kill(os.getpid(), signal.SIGKILL)", e="print('noise')",
    )  # fmt: skip
    problems = {state.entry.id: state.problem for state in status.plugin_statuses(registry.installed())}
    assert problems == {
        "a": None,
        "b": "importing it ends the process with exit code 3",
        "c": "importing it takes more than 5 s: it was given up (again: zoo-plugins --fresh)",
        "d": "importing it ends the process with SIGKILL",
        "e": None,
    }
    out, err = capsys.readouterr()
    assert out == "" and "noise" in err
    good, told = status.sound(registry.installed())  # from memory: at once
    assert good.ids() == ["a", "e"]
    assert told[0] == "residual.b of b 1.0 is broken: importing it ends the process with exit code 3"
    assert cli.main(["matrix"]) == 0  # does not import them either
    assert "left out: residual.c of c 1.0 is broken" in capsys.readouterr().out


METHOD = """
import torch
from zoo.extension import Residual


class Loud(Residual):
    def __init__(self, layer):
        print("built")
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(()))

    def write(self, site, stream, branch, history):
        return stream + branch * self.w


build = Loud
print("imported")
"""


def test_what_is_printed_does_not_break_json(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.install("loud", {"residual": {"loud": "in_loud:build"}}, {"in_loud.py": METHOD})
    assert cli.main(["check", "loud", "--only", "pure", "--json"]) == 0
    out, err = capsys.readouterr()
    (report,) = json.loads(out)
    assert report["ok"] and report["not_tested"] == []
    assert "imported" in err and "built" in err


# --- two of one name


def test_a_distribution_that_hides_another_is_told(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    later = Site(site.folder.parent / "later")
    later.install("transformer-zoo", {"residual": {"one": "in_a:build", "two": "in_a:build"}})
    assert finder.shadowed() == []
    site.install("Transformer_Zoo", {"residual": {"one": "in_b:build"}}, {"in_b.py": FINE}, version="9")
    (told,) = finder.shadowed()
    assert told == (
        f"there are two distributions called transformer-zoo: that in {site.folder} counts and hides 2 methods of that in"
        f" {later.folder}; uninstall one"
    )
    assert cli.main(["check", "one", "--only", "start"]) == 1
    assert f"zoo-plugins: {told}" in capsys.readouterr().err


def test_one_project_seen_twice_hides_nothing(site: Site) -> None:
    entries = {"residual": {"one": "in_a:build"}}
    site.install("a-method", entries)
    site.install("a-method", entries, kind="egg-info")
    assert finder.shadowed() == []


# --- names that are not yet methods


@pytest.mark.parametrize("name", ["my-method", "my_method"])
def test_a_project_is_to_be_installed_first(site: Site, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    scaffold.new("my-method", "residual", Path("."))
    assert cli.main(["check", name]) == 2
    told = f"zoo-plugins: the method {name} is not installed: install it first: pip install -e my-method\n"
    assert capsys.readouterr().err == told


def test_a_project_around_us_too(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(scaffold.new("my-method", "residual", Path(".")))
    assert cli.main(["check", "my_method"]) == 2
    assert "install it first: pip install -e .\n" in capsys.readouterr().err
    assert cli.main(["check", "other"]) == 2
    assert "there is no method other" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["my-method/my_method/method.py", "my-method/my_method", "./nothing/here.py"])
def test_a_path_is_no_id(site: Site, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    scaffold.new("my-method", "residual", Path("."))
    assert cli.main(["check", name]) == 2
    err = capsys.readouterr().err
    id = "nothing" if "nothing" in name else "my_method"
    assert f"{name} is a path, and methods are named by their ids, such as {id};" in err


def test_a_name_has_a_length(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new", "a" * 300, "--slot", "residual"]) == 2
    assert "a name of 300 letters is too long: use at most 64" in capsys.readouterr().err


# --- the template's card


@pytest.mark.parametrize("slot", SLOTS)
def test_a_new_card_claims_nothing(site: Site, slot: str) -> None:
    folder = scaffold.new("fresh", slot, site.folder / "..")
    (folder / "fresh").rename(site.folder / "fresh")
    site.install("fresh", {slot: {"fresh": "fresh.method:Fresh"}})
    assert claim_text("fresh") == "–" and clauses("fresh") == []
    card = site.folder / "fresh/cards/fresh.md"
    card.write_text(card.read_text("utf-8").replace("## Claimed\nNothing yet.", "## Claimed\nWhat the source reports."))
    assert claim_text("fresh") == "–"
