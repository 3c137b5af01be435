"""Every property that a method must have, and how one is examined."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from zoo.history import UndeclaredRead
from zoo.system.global_state import contained
from zoo.testing import (
    building,
    causality,
    combination,
    containment,
    decoding,
    document_borders,
    effect,
    gradients,
    persistence,
    purity,
    ranks,
    starting_point,
    training_steps,
)
from zoo.testing.cases import SIZES, Broken, Case, Note, Outcome, Skipped, smallest
from zoo.testing.method_under_test import Subject, where
from zoo.testing.report import Result

Probe = Callable[[Subject, Case], "Outcome | None"]


class Property(NamedTuple):
    """Something that must hold in every case; where it breaks, smaller cases are tried along some of the sizes."""

    name: str
    claim: str
    probe: Probe
    cases: tuple[Case, ...]
    along: tuple[str, ...] = SIZES
    declaration: str | None = None  # the attribute with which a method says that it does not hold
    thorough: bool = False  # too slow for every day


# What explains most comes first: in-place changes break gradients, and a method without effect gets none.
PROPERTIES = (
    Property("builds", "builds at every size, in both hosts, and answers", building.builds, building.SIZES),
    Property("pure", "changes nothing that it is given", purity.pure, purity.PURE),
    Property(
        "contained", "leaves alone what the whole process shares", containment.leaves_alone, containment.CONTAINED, ()
    ),
    Property("effect", "computes something else than the plain block", effect.effect, effect.EFFECT, ()),
    Property("gradients", "a gradient reaches every parameter", gradients.reach, gradients.REACH, ("depth", "batch")),
    Property("settings", "works with every value of its settings", building.settings, (Case(2, 5, 2),)),
    Property("types", "works in float32, float64, bfloat16 and under autocast", building.types, building.TYPES),
    Property("limits", "longer inputs than max_length work, or are refused", building.limits, building.LIMITS, ()),
    Property("causal", "position t never sees t+1…", causality.causal, causality.CAUSAL, declaration="causal"),
    Property("rows", "rows of a batch do not see each other", causality.rows, causality.ROWS),
    Property("documents", "documents in rows of their own do not see each other", document_borders.apart, document_borders.APART),
    Property("cached", "decoding with a state gives what the whole pass gives", decoding.cached, decoding.CACHED),
    Property(
        "derivative", "the gradient is the derivative", gradients.derivative, gradients.DERIVATIVE,
        declaration="exact_gradient",
    ),
    Property(
        "deterministic", "an evaluation is free of randomness", purity.deterministic, purity.DETERMINISTIC,
        declaration="deterministic",
    ),
    Property("layout", "takes tensors that are not contiguous", purity.layout, purity.LAYOUT),
    Property("start", "starts as it declares", starting_point.starts, persistence.STARTS),
    Property(
        "upcycled", "starts as it declares beside trained weights too", starting_point.starts_beside_trained,
        persistence.UPCYCLED,
    ),
    Property("saved", "saved and loaded, it is the same", persistence.saved, persistence.SAVED),
    Property("moved", "copied or moved to another type or device, it works", persistence.moved, persistence.MOVED),
    Property(
        "checkpointed", "the same with activation checkpointing", gradients.checkpointed, gradients.CHECKPOINTED
    ),
    Property("compiled", "the same when traced by torch.compile", gradients.compiled, gradients.COMPILED, ()),
    Property(
        "compiled fully", "the same as compiled code", gradients.compiled_fully, gradients.COMPILED_FULLY, (),
        thorough=True,
    ),
    Property("ranks", "the same on two ranks, with all weights or parts of them", ranks.ranks, ranks.RANKS, ()),
    Property("trains", "a few steps of training stay finite", training_steps.trains, combination.TRAINS, ("depth", "batch")),
    Property("combined", "works with methods of the other slots", combination.combined, combination.COMBINED, ("depth",)),
)  # fmt: skip


def examine(subject: Subject, property: Property) -> Result:
    """Look at every case; report the smallest in which the property breaks."""
    began = time.perf_counter()
    outcome: Outcome | None = None
    notes: list[str] = []
    broken: tuple[Case, Broken] | None = None
    with contained():  # what a method changes must not decide on the next property
        for case in property.cases:
            outcome = attempt(property.probe, subject, case)
            if isinstance(outcome, Broken):
                broken = smallest(case, outcome, property.along, lambda each: attempt(property.probe, subject, each))
                break
            if isinstance(outcome, Note) and outcome not in notes:
                notes.append(outcome)

    def result(status: str, words: str = "", case: Case | None = None) -> Result:
        seconds = time.perf_counter() - began
        return Result(property.name, property.claim, status, words, str(case or ""), seconds)  # type: ignore[arg-type]

    if broken:
        return result("declared" if _declares(subject, property) else "failed", broken[1], broken[0])
    if _declares(subject, property):
        return result("failed", f"it declares {property.declaration} = False, but nothing of the sort was found")
    if isinstance(outcome, Skipped) and not notes:
        return result("skipped", outcome)
    return result("ok", "; ".join(notes))


def _declares(subject: Subject, property: Property) -> bool:
    """Whether the method says of itself that the property does not hold."""
    try:
        return property.declaration is not None and not getattr(subject.declared, property.declaration, True)
    except Exception:  # it cannot even be built
        return False


def attempt(probe: Probe, subject: Subject, case: Case) -> Outcome | None:
    """What the probe answers; an error is something broken too."""
    try:
        return probe(subject, case)
    except Exception as error:
        return Broken(in_words(error))


LONGEST = 300  # characters of an error: torch's own may go on for paragraphs


def in_words(error: Exception) -> str:
    message = str(error).strip()
    if isinstance(error, UndeclaredRead):
        return f"{message} ({where(error)})"
    if isinstance(error, RuntimeError):
        message = shorten(message.split("\n")[0], LONGEST)
    return f"it fails with {type(error).__name__}: {message} ({where(error)})"


def shorten(text: str, longest: int) -> str:
    """The beginning of a text, up to a word's end."""
    return text if len(text) <= longest else f"{text[:longest].rpartition(' ')[0]} …"
