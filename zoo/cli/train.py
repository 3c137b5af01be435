"""`zoo-train`: train a method, a combination of methods, or the baseline."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli.arguments import GinParser, ended_by_reader, failed
from zoo.cli.output import outlast_readers
from zoo.cli.printing import say_json, shown_log, warn
from zoo.system.process import prepare_process
from zoo.training.places import adopt_slurm, place
from zoo.training.signals import end_with_bench

if TYPE_CHECKING:
    from zoo.config.configuration import Config

PROGRAM = "zoo-train"
EPILOG = """\
examples:
  zoo-train                                             the baseline, with the default corpus and size
  zoo-train --gin METHOD                                a method, by the name of its Gin file
  zoo-train --gin METHOD --gin sizes/tiny               … in another size
  zoo-train --gin METHOD --set train.steps=500          … with another value
  zoo-train --gin recipes/law --plan                    the numbers that follow from the model's size
  zoo-train --settings warmup                           what can be set, and what it means
  torchrun --nproc-per-node 2 --no-python zoo-train --gin METHOD --folder DIR
  srun --ntasks 2 zoo-train --gin METHOD --run DIR      the same under Slurm

The same command again continues a run that was interrupted, from its last checkpoint.
torchrun takes --run for one of its own flags; --folder is the same.

Ctrl-C, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU finish the step, save and stop; a second signal stops at once.

exit codes:
  0       the run is over: finished, stopped early or diverged
  2       it could not begin or go on; a sentence says why
  128+N   it was stopped by signal N, and saved
"""


def parser() -> argparse.ArgumentParser:
    """What can be given."""
    parser = GinParser(PROGRAM, "Train a language model with the methods that the Gin files name.", EPILOG)
    parser.add_argument(
        "--gin", nargs="+", action="extend", default=[], metavar="FILE", help="a Gin file, or its bare name"
    )
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="BINDING", help="a value, such as train.steps=500"
    )
    parser.add_argument(
        "--run",
        "--folder",
        type=Path,
        metavar="DIR",
        help="the run's folder (default: one named after what runs, in --runs)",
    )
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="where folders of runs are (default: runs)"
    )
    parser.add_argument(
        "--allow-leak",
        action="store_true",
        help="train a method that is declared or seen to leak later tokens, and mark the run as leaking",
    )
    parser.add_argument(
        "--plan", action="store_true", help="print the numbers of the run, each with its formula, and stop"
    )
    parser.add_argument(
        "--settings",
        nargs="?",
        const="",
        metavar="WORD",
        help="list what --set takes, with defaults and meanings: all, those with a word in them, or a method's",
    )
    parser.add_argument("--json", action="store_true", help="print the summary, or the list of settings, as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the answer is its exit code."""
    if argv is None:
        outlast_readers()
    arguments = parser().parse_args(argv)
    if arguments.settings is not None:
        return show_settings(arguments.settings, arguments.json)
    from zoo.errors import RankError, ZooError

    try:
        adopt_slurm()
        place()
    except ZooError as error:  # nobody knows yet who is first: all speak
        return failed(PROGRAM, error)
    try:
        if argv is None:
            prepare_process()
            end_with_bench()
        if "RANK" in os.environ:  # DDP is told that parameters may be unused, and would warn when none is
            os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        return _train(arguments)
    except ZooError as error:
        if error.speaks if isinstance(error, RankError) else _first():
            return failed(PROGRAM, ZooError(_in_place(str(error))))
        return 2
    except KeyboardInterrupt:
        if argv is None:
            signal.signal(
                signal.SIGINT, signal.SIG_DFL
            )  # a second Ctrl-C ends the process as it ends, without a traceback
        _say("interrupted; the same command continues from the last checkpoint, or begins again where there is none")
        return 128 + signal.SIGINT


def show_settings(word: str, as_json: bool = False) -> int:
    """List what can be set."""
    import shutil

    from zoo.catalogue.settings_list import chosen, lines
    from zoo.errors import ZooError

    try:
        if as_json:
            say_json([entry._asdict() for group in chosen(word) for entry in group.entries])
            return 0
        print("\n".join(lines(chosen(word), min(shutil.get_terminal_size().columns, 120))), flush=True)
    except BrokenPipeError:
        return ended_by_reader()
    except ZooError as error:
        return failed(PROGRAM, error)
    return 0


def _train(arguments: argparse.Namespace) -> int:
    from zoo.config.load import load_config
    from zoo.runs.folder_names import default_folder
    from zoo.runs.summary import advice, print_summary, without_nan
    from zoo.training.trainer import run

    loaded = load_config(arguments.gin, arguments.set)
    if arguments.plan:
        return _plan(loaded)
    folder = arguments.run or default_folder(arguments.runs, loaded)
    if not arguments.gin:
        _say("no --gin: this trains the baseline")
    over_before = _is_over(folder)
    with shown_log(PROGRAM, _first()):
        summary = run(loaded, folder, allow_leak=arguments.allow_leak)
    if not _first():
        return 128 + summary.signal if summary.signal else 0
    if arguments.json:
        say_json({**without_nan(dataclasses.asdict(summary)), "folder": str(folder)})
    elif over_before:
        print(_in_place("this run has already finished; its results (to train again: --run DIR):"))
    if not arguments.json:
        print_summary(summary, folder)
    if summary.status == "interrupted":
        _say(f"interrupted at step {summary.steps:,} and saved: the same command continues from there")
        return 128 + summary.signal
    if summary.status == "diverged":
        _say(f"diverged: {summary.blew_up}; {advice(summary)}")
    if summary.status == "leaks":
        _say(f"stopped at step {summary.steps:,}, as its figures mean nothing: {summary.alarm}")
    return 0


def _plan(loaded: Config) -> int:
    """Print what would be trained, and how long."""
    import functools

    from zoo.counting.flops import training_cost
    from zoo.data.tokenizer import configured_size
    from zoo.system.table import show
    from zoo.training.plan import plan_table

    length, vocab_size = loaded.get("data.length"), configured_size({**loaded.defaults, **loaded.values})
    costs = training_cost(functools.partial(loaded.build, "model", vocab_size=vocab_size, max_length=length), length)
    table = plan_table(loaded)
    counted = (
        ("parameters", f"{costs.parameters:,}", "counted, embeddings and methods too"),
        ("training FLOPs per token", f"{costs.flops:.4g}", "counted, forward and backward"),
    )
    try:
        show([table._replace(rows=(*table.rows, *counted))])
    except BrokenPipeError:
        return ended_by_reader()
    return 0


def _is_over(folder: Path) -> bool:
    from zoo.runs.summary import read_summary

    summary = read_summary(folder)
    return summary is not None and summary.over


def _in_place(text: str) -> str:
    """A sentence with the spelling of the flag that can be used here: torchrun takes --run for its own --run-path."""
    return re.sub(r"(?<![\w-])--run(?![\w-])", "--folder", text) if "TORCHELASTIC_RUN_ID" in os.environ else text


def _first() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _say(text: str) -> None:
    if _first():
        warn(PROGRAM, text)


if __name__ == "__main__":
    sys.exit(main())
