"""Texts, drawn from a model by fairseq2's sampling generator."""

from __future__ import annotations

from zoo.system import fairseq2_setup  # noqa: F401  # before anything of fairseq2

# isort: split
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from fairseq2.data.tokenizers import VocabularyInfo
from fairseq2.generation import SequenceGenerationError
from fairseq2.generation.sampling import SamplingSequenceGenerator
from fairseq2.models.clm import CausalLM
from fairseq2.nn import BatchLayout, IncrementalStateBag
from torch import Tensor

from zoo.errors import ZooError
from zoo.state import State

if TYPE_CHECKING:
    from zoo.model.language_model import LanguageModel
from zoo.generation.sampling import Draw, OnToken, Sampling, Text

ROWS = 32  # texts that are made together


def state_bag(length: int) -> IncrementalStateBag:
    """An empty state for decoding up to `length` tokens."""
    return IncrementalStateBag(length + 1)


class Decoder(CausalLM):
    """A model for fairseq2's generators: up to any length, and if asked without its state.

    Without it only the tokens are kept, and every step runs the model over all of them. Rows beyond the vocabulary, which
    a model may have for speed, are never chosen.
    """

    def __init__(
        self, model: LanguageModel, max_length: int, cache: bool = True, vocab_size: int | None = None
    ) -> None:
        super().__init__(max_length)
        self.model = model
        self.vocab_size = vocab_size
        self.cache = cache

    def forward(
        self, seqs: Tensor, seqs_layout: BatchLayout | None = None, *, state_bag: IncrementalStateBag
    ) -> Tensor:
        if self.cache:
            logits: Tensor = self.model(seqs, state_bag=state_bag)
            return logits[..., : self.vocab_size]
        tokens = State(state_bag).append(self, "tokens", seqs, dim=1)
        hidden = self.model.hidden(tokens)[:, -seqs.size(1) :]
        return F.linear(hidden, self.model.output_weight()[: self.vocab_size])


def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    end: int,
    sampling: Sampling,
    *,
    max_tokens: int,
    samples: int = 1,
    cache: bool = True,
    on_token: OnToken | None = None,
    vocab_size: int | None = None,
) -> Iterator[Text]:
    """`samples` texts for each prompt, which has at least one token; `on_token` hears of each token as it is made.

    vocab_size: the tokens that there are, if the model has rows for more.
    """
    if max_tokens < 1 or samples < 1:
        raise ZooError("max-tokens and samples must be at least 1")
    for first in range(0, len(prompts), per_batch := max(1, ROWS // samples)):
        some = range(first, min(first + per_batch, len(prompts)))
        for start in range(0, samples, ROWS):
            texts = [Text(i, j, []) for i in some for j in range(start, min(start + ROWS, samples))]
            _run(model, [prompts[i] for i in some], texts, end, sampling, max_tokens, cache, on_token, vocab_size)
            yield from texts


def _run(
    model: LanguageModel,
    prompts: list[Sequence[int]],
    texts: list[Text],
    end: int,
    sampling: Sampling,
    limit: int,
    cache: bool,
    on_token: OnToken | None,
    vocab_size: int | None,
) -> None:
    device, training = model.output_weight().device, model.training
    lengths = [len(prompt) for prompt in prompts]
    padded = torch.full((len(prompts), max(lengths)), end, dtype=torch.int64, device=device)
    for row, prompt in zip(padded, prompts, strict=True):
        row[: len(prompt)] = torch.tensor(prompt, dtype=torch.int64, device=device)
    size = vocab_size or model.output_weight().size(0)
    per_prompt = len(texts) // len(prompts)
    draw = Draw(texts, [n for n in lengths for _ in range(per_prompt)], limit, end, sampling, on_token)
    generator = SamplingSequenceGenerator(
        Decoder(model, max(lengths) + limit + 1, cache, size),
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
