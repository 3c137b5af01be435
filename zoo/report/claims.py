"""What the cards claim of their methods, as far as it can be checked."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from zoo.catalogue.cards import Card, card_of
from zoo.errors import ZooError
from zoo.plugins.finder import MethodEntry, find_methods

RELATIONS = ("better than", "worse than", "about", "no better than", "no worse than")
COMBINED = re.compile(r"with (\S+) (.+)")
PROBE = re.compile(r"(\w+) ends (below|above) (-?\d+(?:\.\d+)?)( in early layers)?")


class Claim(NamedTuple):
    """A claim that a method is better than others, worse, about as good; or that it diverges."""

    relation: str
    others: tuple[str, ...]


class ProbeClaim(NamedTuple):
    """A claim that a probe ends below or above a bound."""

    probe: str
    side: str  # below or above
    bound: float
    early: bool  # in the first half of the layers

    def __str__(self) -> str:
        return f"{self.probe} ends {self.side} {self.bound:g}"


def claim_text(name: str) -> str:
    """What a method's card says was claimed; of a combination, of each part."""
    cards = [card for id in name.split("+") if (card := card_named(id))]
    return " · ".join(card.claim for card in cards if card.claim) or "–"


def claims(name: str) -> list[Claim | ProbeClaim]:
    """The part of a card's claim that can be checked: "Checked as: worse than baseline; better than ONE, OTHER."

    Of a combination, what a card claims of the method combined with the others: "with OTHER better than baseline".
    """
    parts = sorted(name.split("+"))
    return [claim for id in parts for partners, claim in clauses(id) if sorted([id, *partners]) == parts]


def clauses(id: str) -> list[tuple[list[str], Claim | ProbeClaim]]:
    """Every claim of a method's card that can be checked, with the methods that it is then combined with."""
    card = card_named(id)
    parsed = []
    for clause in card.checks if card else ():
        combined = COMBINED.fullmatch(clause)
        partners, alone = (combined[1].split("+"), combined[2]) if combined else ([], clause)
        parsed.append((partners, _parsed(id, alone)))
    return parsed


def _parsed(id: str, clause: str) -> Claim | ProbeClaim:
    if match := PROBE.fullmatch(clause):
        return ProbeClaim(probe=match[1], side=match[2], bound=float(match[3]), early=bool(match[4]))
    relation = next((r for r in RELATIONS if clause.startswith(f"{r} ")), None)
    if relation is None and clause != "diverges":
        raise ZooError(
            f"the card of {id} is checked as {clause!r}: write one of {', '.join(RELATIONS)} some methods, diverges,"
            " or PROBE ends below (or above) NUMBER (in early layers)"
        )
    return Claim(relation or clause, tuple(clause[len(relation or clause) :].strip().split(", ")))


def card_named(id: str) -> Card | None:
    """The card of an installed method; of several methods with this id, the first that has one."""
    return next((card for entry in _installed().get(id, ()) if (card := _card(entry))), None)


@functools.cache
def _installed() -> dict[str, list[MethodEntry]]:
    """The installed methods by id: a store has more names than there are methods, and finding them takes a while."""
    entries: dict[str, list[MethodEntry]] = {}
    for entry in find_methods():
        entries.setdefault(entry.id, []).append(entry)
    return entries


@functools.cache
def _card(entry: MethodEntry) -> Card | None:
    return card_of(entry)
