"""The measured part of a method's card."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from zoo.catalogue.cards import with_measured
from zoo.errors import ZooError
from zoo.report.arm_results import ArmResults
from zoo.report.cell_texts import MATCHES, comparison_text, size
from zoo.report.claim_outcomes import ClaimChecker, Outcome, outcome_text
from zoo.report.conditions import corpus
from zoo.report.findings import Findings
from zoo.report.grouping import by_method
from zoo.report.overview import effect_text, seeds_text, sizes_text
from zoo.report.standings import Standing, standings
from zoo.report.verdicts import Comparison
from zoo.system.files import write_atomically
from zoo.system.foreign_text import markdown

WIDTH = 112  # of a card
NOTHING = "Nothing yet.\n"
OLDER = "Older results, which no longer count (docs/results/archive.md says why):\n\n"


def write_cards(report: Findings | None, folder: Path, archive: Findings | None = None) -> int:
    """Put what was measured into the cards of a folder, and return the number of those cards."""
    if not folder.is_dir():
        raise ZooError(f"{folder} is no folder: name the one with the methods' cards")
    texts = measured(report, archive)
    cards = {path.stem: path for path in folder.iterdir() if path.suffix == ".md" and path.is_file()}
    names = sorted(cards.keys() & texts.keys())  # by the folder's own names: those of a store are no paths
    for name in names:
        write_atomically(cards[name], with_measured(cards[name].read_text(encoding="utf-8"), texts[name]))
    return len(names)


def measured(report: Findings | None, archive: Findings | None = None) -> Mapping[str, str]:
    """The section "Measured" of each method's card; combinations are on no card.

    What a ladder says stands first, older results last; of a method that was redefined since, nothing is left.
    """
    paragraphs: dict[str, list[str]] = {}
    for name, text in _of_ladders(report) if report else ():
        paragraphs.setdefault(name, []).append(text)
    for name, text in _of_suites(report) if report else ():
        paragraphs.setdefault(name, []).append(text)
    older: dict[str, list[str]] = {}
    for name, text in _of_suites(archive) if archive else ():
        older.setdefault(name, []).append(text)
    for name, texts in older.items():
        paragraphs.setdefault(name, []).append(OLDER + "\n".join(texts))
    redefined = [name for each in (report, archive) if each for name in each.redefined]
    return dict.fromkeys(redefined, NOTHING) | {name: "\n".join(each) for name, each in paragraphs.items()}


def _of_ladders(report: Findings) -> Iterator[tuple[str, str]]:
    """A paragraph for every method on every ladder."""
    checker, arms = ClaimChecker(report), {arm.id: arm for arm in report.arms}
    for standing in standings(report):
        if standing.ladder and standing.role in ("method", "gain", "harm"):
            largest = arms.get(standing.sizes[-1].arm)
            text = ladder_paragraph(standing, checker.outcomes(largest) if largest else ())
            yield _on_card(standing.name, text)


def ladder_paragraph(standing: Standing, outcomes: Sequence[Outcome]) -> str:
    """What a ladder says of a method: conditions, verdict with κ, claims."""
    largest = standing.sizes[-1]
    scale = (
        f"Ladder {markdown(standing.source)}, {markdown(standing.host)} host, plain blocks of {sizes_text(standing.sizes)}"
        f" parameters without embeddings, {largest.tokens / largest.parameters:.3g} tokens per parameter,"
        f" {seeds_text(standing.sizes)} seeds:"
    )
    kappas = f"κ {effect_text(standing.effect, True)}, κ_time {effect_text(standing.in_time, True)}"
    lines = textwrap.wrap(scale, WIDTH)
    lines += textwrap.wrap(f"- **{standing.verdict}**: {kappas}", WIDTH, subsequent_indent="  ")
    if text := outcome_text(outcomes):
        lines += textwrap.wrap(f"- claims, at the largest: {text}", WIDTH, subsequent_indent="  ")
    return "\n".join(lines) + "\n"


def _of_suites(report: Findings) -> Iterator[tuple[str, str]]:
    """A paragraph for every method at every size that is no rung of a ladder."""
    checker = ClaimChecker(report)
    rungs = {runs.noted.arm for ladder in report.ladders for rung in ladder.rungs for runs in rung.arms.values()}
    for comparisons in by_method(c for c in report.comparisons if c.method.id not in rungs):
        method = comparisons[0].method
        yield _on_card(method.first.name, paragraph(method, comparisons, checker))


def _on_card(name: str, text: str) -> tuple[str, str]:
    """The card that a paragraph belongs on, and the paragraph, which names settings that are not the method's own."""
    id, settings, _ = name.partition("(")
    return (id, f"Of `{markdown(name)}`:\n{text}") if settings and "+" not in name else (name, text)


def paragraph(method: ArmResults, comparisons: Sequence[Comparison], checker: ClaimChecker) -> str:
    """What was measured of a method at one size: the conditions, a line per baseline, the claims."""
    first, plain = method.first, comparisons[0].plain
    rates = (
        ", the best of the rates × " + ", ".join(f"{factor:g}" for factor in sorted(method.factors))
        if len(method.factors) > 1
        else ""
    )
    scale = (
        f"{markdown(first.host)} host{size(plain)} of {markdown(corpus(first))}, learning rate {first.lr:.2g}{rates}"
    )
    lines = textwrap.wrap(f"{scale[0].upper()}{scale[1:]}; nats per token, method − baseline:", WIDTH)
    for match in MATCHES:
        if (text := comparison_text(comparisons, match)) != "–":
            lines += textwrap.wrap(f"- against {MATCHES[match]}: {text}", WIDTH, subsequent_indent="  ")
    if outcomes := outcome_text(checker.outcomes(method)):
        lines += textwrap.wrap(f"- claims: {outcomes}", WIDTH, subsequent_indent="  ")
    return "\n".join(lines) + "\n"
