"""RESULTS.md: what helps, what hurts, what is open, in two minutes; everything else on pages behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from zoo.report.beside_loss import COLUMNS as COLUMNS_BESIDE, beside_loss_table
from zoo.report.claim_outcomes import ClaimChecker
from zoo.report.conditions import conditions
from zoo.report.corrected import linked
from zoo.report.findings import Findings
from zoo.report.ladder_tables import KAPPA
from zoo.report.markdown_pages import first_screen, remarks_section
from zoo.report.overview import controls_table, marks_text
from zoo.report.redefined import redefined_text
from zoo.report.remarks import how_sure
from zoo.report.standings import Standing
from zoo.system.foreign_text import markdown
from zoo.system.table import counted

HEAD = """\
# Results

Does this change to the transformer block help? A row per method: the verdict, how sure it is, at what size and cost. A method's
name leads to its page: learning curves, every size, learning rates, costs, and what became of what was claimed of it.
"""
NOTHING = """\
No result counts yet: a verdict of one size and few tokens may not hold at another, and no ladder has been run to its end."""
COLUMNS = {
    True: f"**κ** is {KAPPA}; **κ_time** counts seconds in place of FLOPs. **Seeds** are those of each size, the smallest first;"
    " sizes are without embeddings.",
    False: "**difference**: loss of the method − loss of the plain block, in nats per token: negative is better.",
}
COST = (
    "**Time ×** is a training step's beside the plain block's, measured in turns with it; **parameters** and **FLOPs** (per"
    " token) are what the method has more. In brackets: 95 % intervals."
)


def results_page(
    report: Findings | None,
    rows: Sequence[Standing],
    figures: Sequence[str],
    links: Mapping[str, str],
    more: Sequence[str],
    tables: str = "",
) -> str:
    """The whole page. `figures` are the overview's, `links` lead from methods to their pages, `more` to other pages.

    `tables` is the path of the page with the long tables.
    """
    further = ["## More", "", *(f"- {each}" for each in more), ""]
    if report is None:
        return "\n".join([HEAD, NOTHING, "", *further])
    units = [ladder for ladder in (True, False) if any(each.ladder is ladder for each in rows)]
    said = how_sure(report)
    lines = [HEAD, *first_screen(rows, figures, links, said)]
    lines += [" ".join([*(COLUMNS[unit] for unit in units), COST, marks_text(rows)]).rstrip(), ""]
    if beside := beside_loss_table(report, rows, links):
        lines += [beside.markdown(), COLUMNS_BESIDE, ""]
    lines += [linked(line, tables) for line in remarks_section(said)]
    lines += [controls_table(ladder).markdown(level=3) for ladder in report.ladders]
    lines += [*_sentences(report), "## At what size", "", markdown(conditions(report)), ""]
    return "\n".join([*lines, *further])


def _sentences(report: Findings) -> list[str]:
    """What else there is to know, a paragraph each."""
    said = (tally(report, ClaimChecker(report)), redefined_text(report.redefined))
    return [line for sentence in said if sentence for line in (sentence, "")]


def tally(report: Findings, checker: ClaimChecker) -> str:
    """The number of claims of each status: of those that were checked, then of those that were not."""
    methods = {arm.id: arm for arm in report.arms if arm.first.match == "method"}
    outcomes = [outcome for arm in methods.values() for outcome in checker.outcomes(arm)]
    checked = Counter(outcome.status for outcome in outcomes if outcome.checked)
    others = Counter(outcome.status for outcome in outcomes if not outcome.checked)
    if not outcomes:
        return ""
    said = f"Of {counted(len(outcomes), 'claim')} in a form that results can check, {checked.total()} were checked"
    said += f": {_counts(checked)}" if checked else ""
    return f"{said}; {others.total()} were not: {_counts(others)}." if others else f"{said}."


def _counts(statuses: Counter[str]) -> str:
    return ", ".join(f"*{status}* {count}" for status, count in statuses.most_common())
