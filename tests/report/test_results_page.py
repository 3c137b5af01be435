"""RESULTS.md and what the cards say was measured: from made-up results, and those of this project as they stand."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from helpers.made_up_results import result, study

from zoo.bench.store import Store, merged, read_suite_notes
from zoo.catalogue.cards import parse_card, with_measured
from zoo.cli.report import main
from zoo.errors import ZooError
from zoo.report import claims, measured_cards, results_page
from zoo.report.findings import Findings

ROOT = Path(__file__).resolve().parents[2]
CARDS = ROOT / "plugins" / "cards"


def test_the_page() -> None:
    losses = {"baseline": 3.0, "v1_m3": 2.5, "v1_m1": 2.8, "v1_m6": 2.5, "wr_2": None, "wr_9_log": 1.0}
    runs = []
    for name, loss in losses.items():
        for seed, noise in ((1, 0.001), (2, -0.002), (3, 0.001)):
            changed = {"causal": False} if name == "wr_9_log" else {}
            noisy = None if loss is None else loss + seed / 10 + (noise if name != "v1_m6" else -10 * noise)
            runs.append(result(name, seed, noisy, **changed))
    page = results_page.results_page(Findings.of(runs))
    assert "| method | claimed | against the plain block | does the claim hold? |" in page
    (told,) = re.findall(r"^\| v1_m3 \|.*\| (worse than.+) \|$", page, re.M)
    assert told.startswith("worse than baseline: **contradicted**; better than v1_m1: **holds**;")
    assert "better than v1_m6: **open**" in told and "v1_m7: **not measured**" in told
    assert "worse than wr_1: **not in the parallel host**; diverges: **not in the parallel host**" in page
    assert "The best of Version 1, slightly worse than the baseline." in page
    assert (
        "| – | sequential | the plain block | v1_m3, v1_m1, v1_m6 | – | – | – | wr_2 (diverged), wr_9_log (leaks) |"
        in page
    )
    (counts,) = re.findall(r"^Of (\d+) claims that can be checked: (.+)\.$", page, re.M)
    assert counts == ("14", "*not measured* 6, *not in the parallel host* 3, *holds* 2, *open* 2, *contradicted* 1")


def test_claims_compare_what_changes_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same methods in another size stand on their own."""
    claim = parse_card("# m — a method\n\n## Claimed\nChecked as: better than n.\n")
    monkeypatch.setattr(claims, "card_named", lambda id: claim if id == "m" else None)
    runs = []
    for size, better in (("small", -0.3), ("large", 0.3)):
        for name, offset in (("baseline", 0.0), ("n", 0.0), ("m", better)):
            more = {"arm": f"{size} {name}", "baselines": {} if name == "baseline" else {"none": f"{size} baseline"}}
            runs += [result(name, s, 3.0 + offset + s / 1000, key=f"{size} {name} {s}", **more) for s in (1, 2, 3)]
    page = results_page.results_page(Findings.of(runs))
    assert page.count("better than n: **holds**") == page.count("better than n: **contradicted**") == 1


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


# --- this project's own


@functools.cache
def ours() -> Findings:
    folders = [ROOT / "results"]
    return Findings.of(merged(folders), read_suite_notes(folders))


def test_the_page_is_what_the_store_says() -> None:
    """Should it fail: tools/run zoo-report results --into /tmp/report --results RESULTS.md --cards plugins/cards"""
    assert results_page.results_page(ours()) == (ROOT / "RESULTS.md").read_text()


def test_every_card_says_what_the_store_says() -> None:
    measured = measured_cards.measured(ours())
    for card in sorted(CARDS.glob("*.md")):
        text = card.read_text()
        assert text == with_measured(text, measured.get(card.stem, "Nothing yet.\n")), card
