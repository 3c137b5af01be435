"""What a position may see: itself and its past, of its own row.

Asked in two ways: by the derivative of logits by embeddings, and by changing tokens. Exact, in float64:

- up to 12 tokens and 5 layers every pair of positions, in batches of up to 6 rows, and every pair of rows;
- up to 33 tokens, or 17 in 8 layers, every cut between past and future, each in a row of its own: a random combination
  of all logits before the cut is derived by all embeddings behind it, so that no pair of positions escapes.

Sampled: at 64 and 129 tokens the cuts on both sides of every power of two, at the ends, in the middle, and random ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from zoo.model.language_model import LanguageModel
from zoo.testing.cases import MAX_LENGTH, VOCAB, Broken, Case, Outcome, hosts
from zoo.testing.decoding import decode
from zoo.testing.method_under_test import EXACT, Subject, difference, direction, look, run, tokens
from zoo.training.leak_check import landmarks

EVERY_CUT = 33  # the longest sequence that is cut everywhere
DEEP = 5  # layers, up to which every position is asked on its own
ROUNDING = 1e-12  # of the largest derivative, or logit: what rounding may leave in float64, from passes of one shape

CAUSAL = (
    Case(1, 2, 1),
    *hosts(Case(2, 4, 6)),
    Case(2, 3, 1, training=True, parallel=True),
    Case(2, 7, 6, training=True),
    Case(2, 4, 1, training=True, parallel=True, dropout=0.2),
    Case(5, MAX_LENGTH, 1),
    Case(8, 6, 1, parallel=True),
    Case(2, 33, 1),
    Case(2, 33, 1, training=True, parallel=True),
    Case(8, 17, 1, training=True),
    Case(1, 64, 1, training=True),
    Case(1, 129, 1),
    Case(1, 129, 1, training=True, parallel=True),
)


def causal(subject: Subject, case: Case) -> Outcome | None:
    """No position sees a later one: by derivatives, by changing what follows, by cutting it off, and behind a cache."""
    built, inputs = subject.build(case), tokens(case)
    ways = [_by_derivative, _by_change] if case.length <= MAX_LENGTH and case.depth <= DEEP else [_at_cuts]
    if case.dropout == 0:  # the masks of another length are others
        ways.append(_by_cutting)
        if not case.training and all(extension.decodes for extension in built.extensions()):
            ways.append(_behind_cache)
    for way in ways:
        if outcome := way(built, inputs):
            return outcome
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
        if float(ahead.max()) > ROUNDING * largest:
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
    for cut in range(1, inputs.size(1)):
        after = look(built, changed(inputs, cut))
        t = _first_change(after[:, :cut], before[:, :cut])
        if t is not None:
            return Broken(f"token {t} sees what follows: its logits change when the tokens from {cut} on do")
    return None


def changed(inputs: Tensor, cut: int | Tensor) -> Tensor:
    """Other tokens from `cut` on: one for all rows, or one for each, (B, 1)."""
    positions = torch.arange(inputs.size(1))
    return (inputs + (positions >= cut).long() * (1 + positions % (VOCAB - 1))) % VOCAB


def _first_change(after: Tensor, before: Tensor) -> int | None:
    """The first position at which logits (B, T, V) of two passes of one shape differ."""
    apart = (after - before).abs().amax(dim=(0, 2)).nan_to_num(nan=torch.inf)
    (at,) = torch.nonzero(apart > ROUNDING * max(1.0, float(before.abs().max())), as_tuple=True)
    return int(at[0]) if len(at) else None


def cuts(length: int) -> list[int]:
    """Where a sequence of more than a few tokens is cut."""
    if length <= EVERY_CUT:
        return list(range(1, length))
    drawn = torch.randint(1, length, (8,), generator=torch.Generator().manual_seed(length))
    return sorted({*landmarks(length), *drawn.tolist()})


def _at_cuts(built: LanguageModel, inputs: Tensor) -> Broken | None:
    """Each cut in a row of its own: what stands before it must not see what stands behind it."""
    if inputs.size(1) < 2:
        return None
    cut = torch.tensor(cuts(inputs.size(1)))[:, None]  # (B, 1)
    rows = inputs[:1].repeat(len(cut), 1)
    past = torch.arange(rows.size(1)) < cut  # (B, T)
    with _embedding(built) as seen:
        logits = run(built, rows)
    (gradient,) = torch.autograd.grad((logits * direction(logits) * past[..., None]).sum(), seen[0])
    if not gradient.isfinite().all():
        return Broken("the derivative of the logits is not finite")
    ahead = gradient.abs().amax(dim=-1).masked_fill(past, 0.0)
    if float(ahead.max()) > ROUNDING * float(gradient.abs().max()):
        row, s = divmod(int(ahead.argmax()), rows.size(1))
        return Broken(f"a token before {int(cut[row])} sees token {s}: the derivative of its logits is not 0")
    before, after = logits.detach(), look(built, changed(rows, cut))
    t = _first_change(after.masked_fill(~past[..., None], 0.0), before.masked_fill(~past[..., None], 0.0))
    if t is not None:
        return Broken(f"token {t} sees what follows: its logits change when later tokens do")
    return None


def _by_cutting(built: LanguageModel, inputs: Tensor) -> Broken | None:
    whole = look(built, inputs)
    for length in sorted({1, 2, 13, inputs.size(1) // 2, inputs.size(1) - 1} & set(range(1, inputs.size(1)))):
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


ROWS = (
    *hosts(Case(1, 3, 2), Case(2, 5, 3, training=True)),
    Case(1, 1, 6),
    Case(2, 7, 6, training=True),
    Case(8, 2, 3, parallel=True),
    Case(1, 33, 6),
)


def rows(subject: Subject, case: Case) -> Outcome | None:
    """A row's result does not depend on the other rows of its batch: alone, when one of them changes, by derivatives."""
    built, inputs = subject.build(case), tokens(case)
    together = look(built, inputs)
    for row in range(case.batch):
        if difference(look(built, inputs[row : row + 1]), together[row : row + 1]) > EXACT:
            return Broken(f"row {row} of a batch depends on the other rows: alone, its logits are others")
    for row in range(case.batch):
        others = [other for other in range(case.batch) if other != row]
        other_text = inputs.clone()
        other_text[row] = changed(inputs[row : row + 1], 0)[0]
        after = look(built, other_text)
        if others and _first_change(after[others], together[others]) is not None:
            return Broken(f"row {row} of a batch is seen by another: the other's logits change when its tokens do")
    return _rows_by_derivative(built, inputs)


def _rows_by_derivative(built: LanguageModel, inputs: Tensor) -> Broken | None:
    with _embedding(built) as seen:
        logits = run(built, inputs)
    weights = direction(logits)
    for row in range(inputs.size(0)):
        (gradient,) = torch.autograd.grad((logits[row] * weights[row]).sum(), seen[0], retain_graph=True)
        seen_by_row = gradient.abs().amax(dim=(1, 2))
        seen_by_row[row] = 0.0
        if float(seen_by_row.max()) > ROUNDING * float(gradient.abs().max()):
            return Broken(
                f"row {row} of a batch depends on the other rows: the derivative of its logits by row"
                f" {int(seen_by_row.argmax())} is not 0"
            )
    return None
