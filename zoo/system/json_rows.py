"""Lines of JSON as records: a line that is no such record costs that line alone, with a warning that says where it is."""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
import types
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from zoo.system.foreign_text import one_line

SHOWN = 5  # lines of a file that are reported one by one
T = TypeVar("T")
Warn = Callable[[str], None]
Point = tuple[int, int, float, float]  # step, tokens, seconds of training, loss


class Points(Sequence[Point]):
    """A curve, packed: a store has more points than anything else, and most of them are never looked at."""

    __slots__ = ("_numbers",)

    def __init__(self, numbers: Iterable[float]) -> None:
        """From four numbers of each point, one point after the other."""
        self._numbers = array("d", numbers)

    def __len__(self) -> int:
        return len(self._numbers) // 4

    def columns(self) -> tuple[Sequence[float], ...]:
        """Steps, tokens, seconds and losses."""
        return tuple(self._numbers[i::4] for i in range(4))

    def __iter__(self) -> Iterator[Point]:
        steps, tokens, seconds, losses = self.columns()
        return zip(map(int, steps), map(int, tokens), seconds, losses, strict=True)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> list[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | list[Point]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = range(len(self))[index] * 4
        step, tokens, seconds, loss = self._numbers[place : place + 4]
        return int(step), int(tokens), seconds, loss


@functools.cache
def warn(text: str) -> None:
    """Say it where errors go; once, however often a file is read."""
    print(f"warning: {one_line(text)}", file=sys.stderr, flush=True)


def parsed(text: str | bytes) -> Any:
    """What a text of JSON says; ValueError for what is none, nests too deeply or holds an integer of absurd length."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def records(
    path: Path | GrowingFile, noun: str, convert: Callable[[dict[str, Any]], T | None], warn: Warn
) -> Iterator[T]:
    """The records of a file, line by line, or of what was added to it; `noun` is what a warning calls one.

    `convert` leaves out, silently, what is of an earlier format: None.
    """
    growing = path if isinstance(path, GrowingFile) else GrowingFile(path)
    path, wrong = growing.path, 0
    for number, line in growing.new_lines():
        try:
            row = parsed(line)
            if not isinstance(row, dict):
                raise ValueError("it is no JSON object")
            record = convert(row)
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
            wrong += 1
            if wrong <= SHOWN:
                warn(f"{path}, line {number}: no {noun} and left out: {_reason(error)}")
            continue
        if record is not None:
            yield record
    if wrong > SHOWN:
        warn(f"{path}: {wrong - SHOWN} more such lines are left out")


class GrowingFile:
    """A file that lines are added to: each is read once, unless the file is another one by now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start_over()

    def _start_over(self) -> None:
        self._end, self._count, self._last = 0, 0, b""  # of what was read: its bytes, its lines, the last of them

    def is_other(self) -> bool:
        """Whether what was read no longer stands there; then all is read again."""
        if not self._end:
            return False
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._end - len(self._last))
                if file.read(len(self._last)) == self._last:
                    return False
        self._start_over()
        return True

    def new_lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines since, with their numbers; one without its end is read again, as it may be half written."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._end)
            for number, line in enumerate(file, self._count + 1):
                if line.endswith(b"\n"):
                    self._end, self._count, self._last = self._end + len(line), number, line
                if line.strip():
                    yield number, line


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return "it is cut off or no JSON"
    return one_line(str(error), 200)


def check(row: dict[str, Any], kind: type[Any]) -> None:
    """TypeError for a value that the dataclass does not have there."""
    for name, fits, expected in _checks(kind):  # type: ignore[arg-type]
        if name in row and not fits(row[name]):
            raise TypeError(f"{name} is not {expected}")


@functools.cache
def _checks(kind: type[Any]) -> list[tuple[str, Callable[[Any], bool], str]]:
    hints = get_type_hints(kind)
    return [(each.name, _check(hints[each.name]), str(each.type)) for each in fields(kind)]


def _check(expected: Any) -> Callable[[Any], bool]:
    """A test of values for an annotation made of plain types, lists, tuples and dictionaries."""
    origin, args = get_origin(expected) or expected, get_args(expected)
    if expected is Any:
        return lambda value: True
    if expected is type(None):
        return lambda value: value is None
    if origin in (Union, types.UnionType):
        some = [_check(each) for each in args]
        return lambda value: any(fits(value) for fits in some)
    if origin is Literal:
        return lambda value: value in args
    if expected == Sequence[Point]:
        return _points
    if origin in (dict, Mapping):  # JSON has no keys but texts
        if args[1] is str:
            return lambda value: type(value) is dict and set(map(type, value.values())) <= {str}
        of_values = _check(args[1])
        return lambda value: type(value) is dict and all(map(of_values, value.values()))
    if origin is list:
        (each,) = map(_check, args)
        return lambda value: isinstance(value, list) and all(map(each, value))
    if origin is tuple:
        parts = [_check(each) for each in args]
        return lambda value: (
            isinstance(value, list | tuple)
            and len(value) == len(parts)
            and all(fits(part) for fits, part in zip(parts, value, strict=True))
        )
    if expected is float:
        return lambda value: type(value) in (int, float) and _finite(value)
    if expected is int:
        return lambda value: type(value) is int and abs(value) < 2**63
    return lambda value: type(value) is expected


def _points(value: Any) -> bool:
    """Whether these are the points of a curve."""
    return isinstance(packed(value), Points)


def columns(points: Sequence[Point]) -> tuple[Sequence[float], ...]:
    """Steps, tokens, seconds and losses of a curve."""
    if isinstance(points, Points):
        return points.columns()
    return tuple([point[i] for point in points] for i in range(4))


def packed(value: Any) -> Any:
    """The points of a curve, packed; anything else as it is. The quick way, as there are more of them than of all else."""
    if type(value) is not list or not set(map(type, value)) <= {list} or not set(map(len, value)) <= {4}:
        return value
    numbers = list(itertools.chain.from_iterable(value))
    return Points(numbers) if set(map(type, numbers)) <= {int, float} and math.isfinite(sum(numbers)) else value


def _finite(value: float) -> bool:
    """Also not too large: an integer of 400 digits is no float."""
    return -1e300 < value < 1e300 or (isinstance(value, float) and math.isnan(value))
