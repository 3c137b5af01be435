"""The folders of a bench's runs: where each is, and whether the run in it can be continued."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from zoo.bench.arms import Job
from zoo.bench.collect import collect
from zoo.bench.freshness import is_another_run
from zoo.errors import ZooError
from zoo.runs.lost_rows import check_rows
from zoo.runs.metrics import METRICS
from zoo.runs.run_folder import begun, operative, read_provenance
from zoo.runs.summary import read_summary
from zoo.system.files import write_atomically
from zoo.system.foreign_text import file_name, one_line

DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)  # what a damaged file raises


def run_folder(store: Path, job: Job) -> Path:
    """The folder of a run."""
    return store / "runs" / f"{file_name(job.arm.name)}-s{job.seed}-{job.key[:8]}"


def is_over(folder: Path) -> bool:
    """Whether the folder holds a run that has ended; one that was only begun, or cannot be read, has not."""
    try:
        summary = read_summary(folder)
    except ZooError:
        return False
    return summary is not None and summary.over


def write_config(store: Path, job: Job) -> Path:
    """Write the Gin file that a run is started with."""
    file = store / "configs" / f"{run_folder(store, job).name}.gin"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, job.text)
    return file


def clear_folder(job: Job, folder: Path, again: bool) -> str:
    """Set aside a folder that is damaged or holds another run; of damage a sentence tells, which is returned."""
    if not begun(folder):
        return ""
    if damage := _damage(job, folder):
        return f"{damage}; the folder was moved to {set_aside(folder).name}, and it is run again"
    if is_another_run(folder, job, again):
        set_aside(folder)
    return ""


def set_aside(folder: Path) -> Path:
    """Rename a folder to a name that is free, which is returned."""
    names = (folder.with_name(f"{folder.name}-before-{i}") for i in itertools.count(1))
    return folder.rename(next(name for name in names if not name.exists()))


def description(error: Exception) -> str:
    """An error in a few words, on one line."""
    if isinstance(error, json.JSONDecodeError):
        return "it is no JSON"
    return one_line(str(error) if isinstance(error, ZooError) else f"{type(error).__name__}: {error}", 120)


def _damage(job: Job, folder: Path) -> str:
    """What is wrong with the files of a run that was begun; empty where they can be read."""
    for name, read in (
        ("versions.json", lambda: read_provenance(folder)["corpus"]),
        ("operative.gin", lambda: operative(folder)),
        ("summary.json", lambda: read_summary(folder)),
        (METRICS, lambda: _check_results(job, folder)),
    ):
        try:
            read()
        except (ZooError, *DAMAGE) as error:
            return f"{folder / name} cannot be read ({description(error)})"
    return ""


def _check_results(job: Job, folder: Path) -> None:
    """Refuse a run that is over and whose metrics have lines that are no rows: readers pass over those."""
    summary = read_summary(folder)
    if summary is not None and summary.over:
        check_rows(folder)
        collect(job, folder)
