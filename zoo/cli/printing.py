"""Printing text that others may have written: it cannot act on the terminal."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

from zoo.system.foreign_text import json_printable, printable


def say(text: str) -> None:
    """Print a text for the reader of standard output."""
    print(printable(text), flush=True)


def warn(program: str, text: str) -> None:
    """Print a note of a program on standard error."""
    print(printable(f"{program}: {text}"), file=sys.stderr, flush=True)


def say_json(value: Any) -> None:
    """Print a value as JSON for people and programs alike."""
    print(json_printable(json.dumps(value, indent=1, ensure_ascii=False)), flush=True)


@contextlib.contextmanager
def shown_log(program: str, show: bool = True) -> Iterator[None]:
    """Show what the core logs: what takes a while."""
    log, handler = logging.getLogger("zoo"), logging.StreamHandler()
    handler.setFormatter(PrintableFormatter(f"{program}: %(message)s"))
    if show:
        log.addHandler(handler)
    before = log.level
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)


class PrintableFormatter(logging.Formatter):
    """Formats log records as text for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
