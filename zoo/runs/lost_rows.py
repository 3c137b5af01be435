"""What the records of a run have lost since its checkpoint was written: told when it resumes, and mended as far as possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from zoo.errors import RunError
from zoo.runs.metrics import METRICS
from zoo.system.files import write_atomically
from zoo.system.regular_files import parse_object, read_regular


class Line(NamedTuple):
    """A line of the records that can be read."""

    text: str
    kind: str
    step: int


def mend(folder: Path, marks: Mapping[str, int], step: int, log_every: int) -> list[str]:
    """A sentence for each loss before this step; lines that cannot be read are left out of the file."""
    file, before = folder / METRICS, marks.get(METRICS, 0)
    try:
        data = read_regular(file)
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}; remove it to resume without it") from error
    lines, unreadable = _lines(data[:before])
    readable = [line for line in lines if line.step <= step]
    messages = []
    if unreadable:
        messages.append(f"{unreadable} unreadable {'line' if unreadable == 1 else 'lines'} of {file} were left out")
    if unreadable or len(data) < before:
        logged = {line.step for line in readable if line.kind in ("train", "skipped")}
        missing = [n for n in range(log_every, step + 1, log_every) if n not in logged]
        what = f"the rows of steps {_ranges(missing, log_every)}" if missing else "some of its rows"
        messages.append(f"{file} lacks {what}")
        if file.exists():
            write_atomically(file, "".join(f"{line.text}\n" for line in readable))
    return messages + _lost_events(folder, marks)


def check_rows(folder: Path) -> None:
    """Refuse records with a line that is no row; a reader of them would leave it out."""
    _, unreadable = _lines(read_regular(folder / METRICS))
    if unreadable:
        raise RunError(
            f"it has {unreadable:,} {'line that is no row' if unreadable == 1 else 'lines that are no rows'}"
        )


def _lines(data: bytes) -> tuple[list[Line], int]:
    """The whole lines that are rows, and how many are not."""
    lines, unreadable = [], 0
    for raw in data.split(b"\n")[:-1]:  # what follows the last newline was never finished
        try:
            row = parse_object(raw)
            lines.append(Line(raw.decode("utf-8"), str(row["kind"]), int(row["step"])))
        except (ValueError, KeyError, TypeError):
            unreadable += 1
    return lines, unreadable


def _ranges(logged: Iterable[int], every: int) -> str:
    """The steps that these rows stand for, each for the `every` steps up to its own: "1–30, 41–50"."""
    ranges: list[list[int]] = []
    for last in logged:
        if ranges and ranges[-1][1] == last - every:
            ranges[-1][1] = last
        else:
            ranges.append([last - every + 1, last])
    return ", ".join(f"{first:,}–{last:,}" if first < last else f"{first:,}" for first, last in ranges)


def _lost_events(folder: Path, marks: Mapping[str, int]) -> list[str]:
    damaged = [name for name, size in marks.items() if name != METRICS and _size(folder / name) < size]
    return [f"{folder / name} is gone or cut off: TensorBoard lacks a part of the run" for name in damaged]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
