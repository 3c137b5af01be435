"""Token by token with a state gives what the whole pass gives."""

from __future__ import annotations

from zoo.system import fairseq2_setup  # noqa: F401  # before anything of fairseq2

# isort: split
from collections.abc import Sequence

import torch
from fairseq2.nn import IncrementalStateBag
from torch import Tensor

from zoo.errors import ZooError
from zoo.model.language_model import LanguageModel
from zoo.testing.cases import Broken, Case, Note, Outcome, hosts
from zoo.testing.method_under_test import EXACT, Subject, difference, look, seeded, tokens

CACHED = (
    Case(1, 3, 1),
    *hosts(Case(2, 7, 2)),
    Case(5, 6, 1),
    Case(2, 7, 2, heads=4, kv_heads=2, head_dim=4),
)


@torch.no_grad()
def decode(built: LanguageModel, inputs: Tensor, plan: Sequence[int], order: Tensor | None = None) -> Tensor:
    """The logits of all tokens, given in chunks; `order` rearranges the rows behind the first chunk, as beams do."""
    bag = IncrementalStateBag(inputs.size(1) + 1)
    done: list[Tensor] = []
    with seeded():
        for chunk in inputs.split(list(plan), dim=1):
            if done and order is not None:
                bag.reorder(order)
                done, order = [part[order] for part in done], None
            logits = built(chunk, state_bag=bag)
            bag.increment_step_nr(chunk.size(1))
            assert isinstance(logits, Tensor)
            done.append(logits)
    return torch.cat(done, dim=1)


def cached(subject: Subject, case: Case) -> Outcome | None:
    """However the tokens come, decoding gives the logits of the whole pass; or the model refuses, if so declared."""
    built, inputs = subject.build(case), tokens(case)
    if not all(extension.decodes for extension in built.extensions()):
        return _refuses(built, inputs)
    whole = look(built, inputs)
    for plan in _plans(case.length):
        apart = difference(decode(built, inputs, plan), whole)
        if apart > EXACT:
            first = _first_wrong(decode(built, inputs, plan), whole)
            return Broken(
                f"decoding in chunks of {_in_words(plan)} differs from the whole pass from token {first} on, by {apart:.1e}"
            )
    if case.length > 1 and case.batch > 1:
        order = torch.arange(case.batch - 1, -1, -1)
        rearranged = torch.cat([inputs[:, :1], inputs[order][:, 1:]], dim=1)
        expected = look(built, inputs[order])
        follows = "when rows are rearranged between steps, as beam search does, what was kept does not follow"
        try:
            if difference(decode(built, rearranged, [1, case.length - 1], order), expected) > EXACT:
                return Broken(follows)
        except (IndexError, RuntimeError) as error:
            return Broken(f"{follows}: {error}; keep tensors whose first dimension is the batch")
    return None


def _refuses(built: LanguageModel, inputs: Tensor) -> Outcome:
    try:
        decode(built, inputs, [inputs.size(1)])
    except ZooError:
        return Note("it declares that it cannot be decoded step by step, and the model refuses to")
    return Broken("it declares that it cannot be decoded step by step, but the model does not refuse")


def _plans(length: int) -> list[list[int]]:
    """Token by token; a short prefill and the rest; a long one and a token; chunks."""
    plans = [[1] * length, [1, length - 1], [length - 1, 1], [2] * (length // 2) + [1] * (length % 2)]
    return [plan for i, plan in enumerate(plans[: max(2, length - 3)]) if min(plan) > 0 and plan not in plans[:i]]


def _in_words(plan: Sequence[int]) -> str:
    return ", ".join(map(str, plan))


def _first_wrong(decoded: Tensor, whole: Tensor) -> int:
    return next(t for t in range(whole.size(1)) if difference(decoded[:, t], whole[:, t]) > EXACT / 10)
