"""A method works together with methods of the other slots."""

from __future__ import annotations

import dataclasses
import random
from itertools import islice
from typing import NamedTuple

from zoo.errors import ConfigError
from zoo.extension import called
from zoo.plugins.registry import Registry, installed
from zoo.slots import SLOTS
from zoo.testing import causality, decoding
from zoo.testing.cases import Broken, Case, Note, Outcome, Skipped, hosts
from zoo.testing.method_under_test import Factory, Subject
from zoo.testing.training_steps import trains

OURS = "transformer-zoo"  # the distribution that partners are drawn from

TRAINS = hosts(Case(2, 6, 2, dtype="float32", training=True))


COMBINED = (Case(2, 4, 2),)


class Partner(NamedTuple):
    slot: str
    id: str
    factory: Factory


def combined(subject: Subject, case: Case) -> Outcome | None:
    """With methods of the other slots it trains, is causal and decodes; or the combination is refused with a reason."""
    notes: list[str] = []
    for number, chosen in enumerate(partners(subject)):
        others = {partner.slot: called(partner.id, partner.factory) for partner in chosen}
        together = dataclasses.replace(subject, others={**subject.others, **others})
        names = " and ".join(partner.id for partner in chosen)
        try:
            outcome = examine(together, case.but(parallel=number % 2 == 1))
        except ConfigError as refusal:
            notes.append(f"{names} (refused: {refusal})")
            continue
        if outcome:
            return Broken(f"together with {names}: {outcome}")
        notes.append(names)
    return Note(f"with {', '.join(notes)}") if notes else Skipped("there are no methods of other slots")


def examine(subject: Subject, case: Case) -> Broken | None:
    """The short examination of a combination. A ConfigError is a refusal."""
    built = subject.build(case, fresh=True)
    causal = all(extension.causal for extension in built.extensions())
    decodes = all(extension.decodes for extension in built.extensions())
    probes = [lambda: trains(subject, case.but(dtype="float32", training=True))]
    if causal:
        probes.append(lambda: causality.causal(subject, case))
    if decodes:
        probes.append(lambda: decoding.cached(subject, case))
    for probe in probes:
        outcome = probe()
        if isinstance(outcome, Broken):
            return outcome
    return None


def partners(subject: Subject) -> list[tuple[Partner, ...]]:
    """A method of each other slot, and two together: drawn from the zoo's own by the method's name."""
    registry = installed()
    draw = random.Random(f"{subject.slot}.{subject.id}")
    drawn: list[list[Partner]] = []
    for slot in SLOTS:
        if slot != subject.slot and slot not in subject.others:
            ids = [entry.id for entry in registry.entries if entry.slot == slot and entry.distribution == OURS]
            sound = (_sound(registry, slot, id) for id in draw.sample(ids, len(ids)))
            drawn.append(list(islice(filter(None, sound), 2)))
    chosen: list[tuple[Partner, ...]] = [(methods[0],) for methods in drawn if methods]
    if len(chosen) > 1:
        chosen.append(tuple(methods[-1] for methods in drawn if methods))
    return chosen


def _sound(registry: Registry, slot: str, id: str) -> Partner | None:
    """The method, if it can be used, is whole, causal and deterministic: a failure is then not its fault."""
    if len(registry.claims(id)) > 1:
        return None
    factory = registry.get(slot, id).factory
    assert factory is not None
    declared = Subject(id, slot, factory).declared
    return Partner(slot, id, factory) if declared.causal and declared.deterministic else None
