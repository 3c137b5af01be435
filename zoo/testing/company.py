"""A method among others: it trains, and works together with methods of the other slots."""

from __future__ import annotations

import dataclasses
import random
from itertools import islice
from typing import NamedTuple

import torch

from zoo import plugins
from zoo.errors import ConfigError
from zoo.model import parameter_groups
from zoo.plugins import SLOTS
from zoo.testing import decoding, sight
from zoo.testing.case import Broken, Case, Note, Skipped, Told, hosts
from zoo.testing.subject import Factory, Subject, seeded, tokens

OURS = "transformer-zoo"  # the distribution whose methods keep others company

TRAINS = hosts(Case(2, 6, 2, dtype="float32", training=True))


def trains(subject: Subject, case: Case, steps: int = 3) -> Told | None:
    """A few steps of the optimiser leave the loss, the gradients and all parameters finite."""
    built = subject.build(case, fresh=True)
    optimizer = torch.optim.AdamW(parameter_groups(built, 1e-2, 0.1))
    for step in range(steps):
        inputs = tokens(case.but(length=case.length + 1), step)
        with seeded(step):
            loss = built.loss(inputs[:, :-1], inputs[:, 1:])
        if not loss.isfinite():
            return Broken(f"the loss is not finite in step {step + 1}")
        loss.backward()
        for name, parameter in built.named_parameters():
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                return Broken(f"the gradient of {name} is not finite in step {step + 1}")
        optimizer.step()
        optimizer.zero_grad()
    for name, parameter in built.named_parameters():
        if not parameter.isfinite().all():
            return Broken(f"{name} is not finite after {steps} steps")
    return None


COMBINED = (Case(2, 4, 2),)


class Partner(NamedTuple):
    slot: str
    id: str
    factory: Factory


def combined(subject: Subject, case: Case) -> Told | None:
    """With methods of the other slots it trains, is causal and decodes; or the combination is refused with a reason."""
    notes: list[str] = []
    for number, company in enumerate(partners(subject)):
        together = dataclasses.replace(subject, others={partner.slot: partner.factory for partner in company})
        names = " and ".join(partner.id for partner in company)
        try:
            told = examine(together, case.but(parallel=number % 2 == 1))
        except ConfigError as refusal:
            notes.append(f"{names} (refused: {refusal})")
            continue
        if told:
            return Broken(f"together with {names}: {told}")
        notes.append(names)
    return Note(f"with {', '.join(notes)}") if notes else Skipped("there are no methods of other slots")


def examine(subject: Subject, case: Case) -> Broken | None:
    """The short examination of a combination. A ConfigError is a refusal."""
    built = subject.build(case, fresh=True)
    causal = all(extension.causal for extension in built.extensions())
    decodes = all(extension.decodes for extension in built.extensions())
    probes = [lambda: trains(subject, case.but(dtype="float32", training=True))]
    if causal:
        probes.append(lambda: sight.causal(subject, case))
    if decodes:
        probes.append(lambda: decoding.cached(subject, case))
    for probe in probes:
        told = probe()
        if isinstance(told, Broken):
            return told
    return None


def partners(subject: Subject) -> list[tuple[Partner, ...]]:
    """A method of each other slot, and two together: drawn from the zoo's own by the method's name."""
    registry = plugins.registry()
    draw = random.Random(f"{subject.slot}.{subject.id}")
    drawn: list[list[Partner]] = []
    for slot in SLOTS:
        if slot != subject.slot:
            ids = [found.id for found in registry.found if found.slot == slot and found.distribution == OURS]
            sound = (_sound(registry, slot, id) for id in draw.sample(ids, len(ids)))
            drawn.append(list(islice(filter(None, sound), 2)))
    chosen: list[tuple[Partner, ...]] = [(methods[0],) for methods in drawn if methods]
    if len(chosen) > 1:
        chosen.append(tuple(methods[-1] for methods in drawn if methods))
    return chosen


def _sound(registry: plugins.Registry, slot: str, id: str) -> Partner | None:
    """The method, if it can be used, is causal and deterministic: company that is not at fault."""
    if registry.conflict(id):
        return None
    factory = registry.get(slot, id).factory
    assert factory is not None
    declared = Subject(id, slot, factory).declared
    return Partner(slot, id, factory) if declared.causal and declared.deterministic else None
