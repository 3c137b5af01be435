"""Which verdicts of ladders still hold when they are corrected for all methods of their size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoo.report.cell_texts import p_value_text
from zoo.report.findings import Findings
from zoo.report.standings import Standing, standings
from zoo.report.verdict_words import BETTER, FADES, HELPS, HURTS, NOT_IN_TIME, WORSE
from zoo.report.verdicts import Comparison
from zoo.scaling.noise import wider_than
from zoo.system.table import counted

GAINS = (HELPS, NOT_IN_TIME, FADES)  # the words for a loss that the plain block needs more compute for
DUNNETT = "p (Dunnett)"  # the column of the long tables
CHANCE = 0.05  # that one noise holds for a method as well as for the others: below it is said that its runs lie farther apart


class Corrected(NamedTuple):
    """A decided verdict of a ladder beside the same question among all methods of its size."""

    standing: Standing
    stands: bool  # at one of its sizes, at least
    p: float  # Dunnett's, at the size where that is smallest
    level: float  # that p must be below there
    scatter: float | None  # the deviation of its runs over the pooled one, where chance is no good reason for it

    @property
    def text(self) -> str:
        """The method with its p."""
        apart = (
            f"; its runs lie {self.scatter:.1f} × as far apart as its ladder's interval assumes" if self.scatter else ""
        )
        return f"{self.standing.name} ({p_value_text(self.p)}{'' if self.stands else apart})"


def corrected(report: Findings) -> list[Corrected]:
    """Every method of a ladder that helps or hurts and whose loss was compared with the plain block's at some size."""
    compared = {c.method.id: c for c in report.comparisons if c.match == "none" and c.difference.known}
    rows = []
    for each in standings(report):
        if each.ladder and each.role == "method" and each.word in (*GAINS, HURTS):
            rows += _corrected(each, compared, wider_scatter(report, each))
    return rows


def wider_scatter(report: Findings, standing: Standing) -> float | None:
    """The deviation of an arm's runs over the pooled noise that its ladder judges it by, at the rung where that says most.

    None where chance may explain it (F test, 5 % over all its rungs), or where it is judged by a noise of its own.
    """
    rungs = [rung for ladder in report.ladders if ladder.key == standing.key for rung in ladder.rungs]
    rungs = [rung for rung in rungs if standing.name in rung.arms]
    if any(standing.name in rung.own_noise for rung in rungs):
        return None
    tests = [wider_than(rung.arms[standing.name].losses(rung.split), rung.noise) for rung in rungs]
    ratio, chance = min(tests, key=lambda test: test[1], default=(1.0, 1.0))
    return ratio if chance * len(tests) < CHANCE else None


def _corrected(standing: Standing, compared: Mapping[str, Comparison], scatter: float | None) -> list[Corrected]:
    at_sizes = [compared[at.arm] for at in standing.sizes if at.arm in compared]
    if not at_sizes:
        return []
    word = WORSE if standing.word == HURTS else BETTER
    best = min(at_sizes, key=lambda c: c.p_adjusted)
    return [
        Corrected(standing, any(c.verdict == word for c in at_sizes), best.p_adjusted, best.levels.different, scatter)
    ]


def corrected_text(report: Findings) -> str:
    """How many decided verdicts of ladders still hold when they are corrected, and which do not; empty without any."""
    rows = corrected(report)
    if not rows:
        return ""
    stand = [each for each in rows if each.stands]
    levels = " and ".join(f"{level:.2g}" for level in sorted({each.level for each in rows}))
    fall = [each for each in rows if not each.stands]
    said = (
        f"Corrected for all methods of their size ({DUNNETT} of the loss; level {levels}), {len(stand) or 'none'} of the"
        f" {counted(len(rows), 'decided verdict')} {'stand' if len(stand) > 1 else 'stands'} at any size"
    )
    return f"{said}{_named(': ', stand)}{_named('; these do not: ' if stand else ': ', fall)}."


def linked(text: str, tables: str) -> str:
    """A text in Markdown, with a link from the name of the test to the page of the long tables."""
    return text.replace(DUNNETT, f"[{DUNNETT}]({tables})", 1)


def _named(before: str, rows: Sequence[Corrected]) -> str:
    return before + ", ".join(each.text for each in rows) if rows else ""
