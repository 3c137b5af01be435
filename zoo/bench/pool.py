"""From missing runs to results: tasks for a launcher, what becomes of them, failures, progress."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from zoo.bench.arms import Job
from zoo.bench.collect import collect
from zoo.bench.launch import TEST_SPLIT, TRAIN, Failure, Launcher, Task
from zoo.bench.missing import missing_runs, reuse_notes, untested_runs
from zoo.bench.run_folders import DAMAGE, clear_folder, description, is_over, run_folder, write_config
from zoo.bench.schedule import Schedule
from zoo.bench.store import Store
from zoo.bench.test_split import read_test_loss
from zoo.errors import ZooError
from zoo.runs.run_folder import wait_until_free
from zoo.system.table import counted

TICK = 2.0  # seconds between two looks at how far the runs are
PATIENCE = 60.0  # seconds for a run that an earlier bench left behind to save and stop
AT_STAKE = 600.0  # seconds of training that may wait for the test split: weights are lost with a machine


class Piece(NamedTuple):
    """A piece of work: its task, None where there is nothing to do, and what to do when the task has ended."""

    task: Callable[[], Task | None]
    end: Callable[[Failure | None], None]


class Pool:
    """The runs of a bench side by side. One that fails ends its arm alone."""

    def __init__(self, store: Store, launcher: Launcher, schedule: Schedule, again: bool = False) -> None:
        self.store = store
        self.launcher = launcher
        self.schedule = schedule
        self.again = again
        self.failures: list[str] = []
        self.failed_arms: set[str] = set()
        self.lost: dict[str, Job] = {}  # stored runs without a test loss whose folders are gone, by key
        self._untestable: set[str] = set()  # keys of runs whose test has failed
        self._at_stake: list[tuple[Job, float]] = []  # judged runs to be tested, with the seconds they were trained

    def train(self, jobs: Iterable[Job], *later: Iterable[Job]) -> None:
        """Train what is missing; `later` are jobs to begin when all before them have ended."""
        self._train(self._stages(jobs, *later), judged=False)

    def judge(self, jobs: Iterable[Job], *later: Iterable[Job]) -> None:
        """Train what is missing, as `train` does, and give every run of these jobs its loss on the test split.

        A run goes through the test split soon after it has ended, before its weights can be lost. Stored runs without a test loss
        whose folders are gone are left to `catch_up`, which must come before anything is decided by these runs.
        """
        stages = self._stages(jobs, *later)
        self._train(stages, judged=True)
        untested = self._untested(job for stage in stages for job in stage)
        for job in untested:
            self.launcher.fetch(run_folder(self.store.folder, job))
        here = {job.key: job for job in untested if is_over(run_folder(self.store.folder, job))}
        self.lost |= {job.key: job for job in untested if job.key not in here}
        self._test(list(here.values()))

    def catch_up(self) -> None:
        """Train those runs again whose folders were lost before they had been on the test split, and test them."""
        lost = [job for job in self._untested(self.lost.values()) if job.arm.id not in self.failed_arms]
        self.lost = {}
        if lost:
            untested = f"{counted(len(lost), 'run')} without a test loss"
            self.schedule.say(f"{untested}: the folders are gone, and training starts again")
            self._carry_out([self._train_piece(job, judged=True) for job in lost])
            self._test(self._untested(lost))

    def _stages(self, *stages: Iterable[Job]) -> list[list[Job]]:
        return [[job for job in stage if job.arm.id not in self.failed_arms] for stage in stages]

    def _train(self, stages: Sequence[Sequence[Job]], judged: bool) -> None:
        results = self.store.read()
        for note in reuse_notes([job for stage in stages for job in stage], results, self.again):
            self.schedule.say(note)
        for stage in stages:
            self._carry_out([self._train_piece(job, judged) for job in missing_runs(stage, results, self.again)])

    def _untested(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs with a result that has not been on the test split and can be."""
        results = self.store.read()
        stored = [job for job in jobs if job.key in results and job.key not in self._untestable]
        return [job for job in untested_runs(stored, results) if results[job.key].status != "diverged"]

    def _test(self, jobs: Sequence[Job]) -> None:
        self._at_stake = []
        if jobs:
            self.schedule.say(f"the test split, for {counted(len(jobs), 'run')}")
        # Several runs per task: most of its time is its start.
        shares = [jobs[i :: self.launcher.capacity] for i in range(min(self.launcher.capacity, len(jobs)))]
        self._carry_out([self._test_piece(share) for share in shares])

    def _train_piece(self, job: Job, judged: bool) -> Piece:
        return Piece(functools.partial(self._training, job), functools.partial(self._end_training, job, judged))

    def _test_piece(self, jobs: Sequence[Job]) -> Piece:
        return Piece(functools.partial(self._testing, jobs), functools.partial(self._end_testing, jobs))

    def _carry_out(self, work: Iterable[Piece]) -> None:
        """Hand each piece of work to the launcher, and end it when its task has ended.

        When enough training waits for the test split, a piece that tests it comes next.
        """
        waiting, running = deque(work), dict[Task, Piece]()
        while waiting or running:
            while waiting and len(running) < self.launcher.capacity:
                piece = waiting.popleft()
                if task := piece.task():
                    running[task] = piece
                    self.launcher.submit(task)
            if running:
                for ending in self.launcher.wait(TICK):
                    running.pop(ending.task).end(ending.failure)
                self.schedule.tick()
            if sum(seconds for _, seconds in self._at_stake) > AT_STAKE:
                waiting.appendleft(self._test_piece([job for job, _ in self._at_stake]))
                self._at_stake = []

    def _training(self, job: Job) -> Task | None:
        """The task of a run; none if its arm has failed, or its folder cannot be used."""
        if job.arm.id in self.failed_arms:
            self.schedule.skip(job)
            return None
        folder = run_folder(self.store.folder, job)
        try:
            self.launcher.fetch(folder)
            if not self.launcher.under_way(folder):
                wait_until_free(folder, PATIENCE)
                if damage := clear_folder(job, folder, self.again):
                    self.schedule.say(f"{job.title}: {damage}")
            file = write_config(self.store.folder, job)
        except (ZooError, *DAMAGE) as error:
            self._fail_arm(job, error)
            return None
        self.schedule.start(job, folder)
        leak = () if job.arm.causal else ("--allow-leak",)
        arguments = ("--gin", str(file), "--run", str(folder), *leak)
        return Task(
            title=job.title,
            module=TRAIN,
            arguments=arguments,
            cores=self.launcher.cores,
            folders=(folder,),
            accelerated=job.arm.accelerated,
        )

    def _end_training(self, job: Job, judged: bool, failure: Failure | None) -> None:
        """Store the result of a run whose task has ended; where it is judged, its weights wait for the test split."""
        try:
            if failure:
                raise ZooError(failure.of(job.title))
            result = collect(job, run_folder(self.store.folder, job))
        except (ZooError, *DAMAGE) as error:
            self._fail_arm(job, error)
            return
        self.store.append(result)
        loss = "diverged" if result.status == "diverged" else f"valid loss {result.valid_loss:.4f}"
        seconds = self.schedule.seconds(job)
        self.schedule.say(f"{job.title}: {loss}, {seconds:,.0f} s{self.schedule.after(job)}")
        if judged and result.status != "diverged":
            self._at_stake.append((job, result.seconds))

    def _testing(self, jobs: Sequence[Job]) -> Task:
        folders = tuple(run_folder(self.store.folder, job) for job in jobs)
        return Task(
            title="the test split",
            module=TEST_SPLIT,
            arguments=tuple(map(str, folders)),
            cores=self.launcher.cores,
            folders=folders,
            accelerated=any(job.arm.accelerated for job in jobs),
        )

    def _end_testing(self, jobs: Sequence[Job], failure: Failure | None) -> None:
        """Store the losses on the test split, as many as there are."""
        if failure:
            self._fail(failure.of("the test split"))
        self.schedule.after_tests(len(jobs))
        results = self.store.read()
        for job in jobs:
            test, result = read_test_loss(run_folder(self.store.folder, job)), results.get(job.key)
            if test is None or result is None:
                self._untestable.add(job.key)
            else:
                status = "diverged" if test.diverged else result.status
                self.store.append(replace(result, test_loss=test.loss, tested=True, status=status))

    def _fail_arm(self, job: Job, error: Exception) -> None:
        """Run nothing more of an arm."""
        self.failed_arms.add(job.arm.id)
        self._fail(str(error) if isinstance(error, ZooError) else f"{job.title} failed: {description(error)}")
        self.schedule.skip(job)

    def _fail(self, failure: str) -> None:
        self.failures.append(failure)
        self.schedule.say(failure.splitlines()[0])
