"""The archive: older results, every table of them, and why they no longer count."""

from __future__ import annotations

from collections.abc import Sequence

from zoo.report.arm_results import ArmResults
from zoo.report.cell_texts import MATCHES, comparison_text, size
from zoo.report.claim_outcomes import ClaimChecker, outcome_text
from zoo.report.claims import claim_text
from zoo.report.conditions import conditions
from zoo.report.findings import Findings
from zoo.report.grouping import by_method, order
from zoo.report.legend import introduction
from zoo.report.markdown_pages import MARK, first_screen, remarks_section
from zoo.report.redefined import redefined_text
from zoo.report.remarks import remarks
from zoo.report.results_page import tally
from zoo.report.standings import standings
from zoo.report.tables import tables
from zoo.report.verdict_words import DECIDED_BY_LOSS
from zoo.report.verdicts import Comparison
from zoo.system.foreign_text import markdown
from zoo.system.table import Table

ENOUGH = 20  # tokens per parameter, as the recipe has it
HEAD = """\
# Archive

Older results, kept as they are. They no longer count: {why}. What counts is in [RESULTS.md]({results}).
"""
ON_CLAIMS = """\
- **±**: half of the 95 % interval of one question alone.
- **does the claim hold?** A claim on the loss beside the plain block's is *open* where the verdict is. Else, and where it names
  another method, the 95 % interval of the difference decides (under looks that of the look's level). *Holds*: the interval lies
  on the claimed side, and the difference is at least the margin. *Contradicted*: it lies on the other side, or the 90 % interval
  lies within ± the margin. *Open*: neither. “About”, “no better than” and “no worse than” *hold* within ± the margin and
  are *not contradicted* where neither is shown. What leaks or did not train makes a claim *void*. A claim about
  a learned value is judged by its mean over the seeds, layer by layer. What was claimed of one host only is checked there alone.
- **baseline** is the plain block, also of a method with more parameters. *The same*: no width of the FFN matches better
  than the plain block as it is.
"""


def archive_page(report: Findings, results: str, figures: Sequence[str] = ()) -> str:
    """The whole page; `results` is the path to the page of what counts."""
    checker = ClaimChecker(report)
    lines = [MARK, HEAD.format(why=why_not(report), results=results)]
    said = remarks(report)
    lines += first_screen(standings(report), figures, {}, said)
    lines += [in_short(report).markdown(), *(remarks_section(said) if said else [])]
    for sentence in (tally(report, checker), redefined_text(report.redefined)):
        lines += [sentence, ""] if sentence else []
    lines += [markdown(conditions(report)), "", "## Legend", "", introduction(report), ON_CLAIMS]
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for c in report.comparisons:
        groups.setdefault((c.method.first.host, c.method.plain_arm), []).append(c)
    lines += [method_table(host, of, checker).markdown() for (host, _), of in sorted(groups.items())]
    return "\n".join([*lines, *(table.markdown() for table in tables(report))])


def why_not(report: Findings) -> str:
    """What is too little about these results, as far as it can be counted."""
    plain = [arm for arm in report.arms if arm.first.match == "none"]
    reasons = []
    if len({arm.first.parameters for arm in plain}) == 1:
        reasons.append(f"one size ({plain[0].first.parameters:,} parameters), and a difference may not hold at another")
    if plain and (least := min(map(tokens_per_parameter, plain))) < ENOUGH:
        reasons.append(
            f"{least:.1f} tokens per parameter, where the recipe takes {ENOUGH}: the first minutes of learning, in which the"
            " plain block's loss still falls fast and the curves of methods have not yet settled"
        )
    if seeds := [len(arm.runs) for arm in report.arms if arm.first.match == "method"]:
        counts = " to ".join(dict.fromkeys(map(str, (min(seeds), max(seeds)))))
        reasons.append(f"{counts} seeds per method, too few for what is small")
    return "; ".join(reasons) or "newer ones take their place"


def tokens_per_parameter(arm: ArmResults) -> float:
    """How long an arm was trained for its size."""
    return arm.spent.trained / arm.first.parameters


def in_short(report: Findings) -> Table:
    """The methods by verdict, a row per suite, host and match."""
    asked: dict[tuple[str, str, str], list[Comparison]] = {}
    for c in report.comparisons:
        asked.setdefault((c.suite or "–", c.method.first.host, c.match), []).append(c)
    rows = []
    for (suite, host, match), of in sorted(asked.items(), key=lambda each: order(each[0])):
        columns = [", ".join(c.name for c in of if c.verdict == verdict) for verdict in DECIDED_BY_LOSS]
        others = ", ".join(f"{c.name} ({c.verdict})" for c in of if c.verdict not in DECIDED_BY_LOSS)
        rows.append((suite, host, MATCHES[match], *(names or "–" for names in (*columns, others))))
    return Table("In short", ("suite", "host", "against", *DECIDED_BY_LOSS, "other"), tuple(rows))


def method_table(host: str, comparisons: Sequence[Comparison], checker: ClaimChecker) -> Table:
    """A row per method: what was claimed, what was measured against each baseline, and whether the claim holds."""
    matches = [match for match in MATCHES if any(c.match == match for c in comparisons)]
    head = ("method", "claimed", *(f"against {MATCHES[match]}" for match in matches), "does the claim hold?")
    rows = []
    for of_method in by_method(comparisons):
        method = of_method[0].method
        outcomes = outcome_text(checker.outcomes(method)) or "–"
        measured = (comparison_text(of_method, match) for match in matches)
        rows.append((method.first.name, claim_text(method.first.name), *measured, outcomes))
    return Table(f"{host.capitalize()} host{size(comparisons[0].plain)}", head, tuple(rows))
