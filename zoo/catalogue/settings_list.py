"""The list of settings that `zoo-train --settings` prints and docs/settings.md holds."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from zoo.catalogue.core_settings import Entry, Group, core
from zoo.catalogue.method_settings import of_method
from zoo.errors import ConfigError, nearest
from zoo.plugins.registry import installed
from zoo.system.foreign_text import printable


def chosen(word: str) -> list[Group]:
    """The groups that a word asks for: a method, a configurable, or every setting that has it in its name or meaning."""
    if not word:
        return list(core())
    registry = installed()
    if registry.claims(word) or word in registry.names():
        return [of_method(part.entry.name) for part in registry.parts(word)]
    if named := [group for group in core() if group.name == word]:
        return named
    groups = []
    for group in core():
        entries = tuple(e for e in group.entries if word.lower() in f"{e.key} {e.fits} {e.meaning}".lower())
        if entries:
            groups.append(group._replace(entries=entries))
    if not groups:
        names = [entry.key for group in core() for entry in group.entries]
        near = nearest(word, [*names, *(name.partition(".")[2] for name in names), *registry.ids()])
        raise ConfigError(f"no setting has {word!r} in its name or meaning{near}; zoo-train --settings lists all")
    return groups


def lines(groups: list[Group], width: int) -> Iterator[str]:
    """The list for a terminal: `key = default`, so that it can be copied, with type and limits, and the meaning below."""
    return map(printable, _lines(groups, width))


def _lines(groups: list[Group], width: int) -> Iterator[str]:
    longest = max((len(_binding(entry)) for group in groups for entry in group.entries), default=0)
    column = min(longest, 32)
    for number, group in enumerate(groups):
        if number:
            yield ""
        yield f"{group.name}: {group.phrase}" if group.phrase else group.name
        if not group.entries:
            yield "  no settings"
        for entry in group.entries:
            yield f"  {_binding(entry).ljust(column)}  {entry.fits}"
            yield from textwrap.wrap(entry.meaning, width, initial_indent=" " * 6, subsequent_indent=" " * 6)


def _binding(entry: Entry) -> str:
    return f"{entry.key} = {entry.default}"


def markdown(groups: list[Group]) -> str:
    """The list as tables."""
    parts = []
    for group in groups:
        rows = [f"| `{e.key}` | `{e.default}` | {_cell(e.fits)} | {_cell(e.meaning)} |" for e in group.entries]
        head = ["| setting | default | type | meaning |", "| --- | --- | --- | --- |"]
        parts.append("\n".join([f"## {group.name}", "", f"{group.phrase}.", "", *head, *rows]) + "\n")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
