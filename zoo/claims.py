"""RESULTS.md: for each method what was claimed, what was measured, and whether the claim holds at this scale."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from zoo import plugins
from zoo.report import MATCHES, Report, number
from zoo.verdict import Comparison

INTRODUCTION = """\
# Results

Made from `results.jsonl` by `zoo-report STORE --results RESULTS.md`; the runs behind it by `zoo-bench --suite NAME`.
Losses are nats a token on the test split; a difference is method − baseline over paired seeds, so negative is better.
A verdict asks for p < 0.05 after Holm's correction over the methods of a suite; “could show” is the smallest true
difference that these seeds would have shown four times of five. A small model and few tokens: a claim that does not hold
here may hold elsewhere, and the other way round.
"""


def claim(name: str) -> str:
    """What a method's card says was claimed; of a combination, of each part."""
    found = []
    for part in name.split("+"):
        for candidate in plugins.find():
            card = plugins.card(candidate) if candidate.id == part else None
            if card is not None:
                section = re.search(r"^## Claimed\n+(.*?)(?=^## |\Z)", card.read_text(encoding="utf-8"), re.M | re.S)
                found.append(" ".join(section[1].split()) if section else "")
    return " · ".join(text for text in found if text) or "–"


def results_page(report: Report) -> str:
    """The whole page: conditions, a line for each method, then every table of the report."""
    lines = [INTRODUCTION, conditions(report), ""]
    hosts = sorted({c.method.first.host for c in report.comparisons})
    for host in hosts:
        lines += [f"## {host.capitalize()} host", ""]
        lines += ["| method | claimed | " + " | ".join(f"against {MATCHES[m]}" for m in _matches(report, host)) + " |"]
        lines += ["|---|---|" + "---|" * len(_matches(report, host))]
        by_name: dict[str, list[Comparison]] = {}
        for comparison in report.comparisons:
            if comparison.method.first.host == host:
                by_name.setdefault(comparison.name, []).append(comparison)
        for name, found in by_name.items():
            cells = [_cell(found, match) for match in _matches(report, host)]
            lines.append(f"| {name} | {claim(name).replace('|', '/')} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [table.markdown() for table in report.tables()]
    return "\n".join(lines)


def _matches(report: Report, host: str) -> list[str]:
    present = {c.match for c in report.comparisons if c.method.first.host == host}
    return [match for match in MATCHES if match in present]


def _cell(found: Sequence[Comparison], match: str) -> str:
    for c in found:
        if c.match == match:
            reach = number((c.difference.high - c.difference.low) / 2, ".3f")
            mean = number(c.difference.mean, "+.3f")
            return f"**{c.verdict}**: {mean} ± {reach} (n {c.difference.n}, could show {number(c.difference.detectable, '.3f')})"
    return "–"


def conditions(report: Report) -> str:
    """Size, tokens, corpus and machine of the runs, as far as they agree."""
    runs = [run for arm in report.arms for run in arm.runs]
    plain = [run for run in runs if run.match == "none"] or runs
    tokens = sorted({run.tokens for run in plain})
    sizes = sorted({run.parameters for run in plain})
    entropy = sorted({round(run.unigram_entropy, 3) for run in runs if math.isfinite(run.unigram_entropy)})
    return (
        f"{len(runs)} runs; plain models of {_list(sizes)} parameters, trained on {_list(tokens)} tokens;"
        f" unigram entropy of the validation split {', '.join(map(str, entropy))} nats a token."
    )


def _list(values: Sequence[int]) -> str:
    return " and ".join(f"{value:,}" for value in values)
