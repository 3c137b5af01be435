"""`zoo-bench`: train a method and its matched baselines, and say with evidence whether it helps."""

from __future__ import annotations

import argparse
import functools
import math
import signal
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli.arguments import GinParser, failed, folder, seen_enough

if TYPE_CHECKING:
    from zoo.arms import Arm
    from zoo.suite import Suite

PROGRAM = "zoo-bench"
EPILOG = """\
examples:
  zoo-bench --gin METHOD --seeds 3                      a method against its baselines (several --gin: a combination)
  zoo-bench --suite v1 --plan                           what a suite will run, and how long it should take
  zoo-bench --suite v1 --jobs 2                         … and run it; the same command again goes on where it was
  zoo-bench --suite v1 --methods ONE,OTHER              … some of its methods
  zoo-report bench                                      the report again, from the store
"""


def parser() -> argparse.ArgumentParser:
    description = "Train methods and baselines matched in parameters and FLOPs over paired seeds, and compare them."
    made = GinParser(PROGRAM, description, EPILOG)
    made.add_argument(
        "--gin", nargs="+", action="extend", default=[], metavar="FILE", help="Gin files, as for zoo-train"
    )
    made.add_argument("--set", nargs="+", action="extend", default=[], metavar="BINDING", help="a value, for every arm")
    made.add_argument("--suite", metavar="NAME", help="a suite: gin/suites/NAME.gin, or a path")
    made.add_argument("--methods", metavar="A,B+C", help="the methods to judge, instead of the suite's")
    made.add_argument("--seeds", type=int, metavar="N", help="paired seeds for every arm")
    made.add_argument("--lrs", metavar="X,Y", help="learning rates to try for every arm, as multiples of its own")
    made.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time, sharing the cores (default: 1)")
    made.add_argument(
        "--store", type=Path, default=Path("bench"), metavar="DIR", help="results and runs (default: bench)"
    )
    made.add_argument("--again", action="store_true", help="run methods again whose code has changed since their runs")
    made.add_argument(
        "--plan", action="store_true", help="print what would be run and how long it should take, and stop"
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    from zoo.cli.train import prepare_process
    from zoo.errors import ZooError

    if argv is None:
        prepare_process()
    try:
        code = _bench(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        seen_enough()
        return 128 + signal.SIGPIPE  # it may not be over
    except (ZooError, OSError) as error:
        return failed(PROGRAM, error)
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; the same command goes on where it was", file=sys.stderr)
        return 130


def _bench(options: argparse.Namespace) -> int:
    from zoo import bench, report
    from zoo.errors import ZooError
    from zoo.store import Store, known, remember
    from zoo.table import show

    if options.jobs < 1:
        raise ZooError(f"--jobs {options.jobs} must be at least 1")
    if not options.gin and not options.suite and not options.methods:
        raise ZooError("name a method (--gin METHOD, see zoo-plugins) or a suite (--suite NAME)")
    arms, suite = chosen(options)
    if options.plan:
        _plan(arms, suite, options)
        return 0
    bench.check_corpora(arms)
    folder("--store", options.store)
    judged = {arm.id: arm.baselines for arm in arms if arm.match == "method"}
    store = Store(options.store)
    with store.held():
        remember(store.folder, Path(options.suite).stem if options.suite else "", judged, suite.twins)
        failures = bench.run(arms, suite, store, options.jobs, _say, options.again)
        results = list(store.read().values())
        if results:
            found = report.Report.of(results, known([store.folder]))
            report.write(found, store.folder)
            show(found.only({arm.id for arm in arms}).tables())
            report.tell(found, store.folder)
    for failure in failures:
        print(f"{PROGRAM}: {failure}", file=sys.stderr)
    return 1 if failures else 0


def chosen(options: argparse.Namespace) -> tuple[list[Arm], Suite]:
    """The arms that the options ask for, each once, and the suite they belong to."""
    from zoo import config
    from zoo.arms import arms_of
    from zoo.errors import ConfigError, ZooError

    files = [*([suite_file(options.suite)] if options.suite else []), *options.gin]
    bindings = list(options.set)
    if options.seeds is not None:
        bindings.append(f"suite.seeds = {options.seeds}")
    if options.lrs is not None:
        bindings.append(f"suite.lrs = {rates(options.lrs)}")
    loaded = config.load(files, bindings)
    suite: Suite = loaded.build("suite")
    names = suite.methods if options.methods is None else listed("--methods", options.methods)
    if loaded.get("train.seed") != 1:
        raise ConfigError("a bench gives its runs the seeds 1, 2, …: bind suite.seeds, or --seeds N, not train.seed")
    named = options.suite or "suite.hosts" in loaded.values
    if named and "model.parallel" in loaded.values:
        raise ConfigError("a suite says where its methods stand: bind suite.hosts in place of model.parallel")
    found: dict[str, Arm] = {}
    for host in suite.hosts if named else (None,):
        for name in names or ("",):
            method = [part for part in name.split("+") if part]
            try:
                arms = arms_of([*files, *method], bindings, suite, host)
            except ZooError as error:
                if not name:
                    raise
                raise ZooError(f"{name}: {error}") from error
            for arm in arms:
                found.setdefault(arm.id, arm)
    if not found:
        raise ZooError("there is nothing to run: name a method, or a baseline in suite.baselines")
    return list(found.values()), suite


def listed(flag: str, text: str) -> tuple[str, ...]:
    """What stands between the commas."""
    from zoo.errors import ZooError

    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise ZooError(f"{flag} {text!r}: name one or several, with commas between them")
    return found


def rates(text: str) -> tuple[float, ...]:
    from zoo.errors import ZooError

    try:
        found = tuple(map(float, listed("--lrs", text)))
    except ValueError:
        found = ()
    if not found or not all(map(math.isfinite, found)):
        raise ZooError(f"--lrs {text!r}: write numbers with commas between them, as in --lrs 0.5,1,2")
    return found


def suite_file(name: str) -> str:
    """Where a suite is that was named, or given by its path."""
    from zoo import config
    from zoo.errors import ConfigError, nearest
    from zoo.plugins import project_gin

    if Path(name).is_file():
        return name
    try:
        return str(config.find(f"suites/{name}"))
    except ConfigError as error:
        known = sorted({path.stem for folder in project_gin() for path in folder.glob("suites/*.gin")})
        raise ConfigError(
            f"there is no suite {name}{nearest(name, known)}: name {', '.join(known)}, or the path of a Gin file"
        ) from error


def _plan(arms: Sequence[Arm], suite: Suite, options: argparse.Namespace) -> None:
    from zoo import bench, costs, forecast
    from zoo.errors import ZooError
    from zoo.store import Store
    from zoo.summary import duration
    from zoo.table import Table, show

    kept, by_id = Store(options.store).read(), {arm.id: arm for arm in arms}
    plain = min(arms, key=lambda arm: arm.flops)
    pace = functools.cache(functools.partial(forecast.pace, plain, bench.threads(options.jobs)))
    rows, least, most = [], 0.0, 0.0
    for arm in arms:
        few, many = forecast.missing(arm, suite, kept)
        took = [result.seconds for result in kept.values() if result.arm == arm.id and result.status == "finished"]
        if took or not many:
            each = statistics.median(took) if took else 0.0
        else:
            each = pace().start + arm.steps * pace().step * arm.flops / plain.flops
        least, most = least + few * each, most + many * each
        off = [
            f"{kind} {by_id[id].spent.off_by(arm.spent, kind):+.3%}"
            for kind, id in arm.baselines.items()
            if kind != "none"
        ]
        rows.append(
            (arm.name, arm.match, arm.host, f"{arm.parameters:,}", f"{arm.flops:.3g}", str(arm.steps))
            + (
                str(suite.seeds + len(suite.lrs) - 1),
                _range(str(few), str(many)),
                _range(duration(few * each), duration(many * each)),
                ", ".join(off) or "–",
            )
        )
    head = (
        "arm",
        "match",
        "host",
        "parameters",
        "FLOPs a token",
        "steps",
        "runs",
        "to run",
        "time",
        "matches are off by",
    )
    show([Table("Plan", head, tuple(rows), brief=("arm", "match", "parameters", "steps", "runs", "to run", "time"))])
    print(
        f"about {_range(duration(least / options.jobs), duration(most / options.jobs))} with {options.jobs} at a time,"
        " by what such runs took or would take"
    )
    unmeasured = costs.missing(arms, costs.read(options.store), options.again) if suite.costs else {}
    if unmeasured:
        print(f"… then time and memory of {sum(map(len, unmeasured.values()))} arms, about half a minute each")
    try:
        bench.check_corpora(arms)
    except ZooError as error:
        print(f"… but not here: {error}")


def _range(low: str, high: str) -> str:
    """More is to be run where another learning rate than today's turns out to be the best."""
    return low if low == high else f"{low} to {high}"


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
