"""Standard output and error that outlive whoever reads them: a run of hours does not end with a pager or a terminal."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


class _Outlasting(io.RawIOBase):
    """A file descriptor; once it cannot be written any more, what is written goes nowhere."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # whatever has bytes
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:  # nobody has read for long from a pipe that does not wait
            pass
        except OSError:  # nobody reads any more, a full device, a terminal that is gone
            _to_nowhere(self._descriptor)
        return len(memoryview(data))


def outlast_readers() -> None:
    """Open what was closed, and replace this process's output and error by such that never fail."""
    for descriptor in range(3):  # a file of the run would get the number of a closed one, and with it stray messages
        try:
            os.fstat(descriptor)
        except OSError:
            _to_nowhere(descriptor)
    sys.stdout = _stream(1, sys.stdout, line_buffering=os.isatty(1))
    sys.stderr = _stream(2, sys.stderr, line_buffering=True)


def _stream(descriptor: int, before: TextIO | None, line_buffering: bool) -> TextIO:
    encoding, errors = (before.encoding, before.errors) if before else ("utf-8", "backslashreplace")
    buffered = io.BufferedWriter(_Outlasting(descriptor))
    return io.TextIOWrapper(buffered, encoding, errors, line_buffering=line_buffering)


def _to_nowhere(descriptor: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    else:
        os.set_inheritable(nowhere, True)
