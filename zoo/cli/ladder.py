"""`zoo-bench --ladder`: plan and run a ladder, and print what it says."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from zoo.cli.durations import rounded
from zoo.cli.engines import open_launcher, plan_launcher

if TYPE_CHECKING:
    from zoo.bench.ladder_plan import LadderPlan, Member, Rung
    from zoo.bench.launch import Launcher
    from zoo.bench.schedule import Say
    from zoo.bench.store import Store
    from zoo.report.findings import Findings
    from zoo.system.table import Table

RULES = (
    "N = 12 · width² · depth, width = depth · aspect; tokens D = N × ladder.tokens_per_parameter; batch = 2048 · 160 ·"
    " (N / 108e6)^(2/3) tokens; rate = 0.00235 · (N / 108e6)^(−1/3); warm-up N tokens; β₂ = 0.99 below 524,288 tokens"
    " per batch, else 0.95; C = FLOPs per token · D"
)


def ladder_name(options: argparse.Namespace) -> str | None:
    """The ladder that the options name, or the suite that is one: whose file binds the rungs."""
    if options.ladder or not options.suite:
        name: str | None = options.ladder
        return name
    from zoo.bench.selection import suite_file
    from zoo.config.load import load_config

    file = suite_file(options.suite)
    return file if "ladder.depths" in load_config([file]).values else None


def run(
    name: str, options: argparse.Namespace, bindings: Sequence[str], methods: Sequence[str] | None, say: Say
) -> int:
    """Plan a ladder, and unless only the plan or the costs were asked for, run it and print what came of it."""
    from zoo.bench.freshness import check_corpora
    from zoo.bench.ladder_plan import plan_ladder
    from zoo.bench.ladder_runner import run_ladder
    from zoo.bench.store import Store
    from zoo.cli.kit_gate import check_methods
    from zoo.report.ladder_judge import StoreJudge

    plan = plan_ladder(name, options.gin, bindings, methods)
    store = Store(options.store)
    if options.plan:
        print_plan(plan, store, plan_launcher(options))
        check_corpora([rung.plain.arm for rung in plan.rungs])
        check_reads(plan, say)
        return 0
    check_corpora([rung.plain.arm for rung in plan.rungs])
    if options.costs:
        return measure(plan, store, options, say)
    check_reads(plan, say)
    arms = [member.arm for rung in plan.rungs for member in rung.members]
    with store.held(), open_launcher(options, arms, say) as launcher:
        plan, failures = check_methods(plan, store.folder, say)
        plan = plan._replace(suite=replace(plan.suite, costs=plan.suite.costs and launcher.measures))
        judge = StoreJudge(store, say)
        failures += run_ladder(plan, store, judge, launcher=launcher, say=say, again=options.again)
        print_ladder(plan, store)
    for failure in failures:
        say(f"zoo-bench: {failure}")
    return 1 if failures else 0


def check_reads(plan: LadderPlan, say: Say) -> None:
    """Say how often the runs read the corpus; refuse a ladder whose runs would read it too often."""
    from zoo.bench.corpus_reads import corpus_reads

    reads = corpus_reads(plan)
    reads.check(plan.ladder.most_epochs)
    say(reads.text)


def measure(plan: LadderPlan, store: Store, options: argparse.Namespace, say: Say) -> int:
    """Measure the step costs of every rung that the store does not have; train nothing."""
    from zoo.bench.ladder_plan import OWN_RATE
    from zoo.bench.measure_costs import measure_costs

    failures, threads = [], plan_launcher(options).cores
    with store.held():
        for rung in plan.rungs:
            arms = [member.arm for member in rung.members if member.role in OWN_RATE]
            failures += measure_costs(arms, store.folder, threads=threads, say=say, again=options.again)
    return 1 if failures else 0


def print_ladder(plan: LadderPlan, store: Store) -> None:
    """Write the report of the store, and print what it says of this ladder."""
    from zoo.bench.suite_notes import read_suite_notes
    from zoo.report.findings import Findings
    from zoo.report.ladder_tables import ladder_tables
    from zoo.report.report_folder import print_report, write_report
    from zoo.system.table import show

    if results := list(store.read().values()):
        findings = Findings.of(results, read_suite_notes([store.folder]))
        write_report(findings, store.folder)
        keys = {plan.key(rungs) for rungs in plan.hosts}
        show(ladder_tables([ladder for ladder in findings.ladders if ladder.key in keys]))
        if sentence := fewer_rates_text(findings, keys):
            print(sentence)
        print_report(findings, store.folder)


def fewer_rates_text(findings: Findings, keys: Collection[str]) -> str:
    """The methods of these ladders that were given fewer rates than the plain block, and how to catch them up; may be empty.

    Rates are widened for the methods of one command: those of an earlier one do not get what a later one needed. The command
    names the others too, as it may be one of them that needs the rates.
    """
    from zoo.bench.ladder_jobs import GATE
    from zoo.report.standings import standings

    methods = [each for each in standings(findings) if each.key in keys and each.role == "method"]
    fewer = {each.name for each in methods if any(at.rates.fewer for at in each.sizes if at.rung <= GATE)}
    if not fewer:
        return ""
    names = ",".join(sorted({each.name for each in methods}))
    return (
        f"given fewer learning rates than the plain block at one of the two smallest rungs: {', '.join(sorted(fewer))}; the same"
        f" command with --methods {shlex.quote(names)} in place of the methods that it names gives them the same"
    )


def print_plan(plan: LadderPlan, store: Store, launcher: Launcher) -> None:
    """Print every number that the rule makes, and every run, with how long it should take."""
    from zoo.bench.forecast import Forecast, in_flops, training_flops
    from zoo.system.table import show

    results = store.read()
    show([_rung_table(plan)])
    print(f"{RULES}\n")
    low = likely = high = flops = 0.0
    rows, forecast = [], None
    missing, said = _missing(plan, store)
    for rung in plan.rungs:
        forecast = Forecast([member.arm for member in rung.members], results.values(), launcher.cores, forecast)
        for member in rung.members:
            fewest, most = missing[rung.host, rung.number, member.label]
            run = forecast.of(member.arm)
            low, high = low + fewest * run.low, high + most * run.high
            likely += (fewest + most) / 2 * run.likely
            flops += (fewest + most) / 2 * training_flops(member.arm)
            rows.append(_member_row(rung, member, (fewest, most), run.likely))
    show([_member_table(rows)])
    for sentence in said:
        print(sentence)
    at_a_time = "one run at a time" if launcher.capacity == 1 else f"{launcher.capacity} runs at a time"
    low, likely, high = (each / launcher.capacity for each in (low, likely, high))
    print(f"about {rounded(likely)} ({rounded(low)} to {rounded(high)}) in total, {at_a_time}")
    print(in_flops(flops))
    if plan.suite.costs:
        print("then the time and memory of every method's step at every rung, about half a minute each")
    if plan.ladder.looks:
        print(f"looks at {', '.join(map(str, plan.ladder.looks))} seeds at the two smallest rungs: a clear or hopeless method"
              " gets no further seed, and a harmful or hopeless one goes no further up")  # fmt: skip
    print("before the top rung is run, its losses are predicted from the rungs below and registered")


def _rung_table(plan: LadderPlan) -> Table:
    from zoo.system.table import Table

    rows = []
    for rung in plan.hosts[0]:
        arm, law = rung.plain.arm, rung.size
        values = {**arm.defaults, **arm.values}
        rows.append(
            {
                "rung": str(rung.number),
                "depth": str(law.depth),
                "width": str(law.width),
                "N": f"{law.parameters:,}",
                "parameters in all": f"{arm.parameters:,}",
                "tokens": f"{arm.steps * arm.tokens_per_step:,}",
                "batch": f"{arm.tokens_per_step:,}",
                "rows × accumulated": f"{values['data.batch_size']} × {values['train.accumulate']}",
                "steps": f"{arm.steps:,}",
                "rate": f"{values['train.lr']:.4g}",
                "warm-up": f"{values['train.warmup']:.1%}",
                "β₂": f"{values['train.betas'][1]:g}",
                "FLOPs per token": f"{arm.flops:.3g}",
                "C": f"{rung.plain.charged:.3g}",
                "seeds": str(len(rung.plain.seeds)),
            }
        )
    brief = ("rung", "depth", "N", "tokens", "batch", "rate", "steps", "seeds")
    return Table.of(f"Rungs of {plan.name}", rows, brief)


def _missing(plan: LadderPlan, store: Store) -> tuple[dict[tuple[str, int, str], tuple[int, int]], list[str]]:
    """How many runs of each arm are missing at least, and should every look be needed; by host, rung and label.

    What the looks have settled gets no further run: those methods, with the reason, in a sentence each.
    """
    from zoo.bench.ladder_jobs import GATE, planned_jobs
    from zoo.bench.missing import missing_runs
    from zoo.report.ladder_judge import StoreJudge
    from zoo.scaling.gate import HELPS

    results, judge = store.read(), StoreJudge(store, lambda text: None)
    looks = plan.ladder.looks or (0,)
    counts: dict[tuple[str, int, str], tuple[int, int]] = {}
    said = []
    for rungs in plan.hosts:
        of_look = [planned_jobs(rungs, plan.suite, results, look) for look in (looks[0], looks[-1])]
        for first, last in zip(*of_look, strict=True):
            fewest, most = (len(missing_runs(each.jobs, results, again=False)) for each in (first, last))
            counts[first.rung.host, first.rung.number, first.member.label] = fewest, most
        key, host = plan.key(rungs), rungs[0].host
        for label, reason in judge.settled(key).items():
            at = {
                rung.number: counts[host, rung.number, label] for rung in rungs if (host, rung.number, label) in counts
            }
            if not at or any(fewest for number, (fewest, _) in at.items() if number <= GATE):
                continue  # the first look is still to be made
            for number in at:
                if plan.ladder.looks if number <= GATE else reason != HELPS:
                    counts[host, number, label] = 0, 0
            further = "no further run" if reason != HELPS else "no further seed at the two smallest rungs"
            said.append(f"{label}, {host} host: {reason}: {further}")
    return counts, said


def _member_row(rung: Rung, member: Member, missing: tuple[int, int], seconds: float) -> dict[str, str]:
    fewest, most = missing
    return {
        "rung": str(rung.number),
        "arm": member.label,
        "role": member.role,
        "host": rung.host,
        "parameters": f"{member.arm.parameters:,}",
        "FLOPs per token": f"{member.arm.flops:.3g}",
        "steps": f"{member.arm.steps:,}",
        "seeds": f"{member.seeds[0]} … {member.seeds[-1]}",
        "to run": str(fewest) if fewest == most else f"{fewest} to {most}",
        "time per run": rounded(seconds),
    }


def _member_table(rows: list[dict[str, str]]) -> Table:
    from zoo.system.table import Table

    return Table.of("Runs", rows, ("rung", "arm", "role", "steps", "seeds", "to run", "time per run"))
