"""Whether a model sees later tokens or other rows: they are changed, and what must not depend on them is compared.

The model is asked as it is used: at its length, batch, device and precision, in training mode with a graph for gradients, or
in evaluation mode. A row whose tokens are others from a cut on must answer the same before the cut, whatever the other rows
hold. On one machine, at one shape, a causal model does so bit for bit, so that the comparison has no tolerance by which
a faint leak could pass; where bits differ, the same passes in float64 tell a leak from rounding (of a Fourier transform,
say).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from zoo.training import random_state

if TYPE_CHECKING:
    from zoo.model.language_model import LanguageModel

Autocast = Callable[[], contextlib.AbstractContextManager[Any]]
Cuts = Callable[[int, int, int], Tensor]  # rows, length, seed → (passes, rows): from where on a row's tokens are others
Make = Callable[[Tensor], Tensor]

# All as a part of the model's largest output.
CERTAIN = {torch.float64: 1e-11, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}  # no rounding does that
NOISE = 100.0  # how many times the difference between two equal passes a leak must show


class Finding(NamedTuple):
    """What came out: a leak in words, or why one could not be looked for; both empty if all is well."""

    leak: str = ""
    note: str = ""


class Place(NamedTuple):
    """Where two answers differ most, and by how much."""

    row: int
    position: int
    part: float  # of the largest output


# --- where rows are cut


def landmarks(length: int) -> list[int]:
    """The first and the last cut, the middle, and both sides of every power of two: where chunks and blocks end."""
    near = {2**k + d for k in range(length.bit_length()) for d in (-1, 0, 1)}
    near |= {length // 2 + d for d in (-1, 0, 1)} | {length - 2, length - 1}
    return sorted(cut for cut in near if 0 < cut < length)


def thorough_cuts(rows: int, length: int, seed: int, most: int = 4) -> Tensor:
    """(passes, rows): every landmark where there is room, random cuts, and a pass that tells rows from each other."""
    drawn, places = torch.Generator().manual_seed(seed), landmarks(length)
    passes = min(most, math.ceil(1.25 * len(places) / rows))
    order = torch.randperm(len(places), generator=drawn)[: passes * rows]
    cuts = torch.cat(
        [
            torch.tensor(places, dtype=torch.long, device="cpu")[order],
            _anywhere(passes * rows - len(order), length, drawn),
        ]
    )
    cuts = cuts[torch.randperm(passes * rows, generator=drawn)].view(passes, rows)
    return torch.cat([cuts, _whole_rows(rows, length, drawn)]) if rows > 1 else cuts


def few_cuts(rows: int, length: int, seed: int) -> Tensor:
    """(1, rows): landmarks, random cuts, and where there are rows enough one that is unchanged and one wholly changed."""
    drawn, known = torch.Generator().manual_seed(seed), torch.tensor(landmarks(length), dtype=torch.long, device="cpu")
    cuts = _anywhere(rows, length, drawn)
    some = torch.randperm(len(known), generator=drawn)[: rows // 2]
    cuts[: len(some)] = known[some]
    if rows > 3:
        cuts[-2:] = torch.tensor([0, length], dtype=torch.long, device="cpu")
    return cuts[torch.randperm(rows, generator=drawn)].view(1, rows)


def _anywhere(count: int, length: int, drawn: torch.Generator) -> Tensor:
    """Random cuts with something on both sides; of a single token, nothing is changed."""
    return (
        torch.randint(1, length, (count,), generator=drawn)
        if length > 1
        else torch.ones(count, dtype=torch.long, device="cpu")
    )


def _whole_rows(rows: int, length: int, drawn: torch.Generator) -> Tensor:
    """Half of the rows are others, the rest is unchanged."""
    chosen = torch.randperm(rows, generator=drawn) < rows // 2
    return torch.where(chosen, 0, length).view(1, rows)


# --- asking a model


class Question(NamedTuple):
    """How a model is asked: everything that decides what it answers to some tokens."""

    model: LanguageModel
    training: bool
    autocast: Autocast = contextlib.nullcontext
    seed: int = 0  # of what a method draws in a pass: the same in each

    @property
    def mode(self) -> str:
        return "in training" if self.training else "in evaluation"

    def answer(self, tokens: Tensor) -> Tensor:
        """The last hidden state (B, T, D); the model and every random state are left as they were."""
        state, was_training = random_state.random_state(), self.model.training
        try:
            random_state.seed(self.seed)
            self.model.train(self.training)
            with _buffers_kept(self.model), torch.set_grad_enabled(self.training), self.autocast():
                return self.model.hidden(tokens).detach()
        finally:
            self.model.train(was_training)
            random_state.set_random_state(state)


def examine(question: Question, tokens: Tensor, cuts: Tensor, seed: int) -> Finding:
    """Change the tokens (B, T) behind each of the cuts (passes, B) and see whether anything before them notices."""
    vocabulary = question.model.embed.weight.size(0)
    before, drawn = question.answer(tokens), torch.Generator().manual_seed(seed)
    for each in cuts:
        shift = torch.randint(1, max(2, vocabulary), tokens.shape, generator=drawn)
        unchanged = (torch.arange(tokens.size(1), device=each.device) < each[:, None]).to(tokens.device)
        changed = torch.where(unchanged, tokens, (tokens + shift.to(tokens.device)) % vocabulary)
        place = _differ(before, question.answer(changed), unchanged)
        if place is not None:
            finding = _judge(question, tokens, changed, unchanged, place)
            if any(finding):
                return finding
    return Finding()


def _judge(question: Question, tokens: Tensor, changed: Tensor, unchanged: Tensor, place: Place) -> Finding:
    """Whether a difference is a leak: not where equal passes differ as much, nor where rounding explains it."""
    before, everywhere = question.answer(tokens), torch.ones_like(unchanged)
    noise = _differ(before, question.answer(tokens), everywhere)
    if noise is not None and place.part <= NOISE * noise.part:
        return Finding(
            note=f"{question.mode} two equal passes differ: whether the model sees the future cannot be told"
        )
    if place.part <= CERTAIN.get(before.dtype, 1e-3):
        try:
            exact = _in_float64(question, tokens, changed, unchanged)
        except Exception as error:  # what works in one type alone
            return Finding(
                note=f"{question.mode} later tokens change what comes before them by {place.part:.0e}: rounding, or a leak;"
                f" in float64, which could tell, the model fails: {type(error).__name__}: {error}"
            )
        if exact is None:
            return Finding()
        place = exact
    return Finding(_in_words(question, tokens, changed, unchanged, place))


def _in_float64(question: Question, tokens: Tensor, changed: Tensor, unchanged: Tensor) -> Place | None:
    asked = question._replace(autocast=contextlib.nullcontext)
    with replaced(question.model, Tensor.double):
        place = _differ(asked.answer(tokens), asked.answer(changed), unchanged)
    return place if place and place.part > CERTAIN[torch.float64] else None


def _in_words(question: Question, tokens: Tensor, changed: Tensor, unchanged: Tensor, place: Place) -> str:
    """What sees what: with the other rows as they were, is it still so?"""
    row, cut = place.row, int(unchanged[place.row].sum())
    alone = tokens.clone()
    alone[row] = changed[row]
    own = torch.zeros_like(unchanged)
    own[row] = unchanged[row]
    strength = f"by {place.part:.1e} of its largest value"
    if _differ(question.answer(tokens), question.answer(alone), own) is None:
        return (
            f"{question.mode} the model's output for row {row} of a batch changes with the other rows, {strength}:"
            " rows see each other"
        )
    return (
        f"{question.mode} the model's output at position {place.position} of row {row} changes with the tokens from"
        f" {cut} on, {strength}: it sees the future"
    )


def _differ(before: Tensor, after: Tensor, unchanged: Tensor) -> Place | None:
    """Where what was to be kept differs most; what was not finite to begin with does not count."""
    apart = (after.float() if after.dtype != torch.float64 else after).sub(before).abs().amax(dim=-1)  # (B, T)
    apart = apart.nan_to_num(nan=math.inf, posinf=math.inf).masked_fill(
        ~(unchanged & before.isfinite().all(dim=-1)), 0.0
    )
    most = float(apart.max()) if apart.numel() else 0.0
    if most == 0.0:
        return None
    row, position = divmod(int(apart.argmax()), apart.size(1))
    largest = float(before.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return Place(row, position, most / max(largest, 1e-30))


# --- the same model with other weights, for a while


@contextlib.contextmanager
def replaced(model: torch.nn.Module, make: Make) -> Iterator[None]:
    """With other values in every floating-point parameter and buffer; after that, the same tensors as before."""
    unchanged = [(each, each.data) for each in (*model.parameters(), *model.buffers()) if each.is_floating_point()]
    try:
        for each, data in unchanged:
            each.data = make(data)
        yield
    finally:
        for each, data in unchanged:
            each.data = data


@contextlib.contextmanager
def _buffers_kept(model: torch.nn.Module) -> Iterator[None]:
    """A pass in training mode may update a running statistic: that of a question must not count."""
    unchanged = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False)
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, value in unchanged:
                setattr(module, name, buffer)
                buffer.copy_(value)
