"""A method's card, read from Markdown: the only parser of cards.

    # ID — a phrase

    ## What it does
        the formula, indented

    ## Settings
    - `name`: meaning, continued on indented lines

    ## Claimed
    What the source reports. Checked in the parallel host as: worse than baseline; better than OTHER, ANOTHER.

    ## Source
    Where it is from. Redefined on 2026-01-31: what has changed; results from before that day no longer count.

Other sections are text. docs/writing-a-method.md says which there are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from zoo.errors import PluginError
from zoo.plugins.finder import MethodEntry
from zoo.plugins.resources import card_file

TITLE = re.compile(r"# (\S+) — (.+)\n\n")
HEADING = re.compile(r"^## ", re.MULTILINE)
SETTING = re.compile(r"^- `(\w+)`: (.+(?:\n +.+)*)", re.MULTILINE)
CHECKED = re.compile(r"\s*Checked(?: in the (parallel|sequential) host)? as: (.+?)\.\s*$")
UNWRITTEN = ("Nothing yet.", "What the source reports.")  # as a template leaves it: no claim
REDEFINED = re.compile(r"\bRedefined on (\d{4}-\d\d-\d\d)\b")
MEASURED = "Measured"  # the last section, which zoo-report writes


class Card(NamedTuple):
    """The parts of a card; id and phrase are empty where the title is not of the form above."""

    id: str
    phrase: str
    sections: Mapping[str, str]

    @property
    def formula(self) -> str:
        """The first line of the first code block; empty if there is none."""
        lines = [line for line in self.sections.get("What it does", "").splitlines() if line.startswith("    ")]
        return " ".join(lines[0].split()) if lines else ""

    @property
    def settings(self) -> dict[str, str]:
        """The meaning of every setting that the card explains, by name."""
        return {name: " ".join(meaning.split()) for name, meaning in SETTING.findall(self.sections.get("Settings", ""))}

    @property
    def claim(self) -> str:
        """What was claimed of the method, in words; empty where nobody has written that yet."""
        text = CHECKED.sub("", self._claimed)
        return "" if text in UNWRITTEN else text

    @property
    def checks(self) -> tuple[str, ...]:
        """The part of the claim that can be checked, clause by clause."""
        match = CHECKED.search(self._claimed)
        return tuple(match[2].split("; ")) if match else ()

    @property
    def checked_host(self) -> str:
        """The host in which the claim is checked; empty: in any."""
        match = CHECKED.search(self._claimed)
        return (match[1] or "") if match else ""

    @property
    def redefined(self) -> str:
        """The day on which the method was last redefined: what was measured before does not count. Empty: never."""
        return max(REDEFINED.findall(" ".join(self.sections.get("Source", "").split())), default="")

    @property
    def _claimed(self) -> str:
        return " ".join(self.sections.get("Claimed", "").split())

    def first_sentence(self, section: str) -> str:
        """The first sentence of a section, without its full stop; empty without the section."""
        text = " ".join(self.sections.get(section, "").split())
        return re.split(r"(?<=[.:;])\s", text)[0].rstrip(".:;")


def parse_card(text: str) -> Card:
    """The card in this text, whatever is missing from it."""
    title, *rest = HEADING.split(text)
    match = TITLE.fullmatch(title)
    parts = [section.partition("\n") for section in rest]
    sections = {name.strip(): text.strip("\n") for name, _, text in parts}
    return Card(match[1] if match else "", match[2] if match else "", sections)


def read_card(path: Path) -> Card:
    """The card in a file, which must begin with a title."""
    card = parse_card(path.read_text(encoding="utf-8"))
    if not card.id:
        raise PluginError(f"{path} does not begin with '# ID — a phrase' and an empty line")
    return card


def card_of(entry: MethodEntry) -> Card | None:
    """The card of an installed method, as much of it as can be read; None if there is none."""
    path = card_file(entry)
    try:
        return parse_card(path.read_text(encoding="utf-8", errors="replace")) if path else None
    except OSError:  # whoever needs the card will report it; a list leaves it out
        return None


def with_measured(card: str, measured: str) -> str:
    """The text of a card with this in its last section, "Measured"."""
    before = card.partition(f"\n## {MEASURED}\n")[0].rstrip("\n")
    return f"{before}\n\n## {MEASURED}\n{measured}"
