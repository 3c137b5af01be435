"""The measured part of a method's card."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from zoo.catalogue.cards import with_measured
from zoo.errors import ZooError
from zoo.report.arm_results import ArmResults
from zoo.report.cell_texts import MATCHES, comparison_text, size
from zoo.report.claim_outcomes import ClaimChecker, outcome_text
from zoo.report.findings import Findings
from zoo.report.grouping import by_method
from zoo.report.results_page import corpus
from zoo.report.verdicts import Comparison
from zoo.system.files import write_atomically
from zoo.system.foreign_text import markdown

WIDTH = 112  # of a card


def write_cards(report: Findings, folder: Path) -> int:
    """Put what was measured into the cards of a folder, and return the number of those cards."""
    if not folder.is_dir():
        raise ZooError(f"{folder} is no folder: name the one with the methods' cards")
    texts = measured(report)
    cards = {path.stem: path for path in folder.iterdir() if path.suffix == ".md" and path.is_file()}
    names = sorted(cards.keys() & texts.keys())  # by the folder's own names: those of a store are no paths
    for name in names:
        write_atomically(cards[name], with_measured(cards[name].read_text(encoding="utf-8"), texts[name]))
    return len(names)


def measured(report: Findings) -> Mapping[str, str]:
    """The section "Measured" of each method's card; combinations are on no card."""
    paragraphs: dict[str, list[str]] = {}
    checker = ClaimChecker(report)
    for comparisons in by_method(report.comparisons):
        method = comparisons[0].method
        paragraphs.setdefault(method.first.name, []).append(paragraph(method, comparisons, checker))
    return {name: "\n".join(each) for name, each in paragraphs.items()}


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
