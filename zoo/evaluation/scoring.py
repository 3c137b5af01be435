"""How likely a model finds texts: the sum of −ln p over some tokens of a row, for many rows at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from zoo.evaluation.subject import Subject
    from zoo.model.language_model import LanguageModel

TOKENS_AT_ONCE = 8192
ROWS_PER_CHUNK = 512  # whose logits are in memory at once


class Row(NamedTuple):
    """Tokens, and the place from which on they are scored: at least 1, as the first token has nothing before it."""

    tokens: Sequence[int]
    start: int = 1


class Likelihood(NamedTuple):
    """How well the scored tokens of a row were predicted."""

    nll: float  # nats, summed
    tokens: int
    greedy: bool  # whether every token was the likeliest


class Window(NamedTuple):
    """A part of a row that a model sees at once, and which of its tokens are scored."""

    row: int
    tokens: Sequence[int]
    start: int


def likelihoods(model: LanguageModel, rows: Sequence[Row], length: int) -> list[Likelihood]:
    """Of every row the likelihood of its scored tokens; a model sees `length` tokens before the last of a window."""
    nll, greedy = [0.0] * len(rows), [True] * len(rows)
    for batch in _batches([window for number, row in enumerate(rows) for window in windows(number, row, length)]):
        for window, (part, best) in zip(batch, _scored(model, batch), strict=True):
            nll[window.row] += part
            greedy[window.row] &= best
    counts = [len(row.tokens) - row.start for row in rows]
    return [Likelihood(*each) for each in zip(nll, counts, greedy, strict=True)]


def windows(number: int, row: Row, length: int) -> Iterator[Window]:
    """The windows of a row: every scored token is in one of them, with as much before it as fits."""
    stop = len(row.tokens)
    for first in range(row.start, stop, length):
        last = min(first + length, stop)  # the first after this window
        begin = max(0, last - 1 - length)
        yield Window(number, row.tokens[begin:last], first - begin)


def _batches(waiting: list[Window]) -> Iterator[list[Window]]:
    """Windows of about one length together."""
    batch: list[Window] = []
    for window in sorted(waiting, key=lambda each: -len(each.tokens)):
        if batch and (len(batch) + 1) * len(batch[0].tokens) > TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


@torch.no_grad()
def _scored(model: LanguageModel, batch: Sequence[Window]) -> list[tuple[float, bool]]:
    """Of every window −ln p of its scored tokens, and whether each was the likeliest."""
    weight = model.output_weight()
    longest = max(len(window.tokens) for window in batch) - 1
    inputs = torch.zeros((len(batch), longest), dtype=torch.long)
    targets = torch.full((len(batch), longest), -100)
    for i, window in enumerate(batch):
        tokens = torch.as_tensor(list(window.tokens))
        inputs[i, : len(tokens) - 1] = tokens[:-1]  # what fills a row up stands behind it, where no token sees it
        targets[i, window.start - 1 : len(tokens) - 1] = tokens[window.start :]
    counted = targets != -100
    hidden = model.hidden(inputs.to(weight.device))[counted.to(weight.device)]  # (N, D)
    answers = targets[counted].to(weight.device)
    losses, hits = [], []
    for first in range(0, len(answers), ROWS_PER_CHUNK):
        logits = F.linear(hidden[first : first + ROWS_PER_CHUNK], weight).float()
        right = answers[first : first + ROWS_PER_CHUNK]
        losses.append(F.cross_entropy(logits, right, reduction="none"))
        hits.append(logits.argmax(dim=-1) == right)
    sizes = counted.sum(dim=1).tolist()
    sums = torch.cat(losses).double().cpu().split(sizes)
    best = torch.cat(hits).cpu().split(sizes)
    return [(float(part.sum()), bool(each.all())) for part, each in zip(sums, best, strict=True)]


def continuation(run: Subject, context: str, text: str) -> Row:
    """A context and the text that follows it, as tokens of which those of the text are scored.

    Both are encoded together, as a tokenizer may join what stands at the seam; what is longer than the tokens of the context
    alone is the text.
    """
    whole = run.encode(context + text)
    return Row(whole, min(len(run.encode(context)), len(whole) - 1) if context else 1)
