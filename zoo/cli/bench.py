"""`zoo-bench`: train a method and its matched baselines, and say with evidence whether it helps."""

from __future__ import annotations

import argparse
import functools
import math
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli import ladder
from zoo.cli.arguments import GinParser, ended_by_reader, failed
from zoo.cli.durations import rounded
from zoo.cli.engines import add_engine_flags, bench_store, open_launcher, plan_launcher

if TYPE_CHECKING:
    from zoo.bench.arms import Arm
    from zoo.bench.forecast import ArmForecast
    from zoo.bench.launch import Launcher
    from zoo.bench.runner import Undecided
    from zoo.bench.store import Store
    from zoo.bench.suite import Suite

PROGRAM = "zoo-bench"
EPILOG = """\
examples:
  zoo-bench --gin METHOD --seeds 3                      a method against its baselines (several --gin: a combination)
  zoo-bench --suite v1 --plan                           what a suite will run, and how long it should take
  zoo-bench --suite v1 --jobs 2                         run it, two at a time; the same command again resumes it
  zoo-bench --suite v1 --methods ONE,OTHER              some of its methods
  zoo-bench --methods 'METHOD(n=2),METHOD(n=6)'         one method with several settings
  zoo-bench --suite v1 --until-decided                  more seeds, at planned looks, where a verdict is open
  zoo-bench --suite v1 --on ray --address HOST:6379     on the machines of a Ray cluster; --on slurm: of Slurm
  zoo-bench --ladder pocket --gin METHOD --set 'data.corpus = "…"' --plan
                                                        a method at several sizes: what it saves, and whether that lasts
  zoo-report bench                                      the report again, from the store
"""


def parser() -> argparse.ArgumentParser:
    description = "Train methods and baselines matched in parameters and FLOPs over the same seeds, and compare them."
    flags = GinParser(PROGRAM, description, EPILOG)
    flags.add_argument(
        "--gin", nargs="+", action="extend", default=[], metavar="FILE", help="Gin files, as for zoo-train"
    )
    flags.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="BINDING", help="a value, for every arm"
    )
    flags.add_argument("--suite", metavar="NAME", help="a suite: gin/suites/NAME.gin, or a path")
    flags.add_argument("--ladder", metavar="NAME", help="a ladder of sizes: gin/ladders/NAME.gin, or a path")
    flags.add_argument("--methods", metavar="A,B+C", help="the methods to judge, instead of the suite's")
    flags.add_argument("--seeds", type=int, metavar="N", help="seeds per method; a baseline of many methods gets more")
    flags.add_argument(
        "--until-decided",
        action="store_true",
        help="look at 3, 5 and 8 seeds (suite.looks), and add seeds only where a verdict is open; a ladder has ladder.looks",
    )
    flags.add_argument("--lrs", metavar="X,Y", help="learning rates to try for every arm, as multiples of its own")
    flags.add_argument(
        "--store",
        default="bench",
        metavar="DIR",
        help="results and runs (default: bench); with --on also s3://… and others",
    )
    flags.add_argument("--again", action="store_true", help="run methods again whose code has changed since their runs")
    flags.add_argument(
        "--costs", action="store_true", help="measure time and memory of every method's training step, and stop"
    )
    flags.add_argument(
        "--plan", action="store_true", help="print what would be run and how long it should take, and stop"
    )
    add_engine_flags(flags)
    return flags


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    from zoo.errors import ZooError
    from zoo.system.process import prepare_process

    if argv is None:
        prepare_process()
    try:
        code = _bench(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        ended_by_reader()
        return 128 + signal.SIGPIPE  # it may not be over
    except (ZooError, OSError) as error:
        return failed(PROGRAM, error)
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; the same command continues it", file=sys.stderr)
        return 130


def _bench(options: argparse.Namespace) -> int:
    from zoo.errors import ZooError

    if options.ladder and options.suite:
        raise ZooError("--ladder and --suite: name one of them")
    if not options.gin and not options.suite and not options.methods and not options.ladder:
        raise ZooError(
            "name a method (--gin METHOD, see zoo-plugins), a suite (--suite NAME) or a ladder (--ladder NAME)"
        )
    if options.until_decided and options.seeds is not None:
        raise ZooError("--until-decided has seeds of its own, suite.looks: leave out --seeds")
    methods = None if options.methods is None else listed("--methods", options.methods)
    with bench_store(options, _say):
        if (name := ladder.ladder_name(options)) is not None:
            return ladder.run(name, options, ladder_bindings(options), methods, _say)
        if options.costs:
            return _measure(options, methods, plan_launcher(options))
        return _compare(options, methods)


def _compare(options: argparse.Namespace, methods: Sequence[str] | None) -> int:
    """Run what a comparison needs, and print what came of it; or only plan it."""
    from zoo.bench.freshness import check_corpora
    from zoo.bench.runner import run_bench
    from zoo.bench.selection import select_arms
    from zoo.bench.step_costs import read_costs
    from zoo.bench.store import Store
    from zoo.bench.suite_notes import note_suite
    from zoo.system.child_process import without_torch
    from zoo.system.foreign_text import printable

    costs = functools.partial(read_costs, options.store)
    arms, suite = without_torch(select_arms, options.suite, options.gin, bindings(options), methods, costs)
    if options.plan:
        return _plan(arms, suite, plan_launcher(options), options)
    check_corpora(arms)
    store = Store(options.store)
    with store.held(), open_launcher(options, arms, _say) as launcher:
        name = Path(options.suite).stem if options.suite else ""
        judged = {arm.id: arm.baselines for arm in arms if arm.match == "method"}
        looks = suite.looks if options.until_decided else ()
        note_suite(store.folder, name, judged, suite.twins, suite.margin, looks)
        undecided = _undecided(store, judged) if options.until_decided else None
        suite = replace(suite, costs=suite.costs and launcher.measures)
        failures = run_bench(arms, suite, store, launcher=launcher, say=_say, again=options.again, undecided=undecided)
        _report(store, arms)
    for failure in failures:
        print(printable(f"{PROGRAM}: {failure}"), file=sys.stderr)
    return 1 if failures else 0


def _measure(options: argparse.Namespace, methods: Sequence[str] | None, launcher: Launcher) -> int:
    """Measure the step costs of the methods that the store does not have; train nothing."""
    from zoo.bench.measure_costs import measure_costs
    from zoo.bench.selection import select_arms
    from zoo.bench.store import Store

    plain = "suite.baselines = ('none',)"  # what costs are compared with; a baseline matched in time needs them first
    arms, _ = select_arms(options.suite, options.gin, [*bindings(options), plain], methods)
    store = Store(options.store)
    with store.held():
        failures = measure_costs(arms, store.folder, threads=launcher.cores, say=_say, again=options.again)
    return 1 if failures else 0


def _undecided(store: Store, judged: Collection[str]) -> Undecided:
    """The function from results to those of the judged methods that need more seeds."""
    from zoo.bench.suite_notes import read_suite_notes
    from zoo.report.undecided import undecided_methods

    notes = read_suite_notes([store.folder])
    return lambda results: undecided_methods(list(results), notes, judged)


def bindings(options: argparse.Namespace) -> list[str]:
    """The bindings that the options stand for."""
    seeds = [] if options.seeds is None else [f"suite.seeds = {options.seeds}"]
    rates = [] if options.lrs is None else [f"suite.lrs = {factors(options.lrs)}"]
    return [*options.set, *seeds, *rates]


def ladder_bindings(options: argparse.Namespace) -> list[str]:
    """The bindings that the options stand for, of a ladder, which has its seeds by rung."""
    from zoo.errors import ZooError

    if options.seeds is not None:
        raise ZooError("a ladder has its seeds by rung: --set 'ladder.seeds = (3, 3, 2)' in place of --seeds")
    if options.until_decided:
        raise ZooError(
            "a ladder looks at its two smallest rungs: --set 'ladder.looks = (3, 5, 8)' in place of --until-decided"
        )
    return bindings(options)


def listed(flag: str, text: str) -> tuple[str, ...]:
    """The parts of a flag's value, which commas separate."""
    from zoo.bench.method_names import split
    from zoo.errors import ZooError

    parts = tuple(part.strip() for part in split(text, ","))
    if not all(parts):
        raise ZooError(f"{flag} {text!r}: name one or several, with commas between them")
    return parts


def factors(text: str) -> tuple[float, ...]:
    """The factors of the learning rate that --lrs names."""
    from zoo.errors import ZooError

    try:
        numbers = tuple(map(float, listed("--lrs", text)))
    except ValueError:
        numbers = ()
    if not numbers or not all(map(math.isfinite, numbers)):
        raise ZooError(f"--lrs {text!r}: write numbers with commas between them, as in --lrs 0.5,1,2")
    return numbers


def _report(store: Store, arms: Sequence[Arm]) -> None:
    """Write the report of a store, and print what it says of these arms."""
    from zoo.bench.suite_notes import read_suite_notes, remember_margins
    from zoo.report.findings import Findings
    from zoo.report.report_folder import print_report, write_report
    from zoo.report.tables import tables
    from zoo.system.table import show

    if results := list(store.read().values()):
        findings = Findings.of(results, read_suite_notes([store.folder]))
        write_report(findings, store.folder)
        remember_margins(store.folder, findings.margins)
        show(tables(findings.only({arm.id for arm in arms})))
        print_report(findings, store.folder)


def _plan(arms: Sequence[Arm], suite: Suite, launcher: Launcher, options: argparse.Namespace) -> int:
    """Print what would be run; the exit code says whether it could be run here."""
    from zoo.bench.forecast import Forecast, forecast_arms, in_flops, total_seconds
    from zoo.bench.measure_costs import missing_costs
    from zoo.bench.rate_curves import widened
    from zoo.bench.seeds import runs_until_decided
    from zoo.bench.step_costs import read_costs
    from zoo.bench.store import Store
    from zoo.system.table import Table, counted, show

    _show_recipe(options)
    with_corpus = _have_corpora(arms)
    results = Store(options.store).read()
    suite = widened(arms, suite, results.values()) if with_corpus and suite.widenings else suite
    forecast = Forecast(arms, results.values(), launcher.cores)
    seeds = suite.looks[0] if options.until_decided else None
    forecasts = forecast_arms(arms, suite, results, forecast, with_corpus, seeds)
    by_id = {arm.id: arm for arm in arms}
    rows = tuple(tuple(_plan_row(each, by_id).values()) for each in forecasts)
    head = tuple(_plan_row(forecasts[0], by_id))
    show([Table("Plan", head, rows, brief=("arm", "match", "parameters", "steps", "runs", "to run", "time"))])
    total = total_seconds(forecasts, launcher.capacity)
    low, likely, high = map(rounded, total)
    between = f" ({low} to {high})" if low != high else ""
    at_a_time = "one run at a time" if launcher.capacity == 1 else f"{launcher.capacity} runs at a time"
    print(f"about {likely}{between} in total, {at_a_time}" + (f" ({forecast.basis})" if total.high else ""))
    if flops := sum(each.flops for each in forecasts):
        print(in_flops(flops))
    if options.until_decided:
        most, expected = runs_until_decided(arms, suite)
        print(
            f"that is up to the look at {suite.looks[0]} seeds; over all looks at most {most} runs, {expected:.0f} to be"
            " expected should no method differ (those of the store included)"
        )
    unmeasured = missing_costs(arms, read_costs(options.store), options.again) if suite.costs else {}
    if count := sum(map(len, unmeasured.values())):
        print(f"then the time and memory of {counted(count, 'arm')}, about a minute each")
    return 0 if with_corpus else 2


def _show_recipe(options: argparse.Namespace) -> None:
    """Print what the laws of a recipe give to every arm, if there is one."""
    from zoo.bench.selection import suite_file
    from zoo.config.load import load_config
    from zoo.system.table import show
    from zoo.training.plan import plan_table

    files = [*([suite_file(options.suite)] if options.suite else []), *options.gin]
    if (loaded := load_config(files, bindings(options))).recipe:
        show([plan_table(loaded)])


def _have_corpora(arms: Sequence[Arm]) -> bool:
    from zoo.bench.freshness import check_corpora
    from zoo.errors import ZooError
    from zoo.system.foreign_text import printable

    try:
        check_corpora(arms)
    except ZooError as error:
        print(printable(f"cannot run here: {error}\n"))
        return False
    return True


def _plan_row(forecast: ArmForecast, by_id: Mapping[str, Arm]) -> dict[str, str]:
    """A row of the plan, by column."""
    arm, seconds = forecast.arm, forecast.run.likely
    counted = {kind: id for kind, id in arm.baselines.items() if kind not in ("none", "time")}
    off = [f"{kind} {by_id[id].spent.off_by(arm.spent, kind):+.3%}" for kind, id in counted.items()]
    return {
        "arm": arm.name,
        "match": arm.match,
        "host": arm.host,
        "parameters": f"{arm.parameters:,}",
        "training FLOPs per token": f"{arm.flops:.3g}",
        "steps": str(arm.steps),
        "runs": str(forecast.runs),
        "to run": _range(str(forecast.fewest), str(forecast.most)),
        "time": _range(rounded(forecast.fewest * seconds), rounded(forecast.most * seconds)),
        "matches are off by": ", ".join(off) or "–",
    }


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _say(text: str) -> None:
    from zoo.system.foreign_text import printable

    print(printable(text), flush=True)


if __name__ == "__main__":
    sys.exit(main())
