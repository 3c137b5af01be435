"""RESULTS.md and the cards' "Measured": what was claimed of each method, what was measured, whether the claim holds."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from zoo.claims import checked, claim, told
from zoo.errors import ZooError
from zoo.files import write_atomically
from zoo.report import INTRODUCTION, MATCHES, Report, by_method, caveats, number, order, size
from zoo.store import Result
from zoo.table import Table
from zoo.verdict import ArmResults, Comparison

HEAD = """\
# Results

Made from `results.jsonl` by `zoo-report STORE --results RESULTS.md`; the runs behind it by `zoo-bench --suite NAME`.
"""
ON_CLAIMS = """\
Behind ± is half of the 95 % interval (t), of one question alone. Whether a claim on the loss holds is told by that interval
of the difference from what the claim names, so it may hold where the verdict, which allows for all questions of the suite,
says that no difference was shown: *holds* when the interval lies on the claimed side, *contradicted* when it lies on the
other, *open* when it has zero in it. Of “about”, “no better than” and “no worse than” such an interval is *not
contradicted*, and what leaks makes a claim *void*. A claim on a learned value is held against its mean over the seeds in
the same way, layer by layer. “baseline” is the plain block, also of a method with more parameters. Where no width of FFN
matches better, the plain block is matched as it is (“the same”). A small model and few tokens: a claim that does not hold
here may hold elsewhere, and the other way round.
"""
VERDICTS = ("better", "no difference shown", "worse")  # what is neither has a column of its own
WIDTH = 112  # of a card


def results_page(report: Report) -> str:
    """The whole page: conditions, all verdicts at a glance, a line for each method, then every table of the report."""
    lines = [HEAD, INTRODUCTION, "", ON_CLAIMS, conditions(report), "", in_short(report).markdown(), tally(report), ""]
    places: dict[tuple[str, str], list[Comparison]] = {}
    for c in report.comparisons:
        places.setdefault((c.method.first.host, c.method.place), []).append(c)
    for (host, _), here in sorted(places.items()):
        matches = [match for match in MATCHES if any(c.match == match for c in here)]
        head = ("method", "claimed", *(f"against {MATCHES[match]}" for match in matches), "does the claim hold?")
        rows = []
        for found in by_method(here):
            method = found[0].method
            outcomes = told(checked(method, report)) or "–"
            claimed = claim(method.first.name).replace("|", "/")
            rows.append((method.first.name, claimed, *(_against(found, match) for match in matches), outcomes))
        lines.append(Table(f"{host.capitalize()} host{size(here[0].plain)}", head, tuple(rows)).markdown())
    lines += [table.markdown() for table in report.tables()]
    return "\n".join(lines)


def in_short(report: Report) -> Table:
    """Who is better, who is worse: a row for each question that was asked of a suite."""
    asked: dict[tuple[str, str, str], list[Comparison]] = {}
    for c in report.comparisons:
        asked.setdefault((c.suite or "–", c.method.first.host, c.match), []).append(c)
    rows = []
    for (suite, host, match), of in sorted(asked.items(), key=lambda each: order(each[0])):
        columns = [", ".join(c.name for c in of if c.verdict == verdict) for verdict in VERDICTS]
        others = ", ".join(f"{c.name} ({c.verdict})" for c in of if c.verdict not in VERDICTS)
        rows.append((suite, host, MATCHES[match], *(names or "–" for names in (*columns, others))))
    return Table("In short", ("suite", "host", "against", *VERDICTS, "other"), tuple(rows))


def tally(report: Report) -> str:
    """How the claims stand, counted."""
    methods = {arm.id: arm for arm in report.arms if arm.first.match == "method"}
    found = Counter(outcome.found for arm in methods.values() for outcome in checked(arm, report))
    counts = ", ".join(f"*{outcome}* {count}" for outcome, count in found.most_common())
    return f"Of {found.total()} claims that can be checked: {counts}." if found else ""


def _against(found: Sequence[Comparison], match: str) -> str:
    """What came of comparing a method with its baseline of this match."""
    for c in found:
        if c.match == match:
            reach = number((c.difference.high - c.difference.low) / 2, ".3f")
            mean = number(c.difference.mean, "+.3f")
            shown = f"n {c.difference.n}{caveats(c)}, could show {number(c.detectable, '.3f')}"
            return f"**{c.verdict}**: {mean} ± {reach} ({shown})"
    method, plain = found[0].method, found[0].plain
    if plain is None or method.baselines.get(match) != plain.id:
        return "–"
    off = abs(plain.spent.off_by(method.spent, match))
    return f"the same, off by {off:.3%}" if off >= 5e-6 else "the same"


def conditions(report: Report) -> str:
    """Size, tokens, corpus and machine of the runs, as far as they agree."""
    runs = [run for arm in report.arms for run in arm.runs]
    plain = [run for run in runs if run.match == "none"] or runs
    tokens = sorted({run.budget for run in plain})
    sizes = sorted({run.parameters for run in plain})
    entropy = sorted({round(run.unigram_entropy, 3) for run in runs if math.isfinite(run.unigram_entropy)})
    machines = sorted({name for run in runs if (name := run.versions.get("machine", {}).get("processor"))})
    ran_on = f"; run on {', '.join(machines)}" if machines else ""
    commits = {commit for run in runs if (commit := (run.versions.get("git") or {}).get("commit"))}
    ran_on += f", by {len(commits)} commits of the code" if len(commits) > 1 else ""
    return (
        f"{len(runs)} runs; plain models of {_list(sizes)} parameters, trained on {_list(tokens)} tokens of"
        f" {' and '.join(sorted({corpus(run) for run in runs}))}; unigram entropy of the validation split"
        f" {', '.join(map(str, entropy))} nats a token{ran_on}."
    )


def corpus(run: Result) -> str:
    """What the run's corpus is called, wherever it was."""
    return PurePath(run.settings.get("data.corpus", "").strip("'\"")).name or f"a corpus {run.corpus[:8]}"


def _list(values: Sequence[int]) -> str:
    return " and ".join(f"{value:,}" for value in values)


# --- cards


def write_cards(report: Report, folder: Path) -> int:
    """Put what was measured into the cards of a folder; how many cards that were."""
    if not folder.is_dir():
        raise ZooError(f"{folder} is no folder: name the one with the methods' cards")
    found = measured(report)
    cards = [folder / f"{name}.md" for name in found if (folder / f"{name}.md").is_file()]
    for card in cards:
        write_atomically(card, with_measured(card.read_text(encoding="utf-8"), found[card.stem]))
    return len(cards)


def with_measured(card: str, text: str) -> str:
    """A card with this in "Measured", its last section."""
    before = card.partition("\n## Measured\n")[0].rstrip("\n")
    return f"{before}\n\n## Measured\n{text}"


def measured(report: Report) -> Mapping[str, str]:
    """For each method what a card says of it; combinations are on no card."""
    paragraphs: dict[str, list[str]] = {}
    for found in by_method(report.comparisons):
        method = found[0].method
        paragraphs.setdefault(method.first.name, []).append(_paragraph(method, found, report))
    return {name: "\n".join(each) for name, each in paragraphs.items()}


def _paragraph(method: ArmResults, found: Sequence[Comparison], report: Report) -> str:
    first, plain = method.first, found[0].plain
    rates = (
        ", the best of × " + ", ".join(f"{factor:g}" for factor in sorted(method.factors))
        if len(method.factors) > 1
        else ""
    )
    scale = f"{first.host} host{size(plain)} of {corpus(first)}, learning rate {first.lr:.2g}{rates}"
    lines = textwrap.wrap(f"{scale[0].upper()}{scale[1:]}; nats a token, method − baseline:", WIDTH)
    for match in MATCHES:
        if (came := _against(found, match)) != "–":
            lines += textwrap.wrap(f"- against {MATCHES[match]}: {came}", WIDTH, subsequent_indent="  ")
    if outcomes := told(checked(method, report)):
        lines += textwrap.wrap(f"- claims: {outcomes}", WIDTH, subsequent_indent="  ")
    return "\n".join(lines) + "\n"
