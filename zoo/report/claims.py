"""What the cards claim of their methods, as far as it can be checked."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from zoo.catalogue.cards import Card, card_of
from zoo.errors import ZooError
from zoo.plugins.finder import MethodEntry, find_methods

RELATIONS = ("better than", "worse than", "about", "no better than", "no worse than")
SLOWER = "slower than"  # of the evaluation
QUANTITIES = ("accuracy", "evaluation")  # what a clause may begin with that is not about the loss
COMBINED = re.compile(r"with (\S+) (.+)")
PROBE = re.compile(r"([\w.]+) ends (below|above) (-?\d+(?:\.\d+)?)(?: in (early|late) layers)?")
CONDITIONED = re.compile(r"(.+?)(?: at ([^;]+? = [^;]+?))?(?: (after|within) (\d+) steps)?")


class Conditions(NamedTuple):
    """What must be so for a claim to be checked: it was made of this host, these settings, runs of this length."""

    host: str = ""  # empty: any
    settings: tuple[tuple[str, str], ...] = ()  # of the method: name and value, as Gin writes it
    least_steps: int = 0
    most_steps: int | None = None


class Claim(NamedTuple):
    """A claim that a method is better than others, worse, about as good; or that it diverges."""

    relation: str
    others: tuple[str, ...]
    quantity: str = "loss"  # or one of QUANTITIES
    conditions: Conditions = Conditions()

    @property
    def text(self) -> str:
        """The relation with the quantity that it is about, as a card has it."""
        return self.relation if self.quantity == "loss" else f"{self.quantity} {self.relation}"


class ProbeClaim(NamedTuple):
    """A claim that a probe ends below or above a bound."""

    probe: str
    side: str  # below or above
    bound: float
    layers: str = ""  # early: the first half; late: the second
    conditions: Conditions = Conditions()

    def __str__(self) -> str:
        return f"{self.probe} ends {self.side} {self.bound:g}"

    def among(self, layers: list[int]) -> list[int]:
        """The layers that it is about, of all that there are; a middle one is early."""
        half = (len(layers) + 1) // 2
        return {"": layers, "early": layers[:half], "late": layers[half:]}[self.layers]


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
        assert card is not None
        combined = COMBINED.fullmatch(clause)
        partners, alone = (combined[1].split("+"), combined[2]) if combined else ([], clause)
        parsed.append((partners, _parsed(id, alone, card.checked_host)))
    return parsed


def _parsed(id: str, clause: str, host: str) -> Claim | ProbeClaim:
    match = CONDITIONED.fullmatch(clause)
    assert match is not None, "a clause is not empty"
    body, settings, when, steps = match.groups()
    conditions = Conditions(
        host=host,
        settings=_settings(settings or ""),
        least_steps=int(steps) if when == "after" else 0,
        most_steps=int(steps) if when == "within" else None,
    )
    if probe := PROBE.fullmatch(body):
        return ProbeClaim(probe[1], probe[2], float(probe[3]), probe[4] or "", conditions)
    if body == "diverges":
        return Claim(body, ("",), conditions=conditions)
    quantity = next((each for each in QUANTITIES if body.startswith(f"{each} ")), "loss")
    rest = body if quantity == "loss" else body.removeprefix(f"{quantity} ")
    known = (SLOWER,) if quantity == "evaluation" else RELATIONS
    relation = next((each for each in known if rest.startswith(f"{each} ")), None)
    if relation is None:
        raise ZooError(
            f"the card of {id} is checked as {clause!r}: write one of {', '.join(RELATIONS)} some methods, before it"
            " accuracy if that is meant, or evaluation slower than some methods, diverges, PROBE ends below (or above)"
            " NUMBER (in early layers, or late); behind any of them at NAME = VALUE, after (or within) NUMBER steps"
        )
    return Claim(relation, tuple(rest.removeprefix(relation).strip().split(", ")), quantity, conditions)


def _settings(text: str) -> tuple[tuple[str, str], ...]:
    """Name and value of each of "n = 2 and norm = True"."""
    pairs = [pair.partition(" = ") for pair in text.split(" and ") if pair]
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


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
