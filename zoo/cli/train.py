"""`zoo-train`: train a method, a combination of methods, or the baseline."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli.arguments import GinParser
from zoo.stop import end_with_bench

if TYPE_CHECKING:
    from zoo.config import Config

PROGRAM = "zoo-train"
EPILOG = """\
examples:
  zoo-train                                             the baseline, with the default corpus and size
  zoo-train --gin METHOD                                a method, by the name of its Gin file
  zoo-train --gin METHOD --gin sizes/tiny               … in another size
  zoo-train --gin METHOD --set train.steps=500          … with another value
  torchrun --nproc-per-node 2 --no-python zoo-train --gin METHOD

The same command again continues a run that was interrupted, from its last checkpoint.
"""

# Large blocks stay with the process instead of going back to the system at each step, which costs a fifth of the time, and
# stand on large pages where the system offers them.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
RESTARTED = "ZOO_TRAIN_RESTARTED"


def parser() -> argparse.ArgumentParser:
    """What can be given."""
    made = GinParser(PROGRAM, "Train a language model with the methods that the Gin files name.", EPILOG)
    made.add_argument(
        "--gin", nargs="+", action="extend", default=[], metavar="FILE", help="a Gin file, or its bare name"
    )
    made.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="BINDING", help="a value, such as train.steps=500"
    )
    made.add_argument(
        "--run", type=Path, metavar="DIR", help="the run's folder (default: one named after what runs, in --runs)"
    )
    made.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="where folders of runs are (default: runs)"
    )
    made.add_argument(
        "--allow-leak",
        action="store_true",
        help="train a method that is declared to see later tokens, and stamp the run",
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the answer is its exit code."""
    arguments = parser().parse_args(argv)
    if argv is None:
        prepare_process()
        end_with_bench()
    if "RANK" in os.environ:  # DDP is told that parameters may be unused, and would warn when none is
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from zoo.errors import ZooError

    try:
        return _train(arguments)
    except ZooError as error:
        if _first():
            print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on from the last checkpoint, or begins again where there is none")
        return 128 + signal.SIGINT


def _train(arguments: argparse.Namespace) -> int:
    from zoo import config
    from zoo.summary import show
    from zoo.train import run

    loaded = config.load(arguments.gin, arguments.set)
    folder = arguments.run or arguments.runs / default_name(loaded)
    if not arguments.gin:
        _say("no --gin: this trains the baseline")
    over_before = _is_over(folder)
    summary = run(loaded, folder, allow_leak=arguments.allow_leak)
    if not _first():
        return 128 + summary.signal if summary.signal else 0
    if over_before:
        print(f"the run in {folder} is over; this is how it ended (another one: --run DIR)")
    show(summary, folder)
    if summary.status == "interrupted":
        _say(f"interrupted at step {summary.steps:,} and saved: the same command goes on from there")
        return 128 + summary.signal
    if summary.status == "diverged":
        _say(f"diverged: {summary.blew_up} at the first of the last skipped steps; a smaller train.lr may help")
    return 0


def default_name(config: Config) -> str:
    """A folder for this configuration and no other: the same command finds it again."""
    stems = "+".join(path.stem for path in config.given) or "baseline"
    return f"{stems}-{config.fingerprint()[:8]}"


def _is_over(folder: Path) -> bool:
    from zoo import summary

    found = summary.read(folder)
    return found is not None and found.over


def _first() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _say(text: str) -> None:
    if _first():
        print(f"{PROGRAM}: {text}", file=sys.stderr)


def prepare_process() -> None:
    """Settings of the C library and of its threads, before torch is there: the first are read only when a process starts."""
    # Threads wait for each other by spinning: best on a machine of one's own, but beside other work a step takes several
    # times as long, and they had better sleep soon. A bench decides for its runs: the later ones would count the earlier.
    busy = os.getloadavg()[0] > (os.cpu_count() or 1) / 2
    os.environ.setdefault("GOMP_SPINCOUNT", "3000" if busy else "300000")
    if RESTARTED in os.environ or all(name in os.environ for name in ENVIRONMENT):
        return
    try:
        is_glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, OSError, ValueError):
        is_glibc = False
    if is_glibc and sys.orig_argv and sys.executable:
        environment = {**ENVIRONMENT, **os.environ, RESTARTED: "1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


if __name__ == "__main__":
    sys.exit(main())
