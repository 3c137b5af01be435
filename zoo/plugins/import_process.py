"""Importing plugins in a process of their own: one that hangs, exits or crashes is named, and the others are seen."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from zoo.plugins.finder import MethodEntry

PATIENCE = 60.0  # seconds for one plugin, the first with torch included


def looks(
    methods: Sequence[MethodEntry], see: Callable[[MethodEntry], Any], failed: Callable[[str], Any]
) -> Iterator[tuple[MethodEntry, Any]]:
    """What `see` answers for each plugin, in another process; where that does not answer, what `failed` makes of why."""
    remaining = list(methods)
    while remaining:
        with _Child(remaining, see) as child:
            while remaining:
                method = remaining.pop(0)
                answer = child.answer()
                if isinstance(answer, str):
                    yield method, failed(answer)
                    break  # a new process for the rest
                yield method, answer[0]


class _Child:
    """A forked process that sees one plugin after the other; what it prints goes to our stderr when it is over."""

    def __init__(self, methods: Sequence[MethodEntry], see: Callable[[MethodEntry], Any]) -> None:
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115  # closed in __exit__
        self.pipe, theirs = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")  # it inherits sys.path and what is imported
        self.process = context.Process(
            target=_work, args=(theirs, list(methods), see, self.printed.fileno()), daemon=True
        )
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of threads: the child starts none of ours
            self.process.start()
        theirs.close()

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.printed.seek(0)
        sys.stderr.write(self.printed.read().decode(errors="replace"))
        self.printed.close()

    def answer(self) -> tuple[Any] | str:
        """What was seen of the next plugin, in a tuple; or why nothing was."""
        try:
            if self.pipe.poll(PATIENCE):
                return (self.pipe.recv(),)
        except (EOFError, OSError):
            self.process.join(5)
            return _ended(self.process.exitcode)
        return f"importing it takes more than {PATIENCE:.0f} s: it was given up (again: zoo-plugins --fresh)"


def _ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"importing it ends the process with {signal.Signals(-code).name}"
    return f"importing it ends the process with exit code {code}"


def _work(pipe: Connection, methods: list[MethodEntry], see: Callable[[MethodEntry], Any], printed: int) -> None:
    for stream in (1, 2):
        os.dup2(printed, stream)
    sys.stdout = sys.stderr = open(printed, "w", buffering=1, closefd=False)  # noqa: SIM115  # until the process ends
    for method in methods:
        pipe.send(see(method))
