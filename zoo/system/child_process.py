"""A call in a process of its own, whose libraries and memory are gone with it."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from zoo.errors import ZooError

T = TypeVar("T")


def without_torch(function: Callable[..., T], *args: Any) -> T:
    """What a function that imports torch returns or raises, called in a child unless torch is here already.

    Torch takes more than half a gigabyte, and a process cannot give it back. The answer is pickled.
    """
    if "torch" in sys.modules:  # nothing to save; and its threads do not survive a fork
        return function(*args)
    context = multiprocessing.get_context("fork")  # it inherits sys.path and what is imported
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(theirs, function, args), daemon=True)
    child.start()
    theirs.close()
    try:
        returned, answer = ours.recv()
    except EOFError:
        child.join()
        raise ZooError(f"the process that builds the models ended with exit code {child.exitcode}") from None
    finally:
        child.kill()  # it has answered, or nobody waits for its answer
        child.join()
        ours.close()
    if returned:
        return answer
    raise answer


def _answer(pipe: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """In the child: send whether the function returned, and what it returned or raised."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then ends the child
    try:
        answer = True, function(*args)
    except Exception as error:
        answer = False, error
    sys.stdout.flush()
    sys.stderr.flush()
    pipe.send(answer)
