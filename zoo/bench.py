"""Method against baselines: every run a process of its own, kept in a store, so that nothing is run twice."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from zoo import corpus, costs, heldout, records, summary as summaries
from zoo.arms import Arm, Job, plan
from zoo.errors import ZooError
from zoo.files import write_atomically
from zoo.folder import begun, operative, versions, wait_until_free
from zoo.gin_values import changed
from zoo.stop import BENCH
from zoo.store import Point, Result, Store, best_factor
from zoo.suite import Suite

Say = Callable[[str], None]
STOPS = (signal.SIGTERM, signal.SIGHUP)
PATIENCE = 60.0  # seconds for a run that an earlier bench left behind to save and stop
T = TypeVar("T")


def run(arms: Sequence[Arm], suite: Suite, store: Store, jobs: int, say: Say, again: bool = False) -> list[str]:
    """Do what the store does not have: learning rates on the first seed, the other seeds, the test split, the costs.

    A run that fails ends its arm alone; what it said is returned. `again` also runs what has other code since.
    """
    pool = Pool(store, jobs, say, again)
    pool.run(plan(arms, suite))
    results = list(store.read().values())
    rates = {arm.id: best(results, arm, suite) for arm in arms}
    for arm in arms:
        elsewhere(results, arm, suite, say)
    pool.run([Job(arm, seed, rates[arm.id]) for arm in arms for seed in range(2, suite.seeds + 1)])
    pool.test([Job(arm, seed, rates[arm.id]) for arm in arms for seed in range(1, suite.seeds + 1)])
    if suite.costs:
        judged = [arm for arm in arms if arm.id not in pool.failed]
        with stopped_with_us():
            pool.failures += costs.measure(judged, store.folder, pool.threads, say, again)
    return pool.failures


def best(results: Iterable[Result], arm: Arm, suite: Suite) -> float:
    """The arm's learning rate, as a multiple: of those that this bench gives to every arm, the best."""
    mine = [r for r in results if r.arm == arm.id and r.lr_factor in suite.lrs]
    factor = best_factor([r for r in mine if not outdated(r, Job(arm, r.seed, r.lr_factor))])
    return suite.lrs[0] if factor is None else factor


def elsewhere(results: Sequence[Result], arm: Arm, suite: Suite, say: Say) -> None:
    """Say so if an earlier bench of this store found a better rate than this one's: the report takes that."""
    tried = tuple(sorted({run.lr_factor for run in results if run.arm == arm.id and run.seed == 1} | set(suite.lrs)))
    found = best(results, arm, replace(suite, lrs=tried))
    if found not in suite.lrs:
        rates = ",".join(f"{factor:g}" for factor in tried)
        say(
            f"{arm.name} ({arm.match}, {arm.host}) did better at lr × {found:g} in this store, and the report shows it there:"
            f" --lrs {rates} runs all seeds at the best rate"
        )


def outdated(result: Result, job: Job) -> list[str]:
    """What has changed since the run in the store: defaults, or the corpus."""
    now = {"the corpus": fingerprint(job.arm)}
    return changed({"the corpus": result.corpus}, now) + changed(result.settings, job.settings)


def rewritten(versions: Mapping[str, Any], arm: Arm) -> list[str]:
    """The methods of an arm whose code has changed since the run that was made with these versions."""
    before = {f"{plugin['slot']}.{plugin['id']}": plugin.get("code", "") for plugin in versions.get("plugins", ())}
    return [name for name, code in arm.code.items() if before.get(name, code) not in ("", code)]


def fingerprint(arm: Arm) -> str:
    """Of the corpus that the arm reads, as it is now."""
    values = {**arm.defaults, **arm.values}
    return _fingerprint(values["data.corpus"], values["data.format"], values["data.text_key"])


def check_corpora(arms: Iterable[Arm]) -> None:
    """Read what the arms will read, so that a text that is not there is told before anything starts."""
    for arm in arms:
        fingerprint(arm)


@functools.cache
def _fingerprint(*which: str) -> str:
    return corpus.read(*which).fingerprint


def threads(jobs: int) -> int:
    """The cores of each of so many runs at a time."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, mine // jobs)


class Left:
    """How much of a number of runs is still to come."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.ended = itertools.count(1)
        self.began = time.monotonic()

    def after_one(self) -> str:
        """… now that one more has ended."""
        ended = next(self.ended)
        rest, each = self.runs - ended, (time.monotonic() - self.began) / ended
        return f"; {rest} to go, about {summaries.duration(rest * each)}" if rest else ""


class Pool:
    """Runs side by side, each with its share of the cores."""

    def __init__(self, store: Store, jobs: int, say: Say, again: bool = False) -> None:
        self.store = store
        self.jobs = jobs
        self.say = say
        self.again = again
        self.threads = threads(jobs)
        self.children: set[subprocess.Popen[bytes]] = set()
        self.stopping = False
        self.failures: list[str] = []
        self.failed: set[str] = set()  # arms
        self.left = Left(0)

    def run(self, wanted: Sequence[Job]) -> None:
        """Train what is missing."""
        have = self.store.read()
        wanted = [job for job in wanted if job.arm.id not in self.failed]
        todo = []
        others: set[str] = set()  # methods with other code
        for job in {job.key: job for job in wanted}.values():
            changes = outdated(have[job.key], job) if job.key in have else []
            written = rewritten(have[job.key].versions, job.arm) if job.key in have else []
            if self.again:
                changes += [f"the code of {name}" for name in written]
            others |= set(written)
            if changes:
                self.say(
                    f"{job.title} is in the store, but something has changed ({'; '.join(changes)}): it is run again"
                )
            if changes or job.key not in have:
                todo.append(job)
        reused = len({job.key for job in wanted}) - len(todo)
        if reused:
            self.say(f"{reused} of {reused + len(todo)} runs are in the store already")
        if others and not self.again:
            names = " and ".join(sorted(others))
            self.say(
                f"the code of {names} has changed since these runs; they are used as they are, --again runs them again"
            )
        self._train_all(todo)

    def _train_all(self, todo: Sequence[Job]) -> None:
        if todo:
            self.say(f"runs to train: {len(todo)}, {self.jobs} at a time")
        self.left = Left(len(todo))
        self._each(todo, self._train)

    def test(self, wanted: Sequence[Job]) -> None:
        """Give the chosen runs their loss on the test split."""
        have = self.store.read()
        todo = {job.key: job for job in wanted if job.key in have and not have[job.key].tested}
        left = [job for job in todo.values() if have[job.key].status != "diverged" and job.arm.id not in self.failed]
        gone = [job for job in left if not begun(self._folder(job))]
        if gone:
            self.say(f"{len(gone)} runs have not been on the test split and their folders are gone: they are run again")
            self._train_all(gone)
        if left:
            self.say(f"the test split, for {len(left)} runs")
        self._each([left[i :: self.jobs] for i in range(self.jobs) if left[i :: self.jobs]], self._test)

    def _each(self, todo: Sequence[T], work: Callable[[T], None]) -> None:
        with ThreadPoolExecutor(self.jobs) as pool, stopped_with_us():
            waiting: set[Future[None]] = {pool.submit(work, job) for job in todo}
            try:
                while waiting:
                    finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in finished:
                        future.result()
            except BaseException:
                self.stopping = True
                for future in waiting:
                    future.cancel()
                self._interrupt()
                raise

    def _interrupt(self) -> None:
        for child in list(self.children):
            with contextlib.suppress(ProcessLookupError):
                child.terminate()

    def _train(self, job: Job) -> None:
        if self.stopping or job.arm.id in self.failed:
            self.left.after_one()
            return
        folder = self._folder(job)
        wait_until_free(folder, PATIENCE)
        began = time.monotonic()
        if begun(folder) and self._is_another(folder, job):
            set_aside(folder)
        file = self.store.folder / "configs" / f"{folder.name}.gin"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, job.text)
        leak = [] if job.arm.causal else ["--allow-leak"]
        try:
            self._process(["zoo.cli.train", "--gin", str(file), "--run", str(folder), *leak], job.title)
            result = collect(job, folder)
        except ZooError as error:
            self.failed.add(job.arm.id)
            self._fail(error)
            self.left.after_one()
            return
        self.store.append(result)
        loss = "diverged" if result.status == "diverged" else f"valid loss {result.valid_loss:.4f}"
        self.say(f"{job.title}: {loss}, {time.monotonic() - began:,.0f} s{self.left.after_one()}")

    def _is_another(self, folder: Path, job: Job) -> bool:
        """Whether the run that was begun there is not the one that is wanted."""
        made_with = versions(folder)
        return (
            bool(changed(operative(folder), job.settings))
            or made_with["corpus"] != fingerprint(job.arm)
            or (self.again and bool(rewritten(made_with, job.arm)))
        )

    def _test(self, jobs: Sequence[Job]) -> None:
        """Several runs in one process: most of the time is its start."""
        if self.stopping:
            return
        folders = [self._folder(job) for job in jobs]
        try:
            self._process(["zoo.heldout", *map(str, folders)], "the test split")
        except ZooError as error:
            self._fail(error)
        have = self.store.read()
        for job, folder in zip(jobs, folders, strict=True):
            if (found := heldout.kept(folder)) is not None:
                status = "diverged" if found.diverged else have[job.key].status
                self.store.append(replace(have[job.key], test_loss=found.loss, tested=True, status=status))

    def _fail(self, error: ZooError) -> None:
        self.failures.append(str(error))
        self.say(str(error).splitlines()[0])

    def _folder(self, job: Job) -> Path:
        return self.store.folder / "runs" / f"{job.arm.name}-s{job.seed}-{job.key[:8]}"

    def _process(self, command: Sequence[str], title: str) -> None:
        """A Python module in a process of its own. A failure carries the last lines that it printed."""
        with tempfile.TemporaryFile("w+", errors="replace") as printed:  # a pipe would break with the bench
            with subprocess.Popen(
                [sys.executable, "-m", *command],
                env={**environment(self.threads), BENCH: "1"},
                stdin=subprocess.PIPE,  # ends with us: see zoo.stop.end_with_bench
                stdout=subprocess.DEVNULL,
                stderr=printed,
                start_new_session=True,
            ) as child:
                self.children.add(child)
                if self.stopping:  # between the last look and now
                    child.terminate()
                try:
                    child.wait()
                finally:
                    self.children.discard(child)
            if self.stopping:
                raise KeyboardInterrupt
            if child.returncode:
                printed.seek(0)
                last = "\n".join(printed.read().strip().splitlines()[-12:])
                raise ZooError(f"{title} failed ({child.returncode}):\n{last}")


@contextlib.contextmanager
def stopped_with_us() -> Iterator[None]:
    """SIGTERM to the bench is an interrupt, and so is a terminal that is closed: its runs save and stop."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    wanted = [number for number in STOPS if signal.getsignal(number) != signal.SIG_IGN]  # nohup is to be obeyed
    before = {number: signal.signal(number, stop) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def environment(threads: int) -> dict[str, str]:
    """Of a run: its share of the cores, and no folder that happens to stand where the bench was started on its path."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1"}


def set_aside(folder: Path) -> None:
    """Keep what is there under another name."""
    others = (folder.with_name(f"{folder.name}-before-{i}") for i in itertools.count(1))
    folder.rename(next(name for name in others if not name.exists()))


def collect(job: Job, folder: Path) -> Result:
    """What a run left, as one line of the store."""
    found = summaries.read(folder)
    if found is None or not found.over:
        raise ZooError(f"the run of {job.title} did not end: see {folder}")
    arm = job.arm
    training, speed = training_curve(records.read(folder, "train"))
    validated = [row for row in records.read(folder, "valid") if row["loss"] is not None]
    return Result(
        key=job.key,
        arm=arm.id,
        name=arm.name,
        match=arm.match,
        host=arm.host,
        seed=job.seed,
        lr=arm.values["train.lr"] * job.lr_factor,
        lr_factor=job.lr_factor,
        status=found.status if math.isfinite(found.valid_loss) else "diverged",
        causal=arm.causal,
        parameters=arm.parameters,
        flops=arm.flops,
        steps=found.steps,
        tokens=found.tokens,
        valid_loss=_number(found.valid_loss),
        test_loss=None,
        tested=False,
        bits_per_byte=_number(found.bits_per_byte),
        accuracy=_number(found.accuracy),
        tokens_per_second=speed or found.tokens_per_second,
        peak_memory=found.peak_memory,
        seconds=found.seconds,
        blew_up=found.blew_up,
        alarm=found.alarm,
        curve=[(*place(row["step"], training), row["loss"]) for row in validated],
        training=training,
        probes=found.probes,
        baselines=dict(arm.baselines),
        unigram_entropy=found.unigram_entropy,
        corpus=found.corpus,
        config=job.text,
        settings=job.settings,
        versions=versions(folder),
        stamps=found.stamps,
    )


def training_curve(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Point], float]:
    """The logged training losses with the time they took, and the median of the tokens a second."""
    points: list[Point] = []
    tokens, seconds = 0, 0.0
    for row in rows:
        seconds += (row["tokens"] - tokens) / row["tokens_per_second"]
        tokens = row["tokens"]
        if row["loss"] is not None:  # finite
            points.append((row["step"], tokens, round(seconds, 3), row["loss"]))
    return points, statistics.median(row["tokens_per_second"] for row in rows) if rows else 0.0


def place(step: int, training: Sequence[Point]) -> tuple[int, int, float]:
    """Step, tokens and seconds of a validation: between two logged points it is as far from them as its step is."""
    known = [(0, 0, 0.0), *(point[:3] for point in training)]
    after = next((point for point in known if point[0] >= step), known[-1])
    before = next(point for point in reversed(known) if point[0] <= step)
    part = (step - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0.0
    return step, round(before[1] + part * (after[1] - before[1])), before[2] + part * (after[2] - before[2])


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
