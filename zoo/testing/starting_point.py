"""A method starts where it says it does."""

from __future__ import annotations

from zoo.plugins.registry import installed
from zoo.testing.cases import Broken, Case, Outcome, Skipped
from zoo.testing.method_under_test import Subject, assemble, difference, look, tokens

BASELINE = "baseline"


def starts(subject: Subject, case: Case) -> Outcome | None:
    """Freshly built, it computes what the method does that it declares to start as."""
    origin = subject.starts_as
    if origin is None:
        return Skipped("it declares no starting point")
    if subject.settings:
        return Skipped(f"it declares to start as {origin} with its default settings, and these are others")
    factory = None if origin == BASELINE else installed().get(subject.slot, origin).factory
    other = assemble(case, {subject.slot: factory} if factory else {}, fresh=True)
    apart = difference(look(subject.build(case, fresh=True), tokens(case)), look(other, tokens(case)))
    if apart > 1e-6:  # a start such as √d is rounded to float32
        return Broken(f"it declares to start as {origin} and does not: the logits differ by {apart:.1e}")
    return None
