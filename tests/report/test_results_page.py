"""RESULTS.md and what the cards say was measured: from made-up results, and those of this project as they stand."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import pytest
from helpers.made_up_ladder import made_up_ladder
from helpers.made_up_results import result, study

from zoo.bench.store import FILE, Store, merged
from zoo.bench.suite_notes import read_suite_notes
from zoo.catalogue.cards import parse_card, with_measured
from zoo.cli.report import main
from zoo.errors import ZooError
from zoo.report import claims, measured_cards, redefined
from zoo.report.archive_page import archive_page
from zoo.report.findings import Findings
from zoo.report.results_folder import PAGES, explanations, result_files, write_results

ROOT = Path(__file__).resolve().parents[2]
CARDS = ROOT / "plugins" / "cards"


def test_the_page() -> None:
    losses = {"baseline": 3.0, "v1_m3": 2.5, "v1_m1": 2.8, "v1_m6": 2.5, "wr_2": None, "wr_8_log": 1.0}
    runs = []
    for name, loss in losses.items():
        for seed, noise in ((1, 0.001), (2, -0.002), (3, 0.001)):
            changed = {"causal": False} if name == "wr_8_log" else {}
            noisy = None if loss is None else loss + seed / 10 + (noise if name != "v1_m6" else -10 * noise)
            runs.append(result(name, seed, noisy, **changed))
    page = archive_page(Findings.of(runs), "RESULTS.md")
    assert "| method | claimed | against the plain block | does the claim hold? |" in page
    (told,) = re.findall(r"^\| v1_m3 \|.*\| (worse than.+) \|$", page, re.M)
    assert told.startswith("worse than baseline: **contradicted**; better than v1_m1: **holds**;")
    assert "better than v1_m6: **open**" in told and "v1_m7: **not measured**" in told
    assert (
        "worse than wr_1: **claimed of the parallel host only**; diverges: **claimed of the parallel host only**"
        in page
    )
    assert "The best of Version 1, slightly worse than the baseline." in page
    assert (
        "| – | sequential | the plain block | v1_m3, v1_m1, v1_m6 | – | – | – | wr_2 (diverged), wr_8_log (leaks) |"
        in page
    )
    assert (
        "\nOf 14 claims in a form that results can check, 5 were checked: *holds* 2, *open* 2, *contradicted* 1;"
        " 9 were not: *not measured* 6, *claimed of the parallel host only* 3.\n" in page
    )


def test_claims_compare_what_changes_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same methods in another size stand on their own."""
    claim = parse_card("# m — a method\n\n## Claimed\nChecked as: better than n.\n")
    monkeypatch.setattr(claims, "card_named", lambda id: claim if id == "m" else None)
    runs = []
    for size, better in (("small", -0.3), ("large", 0.3)):
        for name, offset in (("baseline", 0.0), ("n", 0.0), ("m", better)):
            more = {"arm": f"{size} {name}", "baselines": {} if name == "baseline" else {"none": f"{size} baseline"}}
            runs += [result(name, s, 3.0 + offset + s / 1000, key=f"{size} {name} {s}", **more) for s in (1, 2, 3)]
    page = archive_page(Findings.of(runs), "RESULTS.md")
    assert page.count("better than n: **holds**") == page.count("better than n: **contradicted**") == 1


def test_the_pages_of_a_ladder(tmp_path: Path) -> None:
    """The first screen is short, every link leads to a page, and a later report takes away what it no longer has."""
    report = made_up_ladder({"v1_m4": 1.15, "v1_m3": 1.0, "wr_8_2(n=2)": 0.9}, ("sequential", "parallel")).findings
    mine = tmp_path / PAGES / "mine.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    write_results(report, Findings.of(study(-0.1)), tmp_path / "RESULTS.md", CARDS)
    page = (tmp_path / "RESULTS.md").read_text("utf-8")
    assert "- **helps, not in time** (2): v1_m4" in page and "*the whole interval of κ lies below 1*" in page
    assert "| [v1_m4](docs/results/v1_m4.md) | helps, not in time | 1.1" in page
    assert "![κ of every method with its interval](docs/results/figures/overview-kappa.svg)" in page
    assert len(page.encode()) < 20_000 and "all 3 controls came out as expected" in page
    written = [tmp_path / "RESULTS.md", *(tmp_path / PAGES).glob("*.md")]
    for file in written:
        for target in re.findall(r"\]\(([^)#]+)", file.read_text("utf-8")):
            assert (file.parent / target).is_file() or "plugins/cards" in target, (file.name, target)
    of_method = (tmp_path / PAGES / "v1_m4.md").read_text("utf-8")
    for title in ("## Sequential host, ladder small", "## Parallel host", "## Cost", "## Claimed", "## Learned"):
        assert title in of_method, title
    assert f"[Card of v1_m4]({os.path.relpath(CARDS / 'v1_m4.md', tmp_path / PAGES)})" in of_method
    archive = (tmp_path / PAGES / "archive.md").read_text("utf-8")
    assert "They no longer count: one size (1,000 parameters)" in archive and "0.1 tokens per parameter" in archive
    write_results(Findings.of(study(-0.1)), None, tmp_path / "RESULTS.md")
    left = {path.name for path in (tmp_path / PAGES).rglob("*.*")}
    assert left == {"m.md", "mine.md", "all-tables.md", "overview-differences.svg", "m-1-curves.svg"}


def test_results_of_a_method_that_was_redefined_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    card = parse_card("# m — a method\n\n## Source\nThe notes. Redefined on 2026-05-01: with a\nbias.\n")
    monkeypatch.setattr(redefined, "card_named", lambda id: card if id == "m" else None)
    redefined._redefined.cache_clear()
    runs = [*study(-0.1, stamps={"ended": "2026-04-30T23:59:59+00:00"}), *(result("n", s, 3.0) for s in (1, 2, 3))]
    found = Findings.of(runs)
    assert [c.name for c in found.comparisons] == ["n"] and found.redefined == ("m",)
    assert measured_cards.measured(found)["m"] == "Nothing yet.\n"
    assert "have changed since they were run: m." in archive_page(found, "RESULTS.md")
    again = Findings.of(study(-0.1, stamps={"ended": "2026-05-01T00:00:00+00:00"}))
    assert [c.name for c in again.comparisons] == ["m"] and again.redefined == ()
    redefined._redefined.cache_clear()


def test_an_archive_alone_says_that_nothing_counts_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "bench")
    for each in study(-0.1):
        store.append(each)
    page = tmp_path / "RESULTS.md"
    assert main(["--archive", str(store.folder), "--results", str(page)]) == 0
    assert "No result counts yet" in page.read_text("utf-8") and "(docs/results/archive.md)" in page.read_text("utf-8")
    assert not (store.folder / "report.html").exists()
    assert main(["--archive", str(store.folder)]) == 2 and "is a page of --results" in capsys.readouterr().err
    assert main([]) == 2 and "name the folder of a bench" in capsys.readouterr().err


# --- cards


def test_a_card_is_told_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, cards = Store(tmp_path / "bench"), tmp_path / "cards"
    for each in study(-0.1, settings={"data.corpus": "'/some/where/text'"}):
        store.append(each)
    cards.mkdir()
    (cards / "m.md").write_text("# m — a method\n\n## Cost\nNone.\n\n## Measured\nNothing yet.\n")
    (cards / "n.md").write_text("# n — another\n")
    for _ in range(2):  # again: the same card
        assert main([str(store.folder), "--cards", str(cards)]) == 0
        assert f"1 card in {cards} updated" in capsys.readouterr().out
        assert (cards / "m.md").read_text().split("## Measured\n") == [
            "# m — a method\n\n## Cost\nNone.\n\n",
            "Sequential host, 1,000 parameters, 100 tokens of text, learning rate 0.001; nats per token, method − baseline:\n"
            "- against the plain block: **better**: -0.100 ± 0.004 (n 3, detectable 0.006)\n",
        ]
    assert (cards / "n.md").read_text() == "# n — another\n"


def test_a_card_without_the_section_gets_it() -> None:
    assert with_measured("# m — a method\n", "Much.\n") == "# m — a method\n\n## Measured\nMuch.\n"


def test_cards_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="name the one with the methods' cards"):
        measured_cards.write_cards(Findings.of(study(0.0)), tmp_path / "no")


def test_what_a_ladder_says_stands_before_older_results() -> None:
    older = Findings.of([*study(-0.1), *(result("v1_m4", s, 2.9 + s / 10) for s in (1, 2, 3))])
    texts = measured_cards.measured(made_up_ladder({"v1_m4": 1.15, "wr_8_2(n=2)": 1.0}).findings, older)
    first, _, rest = texts["v1_m4"].partition("\n\n")
    assert first.startswith("Ladder small, sequential host, plain blocks of 100 k to 790 k")
    assert "- **helps, not in time**: κ 1.1" in first
    assert rest.startswith("Older results, which no longer count") and "- against the plain block:" in rest
    assert texts["m"].startswith("Older results") and "Ladder" in texts["wr_mean"]
    assert texts["wr_8_2"].startswith("Of `wr_8_2(n=2)`:\nLadder small")


# --- this project's own


@functools.cache
def ours() -> tuple[Findings | None, Findings]:
    """What counts, once there is any, and the archive."""
    current, older = [ROOT / "results"], [ROOT / "results/archive"]
    counting = Findings.of(merged(current), read_suite_notes(current)) if (ROOT / "results" / FILE).exists() else None
    return counting, Findings.of(merged(older), read_suite_notes(older))


def test_the_pages_are_what_the_store_says() -> None:
    """Should it fail, write them again, as README.md has it."""
    links = {card.stem: f"../../plugins/cards/{card.name}" for card in CARDS.glob("*.md")}
    files = result_files(*ours(), "RESULTS.md", links, explanations(ROOT))
    pages = {path: text for path, text in files.items() if path.suffix == ".md"}
    assert {path: (ROOT / path).read_text("utf-8") for path in pages} == pages
    there = {path.relative_to(ROOT) for path in (ROOT / PAGES).rglob("*.*")}
    assert there == files.keys() - {Path("RESULTS.md")}, "docs/results has files of an earlier report"
    assert len(pages[Path("RESULTS.md")].encode()) < 20_000


def test_every_card_says_what_the_store_says() -> None:
    measured = measured_cards.measured(*ours())
    for card in sorted(CARDS.glob("*.md")):
        text = card.read_text("utf-8")
        assert text == with_measured(text, measured.get(card.stem, measured_cards.NOTHING)), card
