"""What a position may see: itself and its past, of its own row."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from zoo.model import LanguageModel
from zoo.testing.case import MAX_LENGTH, VOCAB, Broken, Case, Told, hosts
from zoo.testing.decoding import decode
from zoo.testing.subject import EXACT, Subject, difference, direction, look, run, tokens

NO_SIGHT = 1e-10  # of the largest derivative: what rounding leaves where the derivative is 0

CAUSAL = (
    Case(1, 2, 1),
    *hosts(Case(2, 4, 2)),
    Case(2, 5, 2, training=True),
    Case(2, 4, 1, training=True, parallel=True, dropout=0.2),
    Case(5, MAX_LENGTH, 1),
    Case(5, 9, 1, parallel=True, training=True),
)


def causal(subject: Subject, case: Case) -> Told | None:
    """No position sees a later one: by derivatives, by changing what follows, by cutting it off, and behind a cache."""
    built, inputs = subject.build(case), tokens(case)
    ways = [_by_change] if case.length > 6 else [_by_derivative, _by_change]
    if case.dropout == 0:  # the masks of another length are others
        ways.append(_by_cutting)
        if not case.training and all(extension.decodes for extension in built.extensions()):
            ways.append(_behind_cache)
    for way in ways:
        if told := way(built, inputs):
            return told
    return None


def _by_derivative(built: LanguageModel, inputs: Tensor) -> Broken | None:
    with _embedding(built) as seen:
        logits = run(built, inputs)
    weights = direction(logits)
    for t in range(inputs.size(1) - 1):
        (gradient,) = torch.autograd.grad((logits[:, t] * weights[:, t]).sum(), seen[0], retain_graph=True)
        largest = float(gradient.abs().max())
        ahead = gradient[:, t + 1 :].abs().amax(dim=(0, 2))
        if not gradient.isfinite().all():
            return Broken(f"the derivative of token {t}'s logits is not finite")
        if float(ahead.max()) > NO_SIGHT * largest:
            s = t + 1 + int(ahead.argmax())
            return Broken(f"token {t} sees token {s}: the derivative of its logits by that embedding is not 0")
    return None


@contextlib.contextmanager
def _embedding(built: LanguageModel) -> Iterator[list[Tensor]]:
    """Collect the embedding of each pass."""
    seen: list[Tensor] = []
    handle = built.embed.register_forward_hook(lambda module, arguments, result: seen.append(result))
    try:
        yield seen
    finally:
        handle.remove()


def _by_change(built: LanguageModel, inputs: Tensor) -> Broken | None:
    before = look(built, inputs)
    for cut in sorted({1, inputs.size(1) // 2, inputs.size(1) - 1} - {0}):
        after = look(built, changed(inputs, cut))
        for t in range(cut):
            if difference(after[:, t], before[:, t]) > EXACT:
                return Broken(f"token {t} sees what follows: its logits change when the tokens from {cut} on do")
    return None


def changed(inputs: Tensor, cut: int) -> Tensor:
    """Other tokens from `cut` on."""
    shift = torch.arange(inputs.size(1)).ge(cut).long() * (1 + torch.arange(inputs.size(1)) % (VOCAB - 1))
    return (inputs + shift) % VOCAB


def _by_cutting(built: LanguageModel, inputs: Tensor) -> Broken | None:
    whole = look(built, inputs)
    for length in sorted({1, 2, inputs.size(1) // 2, inputs.size(1) - 1} & set(range(1, inputs.size(1)))):
        alone = look(built, inputs[:, :length])
        for t in range(length):
            if difference(alone[:, t], whole[:, t]) > EXACT:
                return Broken(
                    f"token {t} sees what follows: its logits in a sequence of {length} are not those in one"
                    f" of {inputs.size(1)}"
                )
    return None


def _behind_cache(built: LanguageModel, inputs: Tensor) -> Broken | None:
    length = inputs.size(1)
    if length < 3:
        return None
    plan = [1, length - 1]
    before, after = (decode(built, each, plan) for each in (inputs, changed(inputs, length - 1)))
    for t in range(length - 1):
        if difference(after[:, t], before[:, t]) > EXACT:
            return Broken(f"behind a cache, token {t} sees token {length - 1}: its logits change when that one does")
    return None


ROWS = hosts(Case(1, 3, 2), Case(2, 5, 3, training=True))


def rows(subject: Subject, case: Case) -> Told | None:
    """A row's result does not depend on the other rows of its batch."""
    built, inputs = subject.build(case), tokens(case)
    together = look(built, inputs)
    for row in range(case.batch):
        if difference(look(built, inputs[row : row + 1]), together[row : row + 1]) > EXACT:
            return Broken(f"row {row} of a batch depends on the other rows: alone, its logits are others")
    return None
