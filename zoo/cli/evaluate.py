"""`zoo-eval`: trained runs, and models of transformers, on tasks in files."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cli.arguments import Parser, ended_by_reader, failed
from zoo.cli.printing import say_json, warn

if TYPE_CHECKING:
    from zoo.evaluation.outcomes import Outcome
    from zoo.evaluation.tasks import Task
    from zoo.system.table import Table

PROGRAM = "zoo-eval"
EPILOG = """\
examples:
  zoo-eval runs/RUN --corpus my/texts                   loss and bits per byte of every document
  zoo-eval runs/RUN --pairs blimp/*.jsonl               minimal pairs: sentence_good, sentence_bad
  zoo-eval runs/A1 runs/A2 --against runs/B1 runs/B2 --cloze lambada.jsonl
                                                        the difference, over items and seeds
  zoo-eval bench --choices arc.jsonl                    every run of a bench that counts; then: zoo-report bench
  zoo-eval exported --against runs/RUN --cloze lambada.jsonl
                                                        what zoo-export wrote, or any Llama of transformers
  zoo-eval runs/RUN --harness my/tasks --task my_task   a task of lm-eval: pip install 'transformer-zoo[eval]'

A task is a file of JSON lines (docs/evaluation.md has the formats). Outcomes are written to evaluations.jsonl, in the store
of a bench or in the folder that was named; those that are there already are not measured again without --again.
"""


def parser() -> argparse.ArgumentParser:
    """What can be given."""
    of_command = Parser(
        PROGRAM, "Evaluate trained runs, and models of transformers, on tasks that are given as files.", EPILOG
    )
    add = of_command.add_argument
    add(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="the folder of a run, of a bench (all its runs that count), of zoo-export, or of a Llama of transformers",
    )
    add("--against", nargs="+", type=Path, default=[], metavar="RUN", help="runs to compare with, of the same seeds")
    for kind, meaning in (
        ("corpus", "a corpus, as data.corpus names it: loss and bits per byte"),
        ("pairs", "minimal pairs, as BLiMP has them"),
        ("cloze", "the last words of texts, as LAMBADA has them"),
        ("choices", "questions with choices, such as ARC, HellaSwag and PIQA"),
    ):
        add(f"--{kind}", nargs="+", action="extend", default=[], metavar="FILE", help=meaning)
    add("--harness", type=Path, metavar="DIR", help="a folder of task files of lm-eval, for --task")
    add("--task", nargs="+", action="extend", default=[], metavar="NAME", help="tasks of lm-eval, by name")
    add("--split", default="all", metavar="SPLIT", help="the split of a corpus: all (default), train, valid or test")
    add("--most", type=int, metavar="N", help="only the first N items of each task")
    add("--again", action="store_true", help="measure again even what has been measured")
    add("--json", action="store_true", help="print every outcome as JSON, without its items")
    return of_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the answer is its exit code."""
    command = parser()
    arguments = command.parse_args(argv)
    given = [(kind, source) for kind in ("corpus", "pairs", "cloze", "choices") for source in getattr(arguments, kind)]
    if not given and not arguments.task:
        command.error("name a task: --corpus, --pairs, --cloze or --choices FILE, or --task NAME")
    from zoo.errors import ZooError

    try:
        _evaluate(arguments, given)
        sys.stdout.flush()
    except (ZooError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            return ended_by_reader()
        return failed(PROGRAM, error)
    except KeyboardInterrupt:
        warn(PROGRAM, "interrupted; the same command continues with what is missing")
        return 128 + signal.SIGINT
    return 0


def _evaluate(arguments: argparse.Namespace, given: Sequence[tuple[str, str]]) -> None:
    from zoo.evaluation.tasks import open_task

    tasks: list[Task] = [open_task(kind, source, arguments.split, arguments.most) for kind, source in given]
    if arguments.task:
        from zoo.evaluation.harness import harness_tasks

        tasks += harness_tasks(arguments.task, arguments.harness, arguments.most)
    ours, theirs = _folders(arguments.runs), _folders(arguments.against)
    outcomes = {folder: _outcomes(folder, tasks, arguments.again) for folder in dict.fromkeys([*ours, *theirs])}
    if arguments.json:
        say_json([_row(folder, each) for folder, of_run in outcomes.items() for each in of_run])
        return
    from zoo.system.table import show

    tables = [_figures(outcomes)]
    if theirs:
        tables.append(_differences([outcomes[each] for each in ours], [outcomes[each] for each in theirs]))
    show(tables)


def _folders(given: Sequence[Path]) -> list[Path]:
    """The folders of runs that were named, and of a bench those of the runs that count, but not its tuning runs."""
    from zoo.bench.store import FILE, merged
    from zoo.bench.suite_notes import read_suite_notes
    from zoo.errors import ZooError
    from zoo.report.arm_results import arms

    folders = []
    for path in given:
        if not (path / FILE).is_file():
            folders.append(path)
            continue
        counting = [run for arm in arms(merged([path]), read_suite_notes([path])).values() for run in arm.runs]
        there = [each for run in counting for each in sorted((path / "runs").glob(f"*-s{run.seed}-{run.key[:8]}"))]
        if not there:
            raise ZooError(f"{path} has no folders of runs any more, only their results: run zoo-bench in it again")
        if len(there) < len(counting):
            warn(PROGRAM, f"{path}: {len(counting) - len(there)} of {len(counting)} runs have no folder any more")
        folders += there
    return list(dict.fromkeys(folders))


def _place(folder: Path) -> Path:
    """Where outcomes of a run are kept: in the store that it belongs to, else in its own folder."""
    from zoo.bench.store import FILE

    store = folder.resolve().parent.parent
    return store if folder.resolve().parent.name == "runs" and (store / FILE).is_file() else folder


def _outcomes(folder: Path, tasks: Sequence[Task], again: bool) -> list[Outcome]:
    """A run on every task: what is known already, and the rest measured and written down."""
    from zoo.evaluation.outcomes import read_outcomes, write_outcome
    from zoo.export.open_export import open_subject

    run = open_subject(folder)
    place, notes = _place(folder), list(run.notes)
    known = {} if again else {(each.run, each.step, each.identity): each for each in read_outcomes([place])}
    outcomes = []
    for task in tasks:
        before = known.get((run.key, run.step, task.identity))
        outcomes.append(before or task.measure(run))
        if before is None:
            write_outcome(place, outcomes[-1])
        notes += outcomes[-1].notes
    for note in dict.fromkeys(notes):
        warn(PROGRAM, f"{folder}: {note}")
    return outcomes


def _row(folder: Path, outcome: Outcome) -> dict[str, Any]:
    fields = ("run", "name", "seed", "task", "kind", "identity", "step", "items", "figures", "notes", "ended")
    return {"folder": str(folder), **{name: getattr(outcome, name) for name in fields}}


def _figures(outcomes: dict[Path, list[Outcome]]) -> Table:
    from zoo.system.table import Table

    rows = [
        (folder.name, outcome.name, str(outcome.seed), outcome.task, f"{outcome.items:,}", name, f"{value:.4f}")
        for folder, of_run in outcomes.items()
        for outcome in of_run
        for name, value in outcome.figures.items()
    ]
    return Table("Figures", ("run", "methods", "seed", "task", "items", "figure", "value"), tuple(rows))


def _differences(ours: Sequence[Sequence[Outcome]], theirs: Sequence[Sequence[Outcome]]) -> Table:
    from zoo.errors import ZooError
    from zoo.evaluation.pairing import paired_outcomes
    from zoo.system.table import Table

    rows = []
    for one, other in zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True):
        for measure in one[0].measures:
            try:
                found = paired_outcomes(one, other, measure)
            except ZooError as error:
                warn(PROGRAM, str(error))
                continue
            low, high = found.interval()
            cells = (
                f"{found.mean:+.4f}",
                f"{low:+.4f} … {high:+.4f}",
                "< 0.001" if found.p < 0.001 else f"{found.p:.3f}",
            )
            rows.append((one[0].task, measure, one[0].measures[measure].better, str(found.n), *cells))
    return Table(
        "Differences: RUN less --against, paired over items and seeds",
        ("task", "figure", "better", "seeds", "difference", "95 %", "p"),
        tuple(rows),
    )


if __name__ == "__main__":
    sys.exit(main())
