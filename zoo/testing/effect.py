"""A method does something: with random parameters it computes other numbers than the plain block."""

from __future__ import annotations

from torch import Tensor

from zoo.testing.cases import Broken, Case, Note, Outcome, hosts
from zoo.testing.method_under_test import EXACT, Subject, assemble, difference, look, tokens

BASELINE = "baseline"
EFFECT = (Case(3, 6, 2),)  # in the first layers there is little to sum up or to run again


def effect(subject: Subject, case: Case) -> Outcome | None:
    """In one of the hosts, in training or in evaluation, the logits are not the plain block's."""
    for each in hosts(case, case.but(training=True)):
        if difference(look(subject.build(each), tokens(each)), _plain(subject, each)) > EXACT:
            return None
    if subject.settings:
        return Note("with these settings it computes what the plain block does")
    if subject.starts_as == BASELINE and not _learns(subject):
        return Note("it computes what the plain block does, as it declares")
    return Broken(
        "it computes what the plain block does, whatever its parameters are: is a method misspelt, or what it computes"
        ' not returned? Where that is meant, declare starts_as = "baseline" and keep no parameters'
    )


def _plain(subject: Subject, case: Case) -> Tensor:
    """The logits of the plain block with the same weights; where a method leaves out a norm or attention, with its own."""
    plain = assemble(case, {}, fresh=True)
    weights = subject.build(case).state_dict()
    plain.load_state_dict({name: weights.get(name, own) for name, own in plain.state_dict().items()})
    return look(plain, tokens(case))


def _learns(subject: Subject) -> bool:
    return any(name not in subject.declared.idle for name, _ in subject.declared.named_parameters())
