"""How the next token is drawn: temperature, top-k, top-p."""

from __future__ import annotations

from zoo.system import fairseq2_setup  # noqa: F401  # before anything of fairseq2

# isort: split
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from fairseq2.generation.sampling import Sampler
from torch import Tensor

from zoo.errors import ZooError

if TYPE_CHECKING:
    pass


GREEDY = 1e-6  # a temperature below this one would only overflow: the likeliest token is taken


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn: from the `top_k` likeliest, and of these from the fewest that make up the part `top_p`."""

    temperature: float = 0.8  # 0: always the likeliest token
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        self._check("temperature", 0 <= self.temperature < math.inf, "0 (always the likeliest token) or more")
        self._check("top-k", self.top_k is None or self.top_k >= 1, "at least 1")
        self._check("top-p", 0 < self.top_p <= 1, "above 0 and at most 1")

    def _check(self, name: str, fits: bool, expected: str) -> None:
        if not fits:
            raise ZooError(f"{name} = {getattr(self, name.replace('-', '_'))} must be {expected}")

    @property
    def greedy(self) -> bool:
        return self.temperature < GREEDY or self.top_k == 1

    def numbers(self, prompt: int, sample: int) -> random.Random:
        """The random numbers of one text alone: it does not depend on what is made beside it."""
        return random.Random(f"{self.seed} {prompt} {sample}")

    def choose(self, probabilities: Tensor, numbers: Tensor) -> Tensor:
        """A token for each row of probabilities (N, V), at the numbers (N) ∈ [0, 1) of its distribution."""
        if self.greedy:
            return probabilities.argmax(dim=-1)
        whole = self.top_k is None and self.top_p == 1
        size = probabilities.size(-1)
        likely, tokens = (probabilities, None) if whole else probabilities.topk(min(self.top_k or size, size))
        sums = likely.double().cumsum(dim=-1)
        if self.top_p < 1:
            before = sums - likely
            likely = likely.masked_fill(before >= self.top_p * sums[:, -1:], 0.0)
            sums = likely.double().cumsum(dim=-1)
        chosen = torch.searchsorted(sums, numbers[:, None].to(sums) * sums[:, -1:], right=True)
        last = (sums < sums[:, -1:]).sum(dim=-1, keepdim=True)  # rounding must not lead past the last that is kept
        chosen = chosen.minimum(last)
        return (chosen if tokens is None else tokens.gather(-1, chosen)).squeeze(-1)


@dataclass
class Text:
    """One text under way, and in the end."""

    prompt: int  # its number
    sample: int
    tokens: list[int]  # behind the prompt, without the end
    ended: bool = False  # by the model, not by the limit


OnToken = Callable[[Text], None]


class Row(NamedTuple):
    text: Text
    start: int  # the length of its prompt
    numbers: random.Random


IN_PROMPT = -1  # instead of a token: fairseq2 takes the prompt's own


class Draw(Sampler):
    """Draws the next token of every row and keeps it. fairseq2 calls it as step processor first, then as sampler.

    As it forbids the end of text to every row while the longest prompt lasts, the probabilities are taken before that.
    A row whose text is long enough is told to have ended: fairseq2 then drops it without running the model once more.
    """

    def __init__(
        self, texts: list[Text], starts: list[int], limit: int, end: int, sampling: Sampling, on_token: OnToken | None
    ) -> None:
        self.rows = [
            Row(text, start, sampling.numbers(text.prompt, text.sample))
            for text, start in zip(texts, starts, strict=True)
        ]
        self.limit, self.end, self.sampling, self.on_token = limit, end, sampling, on_token
        self.position = 0

    def __call__(self, seqs: Tensor, probs: Tensor, lprob: bool = False) -> None:
        self.position, self.probabilities = seqs.size(1), probs.clone()

    def sample(self, probs: Tensor) -> Tensor:
        numbers = [row.numbers.random() if self.position >= row.start else 0.0 for row in self.rows]
        chosen = self.sampling.choose(
            self.probabilities, torch.tensor(numbers, dtype=torch.float64, device=probs.device)
        )
        answers = [self._keep(row, token) for row, token in zip(self.rows, chosen.tolist(), strict=True)]
        self.rows = [row for row, answer in zip(self.rows, answers, strict=True) if answer != self.end]
        return chosen.new_tensor(answers)

    def _keep(self, row: Row, token: int) -> int:
        if self.position < row.start:
            return IN_PROMPT
        text = row.text
        if token == self.end:
            text.ended = True
            return token
        text.tokens.append(token)
        if self.on_token:
            self.on_token(text)
        return self.end if len(text.tokens) == self.limit else token
