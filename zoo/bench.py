"""Method against baselines: every run a process of its own, kept in a store, so that nothing is run twice."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from zoo import records, summary as summaries
from zoo.arms import Arm, Job, plan
from zoo.errors import ZooError
from zoo.files import write_atomically
from zoo.folder import operative, versions
from zoo.gin_values import changed
from zoo.store import Point, Result, Store, best_factor
from zoo.suite import Suite

Say = Callable[[str], None]
T = TypeVar("T")


def run(arms: Sequence[Arm], suite: Suite, folder: Path, jobs: int, say: Say) -> None:
    """Run what the store does not have: learning rates on the first seed, then the other seeds, then the test split."""
    store = Store(folder)
    pool = Pool(store, jobs, say)
    pool.run(plan(arms, suite))
    pool.run([Job(arm, seed, best(store, arm)) for arm in arms for seed in range(2, suite.seeds + 1)])
    pool.test([Job(arm, seed, best(store, arm)) for arm in arms for seed in range(1, suite.seeds + 1)])


def best(store: Store, arm: Arm) -> float:
    """The arm's learning rate, as a multiple."""
    mine = [r for r in store.read().values() if r.arm == arm.id and not outdated(r, Job(arm, r.seed, r.lr_factor))]
    factor = best_factor(mine)
    return 1.0 if factor is None else factor


def outdated(result: Result, job: Job) -> list[str]:
    """The defaults that have changed since the run in the store."""
    return changed(result.settings, job.settings)


class Pool:
    """Runs side by side, each with its share of the cores."""

    def __init__(self, store: Store, jobs: int, say: Say) -> None:
        self.store = store
        self.jobs = jobs
        self.say = say
        self.threads = max(1, (os.cpu_count() or 1) // jobs)
        self.children: set[subprocess.Popen[str]] = set()
        self.stopping = False

    def run(self, wanted: Sequence[Job]) -> None:
        """Train what is missing."""
        have = self.store.read()
        todo = []
        for job in {job.key: job for job in wanted}.values():
            changes = outdated(have[job.key], job) if job.key in have else []
            if changes:
                self.say(
                    f"{job.title} is in the store, but defaults have changed ({'; '.join(changes)}): it is run again"
                )
            if changes or job.key not in have:
                todo.append(job)
        reused = len({job.key for job in wanted}) - len(todo)
        if reused:
            self.say(f"{reused} of {reused + len(todo)} runs are in the store already")
        self._each(todo, self._train)

    def test(self, wanted: Sequence[Job]) -> None:
        """Give the chosen runs their loss on the test split."""
        have = self.store.read()
        todo = {job.key: job for job in wanted if job.key in have and have[job.key].test_loss is None}
        left = [job for job in todo.values() if have[job.key].status != "diverged"]
        if left:
            self.say(f"the test split, for {len(left)} runs")
        self._each([left[i :: self.jobs] for i in range(self.jobs) if left[i :: self.jobs]], self._test)

    def _each(self, todo: Sequence[T], work: Callable[[T], None]) -> None:
        with ThreadPoolExecutor(self.jobs) as pool, self._stopped_with_us():
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

    @contextlib.contextmanager
    def _stopped_with_us(self) -> Iterator[None]:
        """SIGTERM to the bench is an interrupt: its runs save and stop."""
        import signal

        def stop(*_: Any) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGTERM, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def _interrupt(self) -> None:
        import signal

        for child in list(self.children):
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)

    def _train(self, job: Job) -> None:
        if self.stopping:
            return
        folder = self._folder(job)
        began = time.monotonic()
        if changed(operative(folder), job.settings):
            set_aside(folder)
        file = self.store.folder / "configs" / f"{folder.name}.gin"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, job.text)
        leak = [] if job.arm.causal else ["--allow-leak"]
        self._process(["zoo.cli.train", "--gin", str(file), "--run", str(folder), *leak], job.title)
        result = collect(job, folder)
        self.store.append(result)
        loss = "diverged" if result.status == "diverged" else f"valid loss {result.valid_loss:.4f}"
        self.say(f"{job.title}: {loss}, {time.monotonic() - began:,.0f} s")

    def _test(self, jobs: Sequence[Job]) -> None:
        """Several runs in one process: most of the time is its start."""
        if self.stopping:
            return
        answer = self._process(["zoo.heldout", *(str(self._folder(job)) for job in jobs)], jobs[0].title)
        have = self.store.read()
        for job, line in zip(jobs, answer.splitlines(), strict=True):
            loss = json.loads(line)["loss"]
            if loss is not None:
                self.store.append(replace(have[job.key], test_loss=loss))

    def _folder(self, job: Job) -> Path:
        return self.store.folder / "runs" / f"{job.arm.name}-{job.arm.match}-s{job.seed}-{job.key[:8]}"

    def _process(self, command: Sequence[str], title: str) -> str:
        """A Python module in a process of its own. A failure carries the last lines that it printed."""
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        child = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.children.add(child)
        try:
            out, error = child.communicate()
        finally:
            self.children.discard(child)
        if child.returncode and not self.stopping:
            last = "\n".join(error.strip().splitlines()[-12:])
            raise ZooError(f"the run of {title} failed ({child.returncode}):\n{last}")
        if self.stopping:
            raise KeyboardInterrupt
        return out


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
    return Result(
        key=job.key,
        arm=arm.id,
        name=arm.name,
        match=arm.match,
        host=arm.host,
        seed=job.seed,
        lr=arm.values["train.lr"] * job.lr_factor,
        lr_factor=job.lr_factor,
        status=found.status,
        causal=arm.causal,
        parameters=arm.parameters,
        flops=arm.flops,
        off_by=arm.off_by,
        steps=found.steps,
        tokens=found.tokens,
        valid_loss=_number(found.valid_loss),
        test_loss=None,
        bits_per_byte=_number(found.bits_per_byte),
        accuracy=_number(found.accuracy),
        tokens_per_second=speed or found.tokens_per_second,
        peak_memory=found.peak_memory,
        seconds=found.seconds,
        blew_up=found.blew_up,
        alarm=found.alarm,
        curve=[(*_place(row["step"], training), row["loss"]) for row in records.read(folder, "valid")],
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
        points.append((row["step"], tokens, round(seconds, 3), row["loss"]))
    return points, statistics.median(row["tokens_per_second"] for row in rows) if rows else 0.0


def _place(step: int, training: Sequence[Point]) -> tuple[int, int, float]:
    """Step, tokens and seconds of the last training point up to this step."""
    passed = [point for point in training if point[0] <= step]
    return (step, *passed[-1][1:3]) if passed else (step, 0, 0.0)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def seconds_a_step(arm: Arm, threads: int) -> float:
    """How long a training step of this arm takes here, from three real ones in a process of its own."""
    code = "import sys; from zoo.bench import time_steps; print(time_steps(sys.stdin.read()))"
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, "-c", code], input=Job(arm, 1, 1.0).text, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise ZooError(f"{arm.name} cannot be trained:\n" + "\n".join(done.stderr.strip().splitlines()[-8:]))
    return float(done.stdout.split()[-1])


def time_steps(text: str) -> float:
    """Seconds of a training step on random tokens, without the first."""
    import tempfile

    import torch

    from zoo import config

    with tempfile.NamedTemporaryFile("w", suffix=".gin") as file:
        file.write(text)
        file.flush()
        loaded = config.load([file.name])
    vocabulary, length = loaded.get("data.vocab_size"), loaded.get("data.length")
    model = loaded.build("model", vocab_size=vocabulary, max_length=length)
    batch = torch.randint(vocabulary, (loaded.get("data.batch_size"), length + 1))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        model.loss(batch[:, :-1], batch[:, 1:]).backward()
        times.append(time.perf_counter() - began)
    return min(times[1:]) * 1.1  # and the optimiser
