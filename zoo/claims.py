"""What the cards claim of their methods, and whether results bear it out."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from zoo import plugins
from zoo.errors import ZooError
from zoo.report import Report
from zoo.stats import Paired, paired
from zoo.verdict import ArmResults, difference, fair, leaks

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


class Outcome(NamedTuple):
    """How one thing stands that is claimed."""

    relation: str
    what: str  # it is a relation to; may be empty
    found: str  # holds, contradicted, open, …


def told(outcomes: Sequence[Outcome]) -> str:
    """In words; what was found alike is named together."""
    together: dict[tuple[str, str], list[str]] = {}
    for relation, what, found in outcomes:
        together.setdefault((relation, found), []).append(what)
    return "; ".join(
        f"{relation} {', '.join(names)}".rstrip() + f": **{found}**" for (relation, found), names in together.items()
    )


def checked(method: ArmResults, report: Report) -> list[Outcome]:
    """How everything stands that is claimed of a method."""
    outcomes = []
    others = {a.first.name: a for a in report.arms if a.first.match == "method" and a.place == method.place}
    others |= {a.first.name: a for a in report.arms if a.id == method.place}  # "baseline"
    for claim in claims(method.first.name):
        if isinstance(claim, Ends):
            outcomes += ends(method, claim)
        elif claim.relation == "diverges":
            outcomes.append(Outcome("diverges", "", diverges(method)))
        else:
            outcomes += [
                Outcome(claim.relation, name, stands(claim.relation, method, others.get(name))) for name in claim.others
            ]
    return outcomes


def diverges(method: ArmResults) -> str:
    """Whether a claim to do so holds. That it does not within some steps does not contradict it."""
    if not method.diverged:
        return f"not seen in {max(run.steps for run in method.runs):,} steps"
    return "holds" if method.diverged == len(method.runs) else f"in {method.diverged} of {len(method.runs)} seeds"


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


def ends(method: ArmResults, claim: Ends) -> list[Outcome]:
    """How a claim on what is learned stands, layer by layer, with the mean of each over the seeds."""
    runs = [run.probes.get(claim.probe, {}) for run in method.finished]
    layers = sorted({int(layer) for run in runs for layer in run})
    found = []
    for layer in layers[: (len(layers) + 1) // 2] if claim.early else layers:
        values = [_mean(run[str(layer)]) for run in runs if str(layer) in run]
        bound = paired(values, [claim.bound] * len(values))
        found.append(Outcome(f"{claim} in layer", f"{layer} ({_mean(values):.2f})", holds(claim.side, bound)))
    return found or [Outcome(str(claim), "", "not measured")]


def _mean(value: float | Sequence[float]) -> float:
    return value if isinstance(value, float | int) else statistics.fmean(value)
