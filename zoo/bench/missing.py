"""Which runs of a bench the store does not have as they would be run now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zoo.bench.arms import Arm, Job
from zoo.bench.freshness import outdated, rewritten
from zoo.bench.learning_rates import best_rate
from zoo.bench.seeds import judged_runs, tuning_runs
from zoo.bench.store import Result
from zoo.bench.suite import Suite
from zoo.system.table import counted

Results = Mapping[str, Result]  # by key


def missing_runs(jobs: Iterable[Job], results: Results, again: bool) -> list[Job]:
    """The jobs to run, each once: those not in the store, or changed since; with `again` also those with other code."""
    each = {job.key: job for job in jobs}.values()
    return [job for job in each if job.key not in results or _changes(results[job.key], job, again)]


def untested_runs(jobs: Iterable[Job], results: Results) -> list[Job]:
    """The jobs that have not been on the test split, each once."""
    each = {job.key: job for job in jobs}.values()
    return [job for job in each if job.key not in results or not results[job.key].tested]


def reuse_notes(jobs: Sequence[Job], results: Results, again: bool) -> list[str]:
    """What to say before the missing ones of these jobs are run: what has changed, and what is used as it is."""
    stored = [job for job in {job.key: job for job in jobs}.values() if job.key in results]
    missing = {job.key for job in missing_runs(jobs, results, again)}
    notes = [
        f"{job.title} is in the store, but something has changed"
        f" ({'; '.join(_changes(results[job.key], job, again))}): it is run again"
        for job in stored
        if job.key in missing
    ]
    if reused := sum(job.key not in missing for job in stored):
        notes.append(f"{reused} of {counted(reused + len(missing), 'run')} are in the store already")
    methods = {name for job in stored for name in rewritten(results[job.key].versions, job.arm)}
    if methods and not again:
        names = " and ".join(sorted(methods))
        notes.append(
            f"the code of {names} has changed since these runs; they are used as they are, --again runs them again"
        )
    return notes


def missing_counts(arm: Arm, suite: Suite, seeds: int, results: Results, of_arm: Sequence[Result]) -> tuple[int, int]:
    """How many of the arm's runs are missing: at least, and should another rate turn out to be the best.

    `of_arm` are those of the results that are this arm's.
    """

    def count(jobs: Iterable[Job]) -> int:
        return len(missing_runs(jobs, results, again=False))

    def judged(rate: float) -> int:
        return count(judged_runs([arm], {arm.id: rate}, {arm.id: seeds}))

    tuning = count(tuning_runs([arm], suite))
    rates = suite.lrs if tuning else (best_rate(of_arm, arm, suite),)
    counts = [tuning + judged(rate) for rate in rates]
    return min(counts), max(counts)


def _changes(result: Result, job: Job, again: bool) -> list[str]:
    """What has changed since a run so that it is run again."""
    methods = rewritten(result.versions, job.arm) if again else []
    return [*outdated(result, job), *(f"the code of {name}" for name in methods)]
