"""A method leaves alone what the whole process shares: when it is imported, when it is built, and in a pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from torch import Tensor

from zoo.system.global_state import OF_A_PASS, OF_THE_PROCESS, contained
from zoo.testing.cases import Broken, Case, Outcome, Skipped, hosts
from zoo.testing.decoding import decode
from zoo.testing.method_under_test import Subject, assemble, look, run, tokens

CONTAINED = hosts(Case(2, 4, 2))
PARTS = {
    **OF_A_PASS,
    **OF_THE_PROCESS,
}  # random states: a training pass may draw, for an evaluation see `deterministic`
SET_BACK = "; it is set back"


def leaves_alone(subject: Subject, case: Case) -> Outcome | None:
    """Torch's defaults and flags, random states, warnings, signals, the environment and the like stay as they were."""
    if subject.changed:
        return Broken(f"importing it changes {' and '.join(subject.changed)}")
    inputs = tokens(case)
    for training in (False, True):  # what torch imports and sets in its first pass is not the method's doing
        run(assemble(case.but(training=training), {}), inputs).sum().backward()
    try:
        built, trained = subject.build(case), subject.build(case.but(training=True))
    except Exception as error:
        return Skipped(f"it cannot be built: {error}")
    if built.notes:
        return Broken(built.notes[0].removesuffix(SET_BACK))
    logits: list[Tensor] = []
    passes: dict[str, Callable[[], object]] = {
        "a pass in evaluation": lambda: look(built, inputs),
        "a pass in training": lambda: logits.append(run(trained, inputs)),
        "its backward pass": lambda: logits[0].sum().backward(),
        "decoding": lambda: decode(built, inputs, [1] * case.length),
    }
    sentences = []
    for name, each in passes.items():
        with contained(PARTS) as changed, contextlib.suppress(Exception):  # what fails there, other properties tell
            each()
        if changed:
            sentences.append(f"{name} changes {' and '.join(changed)}")
    return Broken("; ".join(sentences)) if sentences else None
