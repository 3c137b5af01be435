"""RESULTS.md: for each method what was claimed, what was measured, and whether the claim holds at this scale."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from zoo import plugins
from zoo.errors import ZooError
from zoo.report import INTRODUCTION, MATCHES, Report, caveats, number, size
from zoo.stats import Paired, paired
from zoo.verdict import ArmResults, Comparison, difference, fair, leaks

HEAD = """\
# Results

Made from `results.jsonl` by `zoo-report STORE --results RESULTS.md`; the runs behind it by `zoo-bench --suite NAME`.
"""
ON_CLAIMS = """\
Whether a claim holds is told by the 95 % interval of the paired difference from what the claim names, each on its own:
*holds* when the interval lies on the claimed side, *contradicted* when it lies on the other, *open* when it has zero in it.
Where no width of FFN matches better, the plain block is matched as it is (“the same”). A small model and few tokens: a
claim that does not hold here may hold elsewhere, and the other way round.
"""

RELATIONS = ("better than", "worse than", "about", "no better than", "no worse than")
CHECKED = re.compile(r"\s*Checked as: (.+?)\.\s*$")
TOGETHER = re.compile(r"with (\S+) (.+)")
ENDS = re.compile(r"(\w+) ends (below|above) (-?\d+(?:\.\d+)?)( in early layers)?")


class Claim(NamedTuple):
    """What a card says can be checked: how a method stands to others, or that it diverges."""

    relation: str
    others: tuple[str, ...]


class Ends(NamedTuple):
    """… or where what it learns comes to lie."""

    probe: str
    side: str  # below or above
    bound: float
    early: bool  # in the first half of the layers

    def __str__(self) -> str:
        return f"{self.probe} ends {self.side} {self.bound:g}"


def claim(name: str) -> str:
    """What a method's card says was claimed; of a combination, of each part."""
    told = [CHECKED.sub("", text) for text in map(_section, name.split("+"))]
    return " · ".join(text for text in told if text) or "–"


def _section(id: str) -> str:
    for candidate in plugins.find():
        card = plugins.card(candidate) if candidate.id == id else None
        if card is not None:
            section = re.search(r"^## Claimed\n+(.*?)(?=^## |\Z)", card.read_text(encoding="utf-8"), re.M | re.S)
            return " ".join(section[1].split()) if section else ""
    return ""


def claims(name: str) -> list[Claim | Ends]:
    """The part of a card's claim that can be checked: "Checked as: worse than baseline; better than ONE, OTHER."

    Of a combination, what a card says of the method in that company: "with OTHER better than baseline".
    """
    parts = sorted(name.split("+"))
    return [claim for id in parts for company, claim in clauses(id) if sorted([id, *company]) == parts]


def clauses(id: str) -> list[tuple[list[str], Claim | Ends]]:
    """All that a method's card can be checked for: the methods that it is then together with, and what is claimed."""
    found, made = CHECKED.search(_section(id)), []
    for clause in found[1].split("; ") if found else ():
        together = TOGETHER.fullmatch(clause)
        company, alone = (together[1].split("+"), together[2]) if together else ([], clause)
        made.append((company, _parsed(id, alone)))
    return made


def _parsed(id: str, clause: str) -> Claim | Ends:
    if ends := ENDS.fullmatch(clause):
        return Ends(ends[1], ends[2], float(ends[3]), early=bool(ends[4]))
    relation = next((r for r in RELATIONS if clause.startswith(f"{r} ")), None)
    if relation is None and clause != "diverges":
        raise ZooError(
            f"the card of {id} is checked as {clause!r}: write one of {', '.join(RELATIONS)} some methods, diverges,"
            " or PROBE ends below (or above) NUMBER (in early layers)"
        )
    return Claim(relation or clause, tuple(clause[len(relation or clause) :].strip().split(", ")))


def holds(relation: str, found: Paired) -> str:
    """Whether a paired difference bears a claim out."""
    if found.n < 2 or math.isnan(found.low):
        return "open"
    side = -1 if found.high < 0 else 1 if found.low > 0 else 0  # below zero: better
    if relation == "about":
        return "contradicted" if side else "not contradicted"
    wanted = -1 if relation in ("better than", "no worse than", "below") else 1
    if side == wanted:
        return "holds"
    if side:
        return "contradicted"
    return "not contradicted" if relation.startswith("no ") else "open"


def checked(method: ArmResults, report: Report) -> str:
    """How every clause of a method's claim stands."""
    told = []
    others = {a.first.name: a for a in report.arms if a.first.match == "method" and a.place == method.place}
    others |= {a.first.name: a for a in report.arms if a.id == method.place}  # "baseline"
    for claim in claims(method.first.name):
        if isinstance(claim, Ends):
            told += ends(method, claim)
            continue
        relation, names = claim
        if relation == "diverges":
            told.append(f"diverges: **{diverges(method)}**")
            continue
        outcomes: dict[str, list[str]] = {}
        for name in names:
            outcomes.setdefault(stands(relation, method, others.get(name)), []).append(name)
        told += [f"{relation} {', '.join(names)}: **{outcome}**" for outcome, names in outcomes.items()]
    return "; ".join(told) or "–"


def diverges(method: ArmResults) -> str:
    """Whether a claim to do so holds."""
    if 0 < method.diverged < len(method.runs):
        return f"in {method.diverged} of {len(method.runs)} seeds"
    return "holds" if method.diverged else "contradicted"


def stands(relation: str, method: ArmResults, other: ArmResults | None) -> str:
    """How a claim on two arms stands. What diverges is worse than what does not, whatever its other seeds say."""
    pair = fair(method, other) if other else None
    if pair is None:
        return "not measured"
    if any(leaks(arm) for arm in pair):
        return "void, as it leaks"
    ours, theirs = pair
    if theirs.diverged:
        return "void, as that diverges"
    if ours.diverged:
        return "holds" if relation in ("worse than", "no better than") else "contradicted"
    return holds(relation, difference(ours, theirs))


def ends(method: ArmResults, claim: Ends) -> list[str]:
    """How a claim on what is learned stands, layer by layer, with the mean of each over the seeds."""
    runs = [run.probes.get(claim.probe, {}) for run in method.finished]
    layers = sorted({int(layer) for run in runs for layer in run})
    outcomes: dict[str, list[str]] = {}
    for layer in layers[: (len(layers) + 1) // 2] if claim.early else layers:
        values = [_mean(run[str(layer)]) for run in runs if str(layer) in run]
        found = paired(values, [claim.bound] * len(values))
        outcomes.setdefault(holds(claim.side, found), []).append(f"{layer} ({_mean(values):.2f})")
    if not outcomes:
        return [f"{claim}: **not measured**"]
    return [f"{claim} in layer {', '.join(where)}: **{outcome}**" for outcome, where in outcomes.items()]


def _mean(value: float | Sequence[float]) -> float:
    return value if isinstance(value, float | int) else statistics.fmean(value)


def results_page(report: Report) -> str:
    """The whole page: conditions, a line for each method, then every table of the report."""
    lines = [HEAD, INTRODUCTION, "", ON_CLAIMS, conditions(report), ""]
    places: dict[tuple[str, str], list[Comparison]] = {}
    for c in report.comparisons:
        places.setdefault((c.method.first.host, c.method.place), []).append(c)
    for (host, _), here in sorted(places.items()):
        lines += [f"## {host.capitalize()} host{size(here[0].plain)}", ""]
        matches = [match for match in MATCHES if any(c.match == match for c in here)]
        lines += [
            f"| method | claimed | {' | '.join(f'against {MATCHES[m]}' for m in matches)} | does the claim hold? |"
        ]
        lines += ["|---|---|" + "---|" * (len(matches) + 1)]
        methods: dict[str, list[Comparison]] = {}
        for c in here:
            methods.setdefault(c.method.id, []).append(c)
        for found in methods.values():
            method = found[0].method
            cells = [_cell(found, match) for match in matches]
            cells = [claim(method.first.name).replace("|", "/"), *cells, checked(method, report)]
            lines.append(f"| {method.first.name} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += [table.markdown() for table in report.tables()]
    return "\n".join(lines)


def _cell(found: Sequence[Comparison], match: str) -> str:
    for c in found:
        if c.match == match:
            reach = number((c.difference.high - c.difference.low) / 2, ".3f")
            mean = number(c.difference.mean, "+.3f")
            shown = f"n {c.difference.n}{caveats(c)}, could show {number(c.detectable, '.3f')}"
            return f"**{c.verdict}**: {mean} ± {reach} ({shown})"
    method, plain = found[0].method, found[0].plain
    if plain is None or method.baselines.get(match) != plain.id:
        return "–"
    off = plain.spent.off_by(method.spent, match)
    return f"the same, off by {off:+.3%}" if off else "the same"


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
