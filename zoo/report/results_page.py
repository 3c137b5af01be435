"""RESULTS.md: what was claimed and what was measured."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from zoo.bench.store import Result
from zoo.report.cell_texts import MATCHES, comparison_text, size
from zoo.report.claim_outcomes import ClaimChecker, outcome_text
from zoo.report.claims import claim_text
from zoo.report.findings import Findings
from zoo.report.grouping import by_method, order
from zoo.report.legend import introduction
from zoo.report.tables import tables
from zoo.report.verdicts import EQUAL, Comparison
from zoo.system.foreign_text import markdown
from zoo.system.table import Table, counted

HEAD = """\
# Results

Do the methods of this zoo do what was claimed of them? The claims are those of **the notes**, the unpublished lab notes in
which most of the methods were first tried; each method's card quotes them under “Claimed”. What `v1_…` to `v4_…` (Versions
1 to 4), `skip_…`, `wr_…` (weak recurrence) and `…_log` stand for: [docs/methods](docs/methods/README.md#names).

Made from `results.jsonl` by `zoo-report STORE --results RESULTS.md`; the runs behind it by `zoo-bench --suite NAME`.
"""
ON_CLAIMS = """\
- **±**: half of the 95 % interval (t) of one question alone.
- **does the claim hold?** A claim about the loss is judged by the 95 % interval of the difference to whatever it names, so
  it may hold where the verdict, which allows for all questions of the suite, is *no difference shown*. *Holds*: the
  interval lies on the claimed side, and the difference is at least the margin. *Contradicted*: it lies on the other side,
  or within ± the margin. *Open*: neither. “About”, “no better than” and “no worse than” *hold* within ± the margin and are
  *not contradicted* where the interval has zero in it. What leaks makes a claim *void*. A claim about a learned value is
  judged by its mean over the seeds, layer by layer.
- **baseline** is the plain block, also of a method with more parameters. *The same*: no width of the FFN matches better
  than the plain block as it is.

A small model and few tokens: a claim that does not hold here may hold elsewhere, and the other way round.
"""
VERDICTS = ("better", EQUAL, "no difference shown", "worse")  # what is none of these has a column of its own


def results_page(report: Findings) -> str:
    """The whole page: conditions, all verdicts at a glance, a line per method, then every table of the report."""
    checker = ClaimChecker(report)
    lines = [
        HEAD,
        headline(report),
        "",
        in_short(report).markdown(),
        tally(report, checker),
        "",
        conditions(report),
        "",
        "## Legend",
        "",
    ]
    lines += [introduction(report), ON_CLAIMS]
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for c in report.comparisons:
        groups.setdefault((c.method.first.host, c.method.plain_arm), []).append(c)
    lines += [method_table(host, of, checker).markdown() for (host, _), of in sorted(groups.items())]
    lines += [table.markdown() for table in tables(report)]
    return "\n".join(lines)


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


def headline(report: Findings) -> str:
    """The answer in two sentences: how many methods are better than the plain block, and by how much."""
    asked = [c for c in report.comparisons if c.match == "none"]
    better = sorted((c for c in asked if c.verdict == "better"), key=lambda c: c.difference.mean)
    others = Counter(c.verdict for c in asked if c.verdict != "better")
    rest = "; ".join(f"{verdict}: {count}" for verdict, count in others.most_common())
    named = ", ".join(f"{markdown(c.name)} ({c.difference.mean:+.3f})" for c in better[:10])
    more = f" and {len(better) - 10} more" if len(better) > 10 else ""
    list_of_better = f" (nats per token): {named}{more}" if better else ""
    return (
        f"{len(better)} of {counted(len(asked), 'method')} did better than the plain block{list_of_better}."
        f" Of the others, {rest}."
    )


def in_short(report: Findings) -> Table:
    """The methods by verdict, a row per suite, host and match."""
    asked: dict[tuple[str, str, str], list[Comparison]] = {}
    for c in report.comparisons:
        asked.setdefault((c.suite or "–", c.method.first.host, c.match), []).append(c)
    rows = []
    for (suite, host, match), of in sorted(asked.items(), key=lambda each: order(each[0])):
        columns = [", ".join(c.name for c in of if c.verdict == verdict) for verdict in VERDICTS]
        others = ", ".join(f"{c.name} ({c.verdict})" for c in of if c.verdict not in VERDICTS)
        rows.append((suite, host, MATCHES[match], *(names or "–" for names in (*columns, others))))
    return Table("In short", ("suite", "host", "against", *VERDICTS, "other"), tuple(rows))


def tally(report: Findings, checker: ClaimChecker) -> str:
    """The number of claims of each status."""
    methods = {arm.id: arm for arm in report.arms if arm.first.match == "method"}
    statuses = Counter(outcome.status for arm in methods.values() for outcome in checker.outcomes(arm))
    counts = ", ".join(f"*{status}* {count}" for status, count in statuses.most_common())
    return f"Of {counted(statuses.total(), 'claim')} that can be checked: {counts}." if statuses else ""


def conditions(report: Findings) -> str:
    """Size, tokens, corpus and machine of the runs, as far as they agree."""
    runs = [run for arm in report.arms for run in arm.runs]
    plain = [run for run in runs if run.match == "none"] or runs
    tokens = sorted({run.budget for run in plain})
    sizes = sorted({run.parameters for run in plain})
    entropy = sorted({round(run.unigram_entropy, 3) for run in runs if math.isfinite(run.unigram_entropy)})
    machines = sorted({name for run in runs if (name := _version(run, "machine", "processor"))})
    ran_on = f"; run on {', '.join(map(markdown, machines))}" if machines else ""
    commits = {commit for run in runs if (commit := _version(run, "git", "commit"))}
    ran_on += f", by {len(commits)} commits of the code" if len(commits) > 1 else ""
    return (
        f"{counted(len(runs), 'run')}; plain models of {_list(sizes)} parameters, trained on {_list(tokens)} tokens of"
        f" {' and '.join(sorted({markdown(corpus(run)) for run in runs}))}; unigram entropy of the validation split"
        f" {', '.join(map(str, entropy))} nats per token{ran_on}."
    )


def _version(run: Result, part: str, name: str) -> str:
    """A text in a part of a run's versions; empty where there is none."""
    versions = run.versions.get(part)
    version = versions.get(name) if isinstance(versions, dict) else None
    return version if isinstance(version, str) else ""


def corpus(run: Result) -> str:
    """The name of the run's corpus, wherever it was; of a mixture, the corpora with their weights."""
    named = run.settings.get("data.corpus", "")
    if named.startswith("{"):
        return f"the mixture {named}"
    return PurePath(named.strip("'\"")).name or f"a corpus {run.corpus[:8]}"


def _list(values: Sequence[int]) -> str:
    return " and ".join(f"{value:,}" for value in values)
