"""Documents to tokens, by several processes at once, in order.

A process is started with the tokenizer's spec, reads chunks of documents from its input and writes their tokens to its
output, until its input ends. A chunk is a count, the size of each text, and the texts; an answer is the number of tokens
of each text, `eos` included, and the tokens.
"""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, NamedTuple, TypeVar

from zoo.data.shards import token_type
from zoo.data.tokenizer import open_tokenizer
from zoo.errors import DataError

if TYPE_CHECKING:
    import numpy as np

    from zoo.data.token_interface import Tokenizer

CHARACTERS, TEXTS = 1 << 20, 1 << 14  # of a chunk, about
SMALL = 8 << 20  # bytes: a corpus that is encoded before processes have started
AHEAD = 2  # chunks per process that wait for it, or for those before them


class Encoded(NamedTuple):
    """The tokens of some documents, each followed by `eos`."""

    tokens: np.ndarray
    counts: np.ndarray  # tokens of each document


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> Encoded:
    """The tokens of documents."""
    import numpy as np

    end = np.array([tokenizer.eos], token_type(tokenizer.vocab_size))
    rows = tokenizer.encode(texts)
    parts = [part for row in rows for part in (row, end)] or [end[:0]]
    return Encoded(np.concatenate(parts), np.array([len(row) + 1 for row in rows], np.int64))


Item = TypeVar("Item")


def chunks(items: Iterable[Item], text: Callable[[Item], str]) -> Iterator[list[Item]]:
    """Items in lists of about a megabyte of text."""
    chunk: list[Item] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += len(text(item))
        if size >= CHARACTERS or len(chunk) >= TEXTS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def encode_all(
    lists: Iterable[list[Item]], text: Callable[[Item], str], spec: str, size: int, workers: int
) -> Iterator[tuple[list[Item], Encoded]]:
    """Every list with the tokens of its texts, in order; `size`: about how many bytes they are."""
    if size < SMALL or workers < 1:
        tokenizer = open_tokenizer(spec)
        for each in lists:
            yield each, encode(tokenizer, [text(item) for item in each])
        return
    with _Workers(spec, workers) as pool:
        waiting: collections.deque[tuple[list[Item], Future[Encoded]]] = collections.deque()
        for each in lists:
            waiting.append((each, pool.submit([text(item) for item in each])))
            if len(waiting) > AHEAD * workers:
                items, future = waiting.popleft()
                yield items, future.result()
        while waiting:
            items, future = waiting.popleft()
            yield items, future.result()


class _Workers:
    """Processes, each with a thread here that talks to it."""

    def __init__(self, spec: str, count: int) -> None:
        self._kind = token_type(open_tokenizer(spec).vocab_size)
        self._command = [sys.executable, "-m", "zoo.data.encoding", spec]
        self._own = threading.local()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads = ThreadPoolExecutor(count, initializer=self._start)

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._processes:
            process.communicate()

    def submit(self, texts: list[str]) -> Future[Encoded]:
        return self._threads.submit(self._ask, texts)

    def _start(self) -> None:
        # The process inherits this thread's mask: Ctrl-C is for whoever started it, from its first instruction on.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self._own.process = process
        self._processes.append(process)

    def _ask(self, texts: list[str]) -> Encoded:
        import numpy as np

        process = self._own.process
        encoded = [text.encode() for text in texts]
        sizes = np.array([len(encoded), *map(len, encoded)], "<u8").tobytes()
        try:
            process.stdin.write(sizes + b"".join(encoded))
            process.stdin.flush()
            counts = np.frombuffer(_exactly(process.stdout, 8 * len(texts)), "<u8").astype(np.int64)
            tokens = _exactly(process.stdout, int(counts.sum()) * self._kind.itemsize)
        except (OSError, EOFError, ValueError) as error:
            raise DataError(
                f"a process that encodes ended with code {process.wait()}: run the same command again"
            ) from error
        return Encoded(np.frombuffer(tokens, self._kind), counts)


def _exactly(file: IO[bytes], size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def serve(spec: str, given: IO[bytes], answers: IO[bytes]) -> None:
    """Answer chunks until there are no more."""
    import numpy as np

    tokenizer = open_tokenizer(spec)
    kind = token_type(tokenizer.vocab_size)
    while head := given.read(8):
        sizes = np.frombuffer(_exactly(given, 8 * int.from_bytes(head, "little")), "<u8")
        texts = [_exactly(given, int(size)).decode() for size in sizes]
        tokens, counts = encode(tokenizer, texts)
        answers.write(counts.astype("<u8").tobytes() + tokens.astype(kind).tobytes())
        answers.flush()


if __name__ == "__main__":
    serve(sys.argv[1], sys.stdin.buffer, sys.stdout.buffer)
