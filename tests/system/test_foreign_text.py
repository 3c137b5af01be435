"""Names that others chose: no paths, no markup, no control of a terminal; lines of wrong types cost themselves alone."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from helpers.made_up_results import result, study

from zoo.bench import step_costs
from zoo.bench.store import FILE, Store, merged, read_results
from zoo.bench.suite_notes import SUITES, read_suite_notes
from zoo.cli.arguments import failed
from zoo.cli.report import main
from zoo.errors import ZooError
from zoo.report.findings import Findings
from zoo.report.measured_cards import write_cards
from zoo.system import foreign_text
from zoo.system.table import Table, show

NASTY = [
    "../victim/x",
    "/etc/x",
    "..",
    "",
    "$x^{$ [/bold]",
    "a|b`c`<script>alert(1)</script>&amp;",
    "\x1b]8;;http://x\x07click\x1b[31m",
    "x\n# y",
    "é" * 500,
    "\ud800",
]


@pytest.mark.parametrize("name", NASTY)
def test_a_name_is_one_component_of_a_path(name: str, tmp_path: Path) -> None:
    made = foreign_text.file_name(name)
    assert made and Path(made).name == made and made not in (".", "..") and not made.startswith(".")
    (tmp_path / f"{made}-s1-012345").mkdir()
    assert [path.name for path in tmp_path.iterdir()] == [f"{made}-s1-012345"]


def test_names_stay_apart_and_harmless_ones_as_they_are() -> None:
    assert len(set(map(foreign_text.file_name, NASTY))) == len(NASTY)
    assert [foreign_text.file_name(name) for name in ("v1_m3+wr_8", "a-b.c")] == ["v1_m3+wr_8", "a-b.c"]


def test_text_on_a_terminal() -> None:
    assert foreign_text.printable("a\x1b[31mb\x9b\u202e\tc\nd") == "a\\x1b[31mb\\x9b\\u202e\tc\nd"
    assert foreign_text.one_line("x\n  y" + "z" * 20, 10) == "x yzzzzzz…"


def test_text_in_markdown() -> None:
    told = foreign_text.markdown("a|b `c` <b>d</b> &lt; [e](f) < 0.001 **g** \\| R & D")
    assert told == "a\\|b \\`c\\` \\<b>d\\</b> \\&lt; \\[e](f) < 0.001 **g** \\\\\\| R & D"
    table = Table("T <i>", ("h",), (("x|y\nz",),)).markdown()
    assert table.splitlines()[-1] == "| x\\|y z |" and "T \\<i>" in table


def stored(folder: Path, name: str) -> Path:
    store = Store(folder)
    for run in study(-0.1):
        store.append(
            run if run.name != "m" else result(name, run.seed, run.valid_loss, arm="m", key=f"{run.seed}/../x")
        )
    (folder / SUITES).write_text(json.dumps({f"s{name}": {"arms": {"m": {"none": "baseline"}}, "twins": []}}))
    return folder


def test_a_report_of_nasty_names_stays_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All files are where the report is, no card outside is written, nothing reaches the terminal or becomes HTML."""
    name = "../victim/x$x^{$[/bold]<img src=x>\x1b[31m"
    store, victim, cards = stored(tmp_path / "bench", name), tmp_path / "victim", tmp_path / "cards"
    victim.mkdir()
    cards.mkdir()
    (victim / "x.md").write_text("mine")
    before = {path for path in tmp_path.rglob("*") if "bench" not in path.parts}
    assert main([str(store), "--cards", str(cards), "--results", str(tmp_path / "bench" / "R.md")]) == 0
    assert {path for path in tmp_path.rglob("*") if "bench" not in path.parts} == before
    assert (victim / "x.md").read_text() == "mine"
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\\x1b" in out
    for file in ("report.md", "R.md"):
        text = (store / file).read_text()
        assert "\\<img" in text and "<img" not in text.replace("\\<img", "")
    assert "<img" not in (store / "report.html").read_text()


def test_cards_are_found_by_their_own_names(tmp_path: Path) -> None:
    cards = tmp_path / "cards"
    cards.mkdir()
    (tmp_path / "x.md").write_text("mine")
    runs = [run if run.name != "m" else result("../x", run.seed, run.valid_loss, arm="m") for run in study(-0.1)]
    assert write_cards(Findings.of(runs), cards) == 0
    assert (tmp_path / "x.md").read_text() == "mine"


def test_markup_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show([Table("T [/bold]", ("name",), (("[/bold][red]x\x1b]0;y\x07",),))])
    assert "[/bold][red]x\\x1b]0;y\\x07" in capsys.readouterr().out
    assert failed("zoo", ZooError("a\x1b[2Jb")) == 2
    assert capsys.readouterr().err == "zoo: a\\x1b[2Jb\n"


WRONG = {
    "arm": 3,
    "seed": "1",
    "valid_loss": "low",
    "parameters": 0,
    "match": "nothing",
    "baselines": {"none": 3},
    "training": [[1, 2, 3]],
    "curve": {"a": 1},
    "settings": [],
    "stamps": {"ended": 5},
    "probes": {"gate": 3},
    "tokens": 10**400,
    "flops": None,
}


@pytest.mark.parametrize("key", sorted(WRONG))
def test_a_line_of_wrong_types_costs_itself_alone(key: str, tmp_path: Path) -> None:
    store, told = Store(tmp_path), []
    for run in study(-0.1):
        store.append(run)
    with (tmp_path / FILE).open("a") as file:
        file.write(json.dumps(asdict(result("bad", 1, 3.0)) | {key: WRONG[key]}) + "\n")
    assert len(read_results(tmp_path / FILE, told.append)) == 6
    assert len(told) == 1 and f"{FILE}, line 7: no result and left out" in told[0]


def test_lines_that_are_no_results(tmp_path: Path) -> None:
    lines = ["{", "3", "[" * 100_000, '{"a": ' * 100_000, "1" * 10_000, '{"key": ' + "9" * 10_000 + "}"]
    (tmp_path / FILE).write_bytes("\n".join(lines).encode() + b"\n\xff\xfe\n\x00\x00\n\xff")
    told: list[str] = []
    assert read_results(tmp_path / FILE, told.append) == {}
    assert len(told) == 6 and "line 1:" in told[0] and "more such lines" in told[-1]
    Store(tmp_path).append(result("m", 1, 3.0))  # behind a byte that is no text
    assert len(Store(tmp_path).read()) == 1


@pytest.mark.parametrize(
    "row", [{"rounds": []}, {"rounds": [[0, 1]]}, {"rounds": 3}, {"memory": [1, "x"]}, {"arm": []}]
)
def test_costs_of_wrong_types(row: dict[str, object], tmp_path: Path) -> None:
    whole = {
        **{"arm": "m", "plain": "p", "name": "m", "match": "method", "host": "sequential", "rounds": [[1.0, 2.0]]},
        **{"memory": None, "threads": 1, "code": {}, "settings": {}, "versions": {}, "measured": "2026"},
    }
    (tmp_path / step_costs.FILE).write_text(json.dumps(whole) + "\n" + json.dumps(whole | {"arm": "n"} | row) + "\n")
    told: list[str] = []
    assert (
        step_costs.read_costs(tmp_path, told.append).keys() == {"m"} and "line 2: no step cost and left out" in told[0]
    )


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"a": {"methods": []}}', '{"a": {"arms": [], "twins": []}}', '{"a": {"arms": {"m": {"none": 1}}, "twins": []}}',
     '{"a": {"arms": {}, "twins": [["x"]]}}', '{"a": {"arms": {}, "twins": [], "margin": -1}}', "[" * 100_000],
)  # fmt: skip
def test_notes_of_another_shape(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / SUITES).write_text(text)
    assert read_suite_notes([tmp_path]).suites == {}
    assert "suites.json cannot be read" in capsys.readouterr().err


# --- clocks


def test_a_clock_that_was_ahead_makes_no_run_newer(tmp_path: Path) -> None:
    """Runs on an old text, stamped in 2100, then runs on the text of today: these count."""
    store = Store(tmp_path / "one")
    for seed, corpus, ended in ((1, "old", "2100-01-01"), (2, "old", "2100-01-02"), (1, "new", "2026-01-01")):
        store.append(result("m", seed, 3.0, key=f"{seed}{corpus}", corpus=corpus, stamps={"ended": ended}))
    found = merged([tmp_path / "one"])
    assert [run.corpus for run in found] == ["old", "old", "new"]
    (arm,) = Findings.of(found).arms
    assert [run.corpus for run in arm.runs] == ["new"]
    Store(tmp_path / "two").append(result("m", 1, 2.0, key="1old", corpus="new", stamps={"ended": "2026-01-02"}))
    for order in (("one", "two"), ("two", "one")):  # of one key, the later run, not the one that says 2100
        assert {run.key: run.valid_loss for run in merged([tmp_path / name for name in order])}["1old"] == 2.0
