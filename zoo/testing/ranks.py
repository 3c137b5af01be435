"""On two ranks, each with half of the rows, a method has the loss and the gradients of one process with all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from zoo.testing.cases import Broken, Case, Outcome, Skipped
from zoo.testing.method_under_test import EXACT, Subject, difference, seeded, tokens
from zoo.testing.pair import on_two_ranks, possible

if TYPE_CHECKING:
    from zoo.training.ranks import Ranks

RANKS = (Case(3, 5, 4),)  # and the same in the parallel host
HOW = {"ddp": "on two ranks that average gradients (DDP)", "fsdp": "on two ranks that each hold a part of it (FSDP)"}


def ranks(subject: Subject, case: Case) -> Outcome | None:
    """The same loss and gradients, whether every rank holds all weights or a part of them."""
    if not subject.declared.deterministic:
        return Skipped("it draws random numbers in every pass, and two ranks draw others than one")
    if not possible():
        return Skipped("this process has used a GPU, and cannot be copied")
    sentence = on_two_ranks(lambda pair: in_both_hosts(subject, case, pair))
    return Broken(sentence) if sentence else None


def in_both_hosts(subject: Subject, case: Case, pair: Ranks) -> str:
    """On each of two ranks: what differs from one process, in words; empty if nothing does."""
    differences = (in_two(subject, case.but(parallel=parallel), pair) for parallel in (False, True))
    return next(filter(None, differences), "")


def in_two(subject: Subject, case: Case, pair: Ranks) -> str:
    """The same in one host."""
    inputs = tokens(case.but(length=case.length + 1))
    alone = subject.build(case)
    loss = _loss(alone, inputs)
    loss.backward()
    expected = {name: p.grad for name, p in alone.named_parameters() if p.grad is not None}
    half = case.batch // pair.size
    own = inputs[pair.rank * half : (pair.rank + 1) * half]
    for parallel, how in HOW.items():
        if sentence := _differs(subject, case, own, float(loss), expected, parallel, pair):
            return f"{how}, {sentence}"
    return ""


def _loss(model: nn.Module, rows: Tensor) -> Tensor:
    with seeded():
        loss: Tensor = model(rows[:, :-1], targets=rows[:, 1:], reduction="mean")
    return loss


def _differs(
    subject: Subject, case: Case, rows: Tensor, loss: float, expected: dict[str, Tensor], parallel: str, pair: Ranks
) -> str:
    from zoo.training.parallel import make_replica
    from zoo.training.sharded import whole_tensor

    replica = make_replica(subject.build(case), parallel, pair)
    with replica.one_pass(last=True), seeded():
        own = replica.loss(rows[:, :-1], rows[:, 1:], 0.0)
        own.backward()
    replica.exchange_rest()
    (total,) = pair.sum([float(own)])
    if abs(total / pair.size - loss) > EXACT * max(1.0, abs(loss)):
        return f"the loss is {total / pair.size:.6g}, not {loss:.6g}"
    for name, parameter in replica.trained.named_parameters():
        gradient = None if parameter.grad is None else whole_tensor(parameter.grad)
        theirs = expected.get(name)
        if gradient is None or theirs is None:
            present = theirs if gradient is None else gradient
            if present is not None and present.any():
                return f"{name} {'loses' if gradient is None else 'gains'} its gradient"
        elif difference(gradient, theirs) > EXACT:
            return f"the gradient of {name} is another"
    with replica.whole():
        apart = [
            name
            for (name, one), other in zip(
                subject.build(case).named_parameters(), replica.model.parameters(), strict=True
            )
            if difference(one, other) > 0
        ]
    return f"the weights of {apart[0]} are others" if apart else ""
