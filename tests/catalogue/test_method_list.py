"""The list of methods, and how quickly it comes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.fake_distributions import FINE, Site, entry, install_two

from zoo.catalogue import families, method_list, status
from zoo.cli import plugins as cli
from zoo.plugins import registry as registry_module


def test_the_list(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    install_two(site)
    assert cli.main([]) == 0
    out, err = capsys.readouterr()
    header, fine, bad = out.splitlines()  # one line per method, whatever else is said
    assert re.split(r"\s{2,}", header) == list(method_list.COLUMNS)
    cells = ["fine", "residual", "m", "-", "a-method", "1.0", "it gains", "ok"]  # "-": it builds no extension
    assert re.split(r"\s{2,}", fine) == cells
    assert bad.endswith("broken: ModuleNotFoundError: No module named 'no_such_thing'")
    assert header.index("state") == fine.index("ok") == bad.index("broken")
    assert "noise" in err and "`zoo-plugins show ID` tells more of a broken one" in err


def _drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """What a terminal of 80 columns shows."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    assert cli.main([*arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_terminal_gets_slots_and_families(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_two(site)
    assert _drawn(capsys, monkeypatch) == [
        "residual: how sublayers read from and write to the stream",
        "",
        "  m — Gains of all sorts",
        "    fine  it gains",
        "",
        "score_mixing: what attention attends with",
        "",
        "  bad — bad",
        "    bad  broken: ModuleNotFoundError: No module named 'no_such_thing'",
    ]


def test_the_projects_own_list_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = registry_module.installed().entries
    monkeypatch.setattr(status, "plugin_statuses", lambda *_, **__: [status.PluginStatus(f, None, 0) for f in found])
    lines = _drawn(capsys, monkeypatch)
    assert max(map(len, lines)) <= 80 and len(lines) < 2 * len(found)
    text = " ".join(" ".join(lines).split())
    for row in method_list.rows([status.PluginStatus(f, None, 0) for f in found]):
        assert row.phrase and f" {row.entry.id} {row.phrase}" in text  # whole, with no word broken
        assert f" {row.family.name} — {row.family.title}" in text
    assert len({row.split()[0] for row in lines if row.startswith("    ") and row[4] != " "}) == len(found)


@pytest.mark.parametrize(
    "arguments, ids",
    [
        (["--slot", "residual"], ["fine"]),
        (["--family", "bad"], ["bad"]),
        (["--find", "GAIN"], ["fine"]),  # in its phrase
        (["--find", "of all sorts"], ["fine"]),  # in its family's title
        (["--find", "a"], ["fine", "bad"]),
        (["--slot", "residual", "--find", "bad"], []),
    ],
)
def test_the_list_is_filtered(
    site: Site, capsys: pytest.CaptureFixture[str], arguments: list[str], ids: list[str]
) -> None:
    install_two(site)
    assert cli.main(arguments) == (0 if ids else 1)
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()[1:]] == ids
    assert ids or "no method is like that" in err


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["--slot", "residul"], "there is no slot residul (nearest: residual); there are residual, score_mixing, "),
        (["--family", "bed"], "there is no family bed (nearest: bad); there are bad, m"),
        (["gains"], "there is no command gains; to search the list, write --find gains"),
        (["shw"], "there is no command shw (nearest: show)"),
    ],
)
def test_a_filter_that_does_not_exist(
    site: Site, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    install_two(site)
    try:
        code = cli.main(arguments)
    except SystemExit as left:
        code = left.code  # type: ignore[assignment]
    assert code == 2
    assert f"zoo-plugins: {told}" in capsys.readouterr().err


def test_the_list_as_json_has_everything(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    install_two(site)
    assert cli.main(["--json"]) == 0
    fine, bad = json.loads(capsys.readouterr().out)
    folder = site.folder.resolve()
    assert fine == {
        "id": "fine",
        "name": "residual.fine",
        "slot": "residual",
        "family": "m",
        "family_title": "Gains of all sorts",
        "phrase": "it gains",
        "formula": "",
        "distribution": "a-method",
        "version": "1.0",
        "entry_point": "pack.m:build",
        "module": str(folder / "pack/m.py"),
        "gin_file": str(folder / "pack/gin/fine.gin"),
        "card": str(folder / "pack/cards/fine.md"),
        "parameters_at_base": None,
        "settings": [{"name": "gain", "type": "float", "default": "1.0"}],
        "problem": None,
    }
    assert bad["settings"] is None and "no_such_thing" in bad["problem"] and bad["card"] is None


def test_a_method_without_a_card_says_what_its_docstring_does(site: Site) -> None:
    code = '"""Some."""\nclass Build:\n    """Doubles it.\n\n    More."""\n    def __init__(self, layer): ...\n'
    site.install("a-method", {}, {"said.py": code, "odd.py": "def build(:", "cards/x.md": "no title"})
    assert families.phrase(entry("said:Build")) == "Doubles it"
    assert families.title(entry("said:Build")) == "Some"
    assert families.phrase(entry("said:other")) == ""
    assert (families.phrase(entry("odd:build")), families.title(entry("odd:build"))) == ("", "odd")
    alone = entry("said:Build")
    assert families.families((alone,))[alone].name == "a-method"  # the only module of its distribution


def test_the_list_names_both_claims_to_an_id(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    install_two(site)
    site.install("thief", {"residual": {"fine": "pack.m:build"}}, version="2.0")
    assert cli.main([]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fine ")]
    assert len(lines) == 2
    assert all("broken: the id fine is claimed more than once" in line and "thief 2.0" in line for line in lines)


def test_an_empty_list_says_so(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "No methods are installed" in capsys.readouterr().out


def _run(*arguments: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], float]:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, timeout=60
    )
    return done, time.perf_counter() - start


def test_nothing_here_imports_torch_by_itself() -> None:
    code = (
        "import sys, zoo.config.load, zoo.cli.plugins, zoo.catalogue.status, zoo.catalogue.method_list, zoo.plugins.finder;"
        " zoo.plugins.finder.find_methods(); sys.exit('torch' in sys.modules)"
    )
    assert _run("-c", code)[0].returncode == 0


def test_the_list_is_quick_once_it_has_seen_the_plugins(tmp_path: Path) -> None:
    site = Site(tmp_path / "site").install(
        "a-method", {"residual": {"with_torch": "heavy:build"}}, {"heavy.py": "import torch\n" + FINE}
    )
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(site.folder)}
    first, _ = _run("-m", "zoo.cli.plugins", **environment)
    assert first.returncode == 0, first.stderr
    (line,) = [line for line in first.stdout.splitlines() if line.startswith("with_torch ")]
    assert line.endswith(" ok")
    again, seconds = _run("-m", "zoo.cli.plugins", **environment)
    assert again.stdout == first.stdout
    assert seconds < 2, f"the second listing took {seconds:.1f} s"

    reading, writing = os.pipe()  # a reader that has seen enough is no error
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "zoo.cli.plugins"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
