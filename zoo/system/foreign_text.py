"""Text that others wrote (names in a store, cards, Gin lines) where it could do more than be read.

On a terminal it must not move the cursor or open links, in Markdown it must not become HTML or break a table, in a figure it
must not be parsed as mathematics, and as the name of a file it must not lead anywhere else.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

LONGEST = 100  # characters of a file's name: well below what any system takes, with what is added to it
# Control characters but for tab and newline; marks that reorder what follows; halves of characters, which cannot be printed.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
SPECIAL = re.compile(f"{CONTROL.pattern}|[\n\t\\\\`|\\[<&]")  # what Markdown may have to escape
MARKUP = re.compile(r"[\\`|\[]|<(?=[A-Za-z/!?])|&(?=#?\w+;)")
HARMFUL = re.compile(r"[^\w.+-]+")


def printable(text: str) -> str:
    """The text for a terminal: characters that would act on it are written as escapes, `\\x1b` and the like."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def json_printable(text: str) -> str:
    """JSON for a terminal: characters that would act on it are written as JSON's escapes, so that its meaning stays."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str, longest: int = 0) -> str:
    """The printable text without line breaks, cut off after so many characters (0: never)."""
    line = " ".join(printable(text).split()) if "\n" in text or "\t" in text else printable(text)
    return f"{line[: longest - 1]}…" if longest and len(line) > longest else line


def is_plain(text: str) -> bool:
    """Whether Markdown takes the text as it is."""
    return not SPECIAL.search(text)


def markdown(text: str) -> str:
    """The text as part of a line of Markdown: no HTML, links, code or further columns come of it; emphasis may."""
    if is_plain(text):  # most texts, and quick: a report has a million of them
        return text
    return MARKUP.sub(lambda match: f"\\{match[0]}", one_line(text))


def label(text: str, longest: int = 60) -> str:
    """The text as a label in a figure: matplotlib would take what is between two $ for a formula."""
    return one_line(text, longest).replace("$", r"\$")


def file_name(text: str) -> str:
    """A name for a file or folder: the text itself where that is harmless, else what is left of it and a hash of the whole."""
    harmless = HARMFUL.sub("_", unicodedata.normalize("NFC", printable(text))).lstrip(".-")
    if harmless == text and 0 < len(harmless) <= LONGEST:
        return harmless
    return f"{harmless[:LONGEST]}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}".lstrip("-")
