"""A method starts where it says it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from zoo.model.language_model import LanguageModel
from zoo.plugins.registry import installed
from zoo.testing.cases import Broken, Case, Outcome, Skipped
from zoo.testing.method_under_test import Subject, assemble, difference, look, tokens

BASELINE = "baseline"


def starts(subject: Subject, case: Case) -> Outcome | None:
    """Freshly built, it computes what the method does that it declares to start as."""
    return _compared(subject, case, lambda built: None, "")


def starts_beside_trained(subject: Subject, case: Case) -> Outcome | None:
    """The same where the core's weights are those of a trained model, as with `model.start_from`."""
    trained = assemble(case, {}).state_dict()
    return _compared(subject, case, lambda built: _load(built, trained), " beside trained weights")


def _compared(
    subject: Subject, case: Case, prepare: Callable[[LanguageModel], None], circumstance: str
) -> Outcome | None:
    origin = subject.starts_as
    if origin is None:
        return Skipped("it declares no starting point")
    if subject.settings:
        return Skipped(f"it declares to start as {origin} with its default settings, and these are others")
    factory = None if origin == BASELINE else installed().get(subject.slot, origin).factory
    other = assemble(case, {subject.slot: factory} if factory else {}, fresh=True)
    own = subject.build(case, fresh=True)
    for built in (own, other):
        prepare(built)
    apart = difference(look(own, tokens(case)), look(other, tokens(case)))
    if apart > 1e-6:  # a start such as √d is rounded to float32
        return Broken(f"it declares to start as {origin} and does not{circumstance}: the logits differ by {apart:.1e}")
    return None


def _load(built: LanguageModel, core: Mapping[str, Tensor]) -> None:
    """Fill the core's weights; those of extensions stay."""
    own = {id(p) for extension in built.extensions() for p in extension.parameters()}
    names = {name for name, parameter in built.named_parameters() if id(parameter) not in own}
    built.load_state_dict({name: weight for name, weight in core.items() if name in names}, strict=False)
