"""Printing text that others may have written: it cannot act on the terminal."""

from __future__ import annotations

import json
import logging
import sys
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


class PrintableFormatter(logging.Formatter):
    """Formats log records as text for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
