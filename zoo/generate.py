"""Texts, drawn from a model by fairseq2's sampling generator."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.compat import prepare
from zoo.errors import ZooError
from zoo.state import State

prepare()

from fairseq2.data.tokenizers import VocabularyInfo  # noqa: E402
from fairseq2.generation import SequenceGenerationError  # noqa: E402
from fairseq2.generation.sampling import Sampler, SamplingSequenceGenerator  # noqa: E402
from fairseq2.models.clm import CausalLM  # noqa: E402
from fairseq2.nn import BatchLayout, IncrementalStateBag  # noqa: E402

if TYPE_CHECKING:
    from zoo.model import LanguageModel

ROWS = 32  # texts that are made together
GREEDY = 1e-6  # a temperature below this one would only overflow: the likeliest token is taken


# --- how to draw


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

    def _check(self, name: str, fits: bool, wanted: str) -> None:
        if not fits:
            raise ZooError(f"{name} = {getattr(self, name.replace('-', '_'))} must be {wanted}")

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
        kept, tokens = (probabilities, None) if whole else probabilities.topk(min(self.top_k or size, size))
        sums = kept.double().cumsum(dim=-1)
        if self.top_p < 1:
            before = sums - kept
            kept = kept.masked_fill(before >= self.top_p * sums[:, -1:], 0.0)
            sums = kept.double().cumsum(dim=-1)
        found = torch.searchsorted(sums, numbers[:, None].to(sums) * sums[:, -1:], right=True)
        last = (sums < sums[:, -1:]).sum(dim=-1, keepdim=True)  # rounding must not lead past the last that is kept
        found = found.minimum(last)
        return (found if tokens is None else tokens.gather(-1, found)).squeeze(-1)


@dataclass
class Text:
    """One text under way, and in the end."""

    prompt: int  # its number
    sample: int
    tokens: list[int]  # behind the prompt, without the end
    ended: bool = False  # by the model, not by the limit


OnToken = Callable[[Text], None]


class _Row(NamedTuple):
    text: Text
    start: int  # the length of its prompt
    numbers: random.Random


IN_PROMPT = -1  # instead of a token: fairseq2 takes the prompt's own


class _Draw(Sampler):
    """Draws the next token of every row and keeps it. fairseq2 calls it as step processor first, then as sampler.

    As it forbids the end of text to every row while the longest prompt lasts, the probabilities are taken before that.
    A row whose text is long enough is told to have ended: fairseq2 then drops it without running the model once more.
    """

    def __init__(
        self, texts: list[Text], starts: list[int], limit: int, end: int, sampling: Sampling, told: OnToken | None
    ) -> None:
        self.rows = [
            _Row(text, start, sampling.numbers(text.prompt, text.sample))
            for text, start in zip(texts, starts, strict=True)
        ]
        self.limit, self.end, self.sampling, self.told = limit, end, sampling, told
        self.position = 0

    def __call__(self, seqs: Tensor, probs: Tensor, lprob: bool = False) -> None:
        self.position, self.probabilities = seqs.size(1), probs.clone()

    def sample(self, probs: Tensor) -> Tensor:
        numbers = [row.numbers.random() if self.position >= row.start else 0.0 for row in self.rows]
        chosen = self.sampling.choose(self.probabilities, torch.tensor(numbers, dtype=torch.float64))
        answers = [self._keep(row, token) for row, token in zip(self.rows, chosen.tolist(), strict=True)]
        self.rows = [row for row, answer in zip(self.rows, answers, strict=True) if answer != self.end]
        return chosen.new_tensor(answers)

    def _keep(self, row: _Row, token: int) -> int:
        if self.position < row.start:
            return IN_PROMPT
        text = row.text
        if token == self.end:
            text.ended = True
            return token
        text.tokens.append(token)
        if self.told:
            self.told(text)
        return self.end if len(text.tokens) == self.limit else token


# --- the model as fairseq2's generators call it


def state_bag(length: int) -> IncrementalStateBag:
    """An empty state for decoding up to `length` tokens."""
    return IncrementalStateBag(length + 1)


class Decoder(CausalLM):
    """A model for fairseq2's generators: up to any length, and if asked without its state.

    Without it only the tokens are kept, and every step runs the model over all of them.
    """

    def __init__(self, model: LanguageModel, max_length: int, cache: bool = True) -> None:
        super().__init__(max_length)
        self.model = model
        self.cache = cache

    def forward(
        self, seqs: Tensor, seqs_layout: BatchLayout | None = None, *, state_bag: IncrementalStateBag
    ) -> Tensor:
        if self.cache:
            return self.model(seqs, state_bag=state_bag)
        tokens = State(state_bag).append(self, "tokens", seqs, dim=1)
        hidden = self.model.hidden(tokens)[:, -seqs.size(1) :]
        return F.linear(hidden, self.model.output_weight())


def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    end: int,
    sampling: Sampling,
    *,
    max_tokens: int,
    samples: int = 1,
    cache: bool = True,
    told: OnToken | None = None,
) -> Iterator[Text]:
    """`samples` texts for each prompt, which has at least one token; `told` hears of each token as it is made."""
    if max_tokens < 1 or samples < 1:
        raise ZooError("max-tokens and samples must be at least 1")
    for first in range(0, len(prompts), per_batch := max(1, ROWS // samples)):
        some = range(first, min(first + per_batch, len(prompts)))
        for start in range(0, samples, ROWS):
            texts = [Text(i, j, []) for i in some for j in range(start, min(start + ROWS, samples))]
            _run(model, [prompts[i] for i in some], texts, end, sampling, max_tokens, cache, told)
            yield from texts


def _run(
    model: LanguageModel,
    prompts: list[Sequence[int]],
    texts: list[Text],
    end: int,
    sampling: Sampling,
    limit: int,
    cache: bool,
    told: OnToken | None,
) -> None:
    device, training = model.output_weight().device, model.training
    lengths = [len(prompt) for prompt in prompts]
    padded = torch.full((len(prompts), max(lengths)), end, device=device)
    for row, prompt in zip(padded, prompts, strict=True):
        row[: len(prompt)] = torch.tensor(prompt, device=device)
    size = model.output_weight().size(0)
    per_prompt = len(texts) // len(prompts)
    draw = _Draw(texts, [n for n in lengths for _ in range(per_prompt)], limit, end, sampling, told)
    generator = SamplingSequenceGenerator(
        Decoder(model, max(lengths) + limit + 1, cache),
        VocabularyInfo(size, unk_idx=None, bos_idx=end, eos_idx=end, pad_idx=None),
        draw,
        num_gens=per_prompt,
        max_gen_len=limit + 1,  # its last step is an end without asking the model
        temperature=1.0 if sampling.greedy else sampling.temperature,
        step_processors=[draw],
    )
    try:
        generator(padded, BatchLayout(tuple(padded.shape), lengths, device=device))
    except SequenceGenerationError:
        raise ZooError("the model answers with numbers that are not finite: its training diverged") from None
    finally:
        model.train(training)
