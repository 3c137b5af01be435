"""The items of a task, read from a file of JSON lines: minimal pairs, cloze, multiple choice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.errors import ZooError
from zoo.system.foreign_text import one_line
from zoo.system.regular_files import open_regular, parse_object

LONGEST = 1 << 24  # bytes of a line


class Item(NamedTuple):
    """A context, the texts that may follow it, and which of them is right."""

    context: str
    endings: tuple[str, ...]
    right: int = 0


def read_items(kind: str, path: Path, most: int | None = None) -> list[Item]:
    """The items of a file, at most the first so many; a line that is none is refused by file and line."""
    convert = READERS[kind]
    items: list[Item] = []
    try:
        with open_regular(path) as file:
            for number, line in enumerate(_lines(file), start=1):
                if most is not None and len(items) >= most:
                    break
                if line.strip():
                    items.append(_item(convert, line, f"{path}, line {number}"))
    except OSError as error:
        raise ZooError(f"the task {path} cannot be read: {error.strerror or error}") from error
    if not items:
        raise ZooError(f"the task {path} has no items: it must have one JSON object on each line")
    return items


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise OSError(0, f"a line has more than {LONGEST:,} bytes")
        yield line


def _item(convert: Callable[[Mapping[str, Any]], Item], line: bytes, where: str) -> Item:
    try:
        row = parse_object(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, UnicodeDecodeError):
        raise ZooError(f"{where}: it is cut off or no JSON object") from None
    try:
        item = convert(row)
        "".join((item.context, *item.endings)).encode()
        if not all(item.endings):
            raise ValueError("a text is empty")
    except UnicodeEncodeError:
        raise ZooError(f"{where}: it has half of a character (a lone surrogate)") from None
    except ValueError as error:
        raise ZooError(f"{where}: {error}; it has {one_line(', '.join(map(str, row)), 100)}") from None
    return item


def pair_item(row: Mapping[str, Any]) -> Item:
    """A minimal pair, as BLiMP has it: `sentence_good` and `sentence_bad`."""
    return Item("", (_text(row, "sentence_good"), _text(row, "sentence_bad")))


def cloze_item(row: Mapping[str, Any]) -> Item:
    """A text whose last word is to be told, as LAMBADA has it: `text`; or `context` and `target`."""
    if "target" in row:
        return Item(_text(row, "context"), (_follow(_text(row, "context"), _text(row, "target")),))
    text = _text(row, "text").rstrip()
    context, space, word = text.rpartition(" ")
    if not context.strip() or not word:
        raise ValueError("text must be two words or more")
    return Item(context, (space + word,))


CONTEXTS = ("context", "query", "question", "ctx", "goal")  # as HellaSwag, ARC, PIQA and others name it
CHOICES = ("choices", "endings", "options")
ANSWERS = ("answer", "gold", "label", "answerKey")


def choice_item(row: Mapping[str, Any]) -> Item:
    """A question with choices: `context`, `choices` and `answer`, or as HellaSwag, ARC and PIQA name them."""
    context = _text(row, *CONTEXTS)
    labels: Sequence[Any] = ()
    if "sol1" in row:
        choices: Any = [row["sol1"], row.get("sol2")]
    else:
        choices = _one_of(row, CHOICES)
        if isinstance(choices, dict):  # ARC
            choices, labels = choices.get("text"), choices.get("label") or ()
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(each, str) for each in choices):
        raise ValueError("choices must be a list of two texts or more")
    right = _right(_one_of(row, ANSWERS), choices, labels)
    return Item(context, tuple(_follow(context, choice) for choice in choices), right)


def _right(answer: Any, choices: Sequence[str], labels: Sequence[Any]) -> int:
    """The number of the right choice: given as a number from 0, a label, a letter, or the text itself."""
    if answer in labels:
        return list(labels).index(answer)
    if isinstance(answer, str) and answer in choices:
        return choices.index(answer)
    if isinstance(answer, str) and len(answer) == 1 and answer.isascii() and answer.isupper():
        answer = ord(answer) - ord("A")
    if isinstance(answer, str) and answer.isdecimal() and len(answer) < 4:
        answer = int(answer)
    if type(answer) is not int or not 0 <= answer < len(choices):
        raise ValueError(f"answer {answer!r} is none of the {len(choices)} choices")
    return answer


def _follow(context: str, text: str) -> str:
    """The text as it goes on from the context: after a space, unless there is one."""
    return text if not context or context[-1].isspace() or text[:1].isspace() else f" {text}"


def _one_of(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    for name in names:
        if name in row:
            return row[name]
    raise ValueError(f"there is no {' or '.join(names)}" if len(names) > 1 else f"there is no {names[0]}")


def _text(row: Mapping[str, Any], *names: str) -> str:
    value = _one_of(row, names)
    if not isinstance(value, str):
        raise ValueError(f"{' or '.join(name for name in names if name in row)} is not text")
    return value


READERS: dict[str, Callable[[Mapping[str, Any]], Item]] = {
    "pairs": pair_item,
    "cloze": cloze_item,
    "choices": choice_item,
}


def identity(kind: str, items: Sequence[Item]) -> str:
    """What tells a task from every other: its kind and all of its items."""
    digest = hashlib.sha256(kind.encode())
    for item in items:
        digest.update(repr(tuple(item)).encode())
    return digest.hexdigest()[:16]
