"""From missing runs to results: tasks for a launcher, what becomes of them, failures, progress."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from zoo.bench.arms import Job
from zoo.bench.collect import collect
from zoo.bench.launch import TEST_SPLIT, TRAIN, Failure, Launcher, Task
from zoo.bench.missing import missing_runs, reuse_notes, untested_runs
from zoo.bench.run_folders import DAMAGE, clear_folder, description, run_folder, write_config
from zoo.bench.schedule import Schedule
from zoo.bench.store import Store
from zoo.bench.test_split import read_test_loss
from zoo.errors import ZooError
from zoo.runs.run_folder import begun, wait_until_free
from zoo.system.table import counted

TICK = 2.0  # seconds between two looks at how far the runs are
PATIENCE = 60.0  # seconds for a run that an earlier bench left behind to save and stop
T = TypeVar("T")


class Pool:
    """The runs of a bench side by side. One that fails ends its arm alone."""

    def __init__(self, store: Store, launcher: Launcher, schedule: Schedule, again: bool = False) -> None:
        self.store = store
        self.launcher = launcher
        self.schedule = schedule
        self.again = again
        self.failures: list[str] = []
        self.failed_arms: set[str] = set()

    def train(self, jobs: Iterable[Job], *later: Iterable[Job]) -> None:
        """Train what is missing; `later` are jobs to begin when all before them have ended."""
        stages = [[job for job in stage if job.arm.id not in self.failed_arms] for stage in (jobs, *later)]
        results = self.store.read()
        for note in reuse_notes([job for stage in stages for job in stage], results, self.again):
            self.schedule.say(note)
        for stage in stages:
            self._carry_out(missing_runs(stage, results, self.again), self._training, self._end_training)

    def test(self, jobs: Iterable[Job]) -> None:
        """Give the chosen runs their loss on the test split."""
        results = self.store.read()
        stored = [job for job in jobs if job.key in results and job.arm.id not in self.failed_arms]
        todo = [job for job in untested_runs(stored, results) if results[job.key].status != "diverged"]
        for job in todo:
            self.launcher.fetch(run_folder(self.store.folder, job))
        gone = [job for job in todo if not begun(run_folder(self.store.folder, job))]
        if gone:
            untested = f"{counted(len(gone), 'run')} without a test loss"
            self.schedule.say(f"{untested}: the folders are gone, and training starts again")
            self._carry_out(gone, self._training, self._end_training)
        if todo:
            self.schedule.say(f"the test split, for {counted(len(todo), 'run')}")
        # Several runs per task: most of its time is its start.
        shares = [todo[i :: self.launcher.capacity] for i in range(min(self.launcher.capacity, len(todo)))]
        self._carry_out(shares, self._testing, self._end_testing)
        self.schedule.after_tests()

    def _carry_out(
        self, work: Iterable[T], task_of: Callable[[T], Task | None], end: Callable[[T, Failure | None], None]
    ) -> None:
        """Hand each piece of work to the launcher as a task, unless it has none, and end it when its task has ended."""
        waiting, running = deque(work), dict[Task, T]()
        while waiting or running:
            while waiting and len(running) < self.launcher.capacity:
                piece = waiting.popleft()
                if task := task_of(piece):
                    running[task] = piece
                    self.launcher.submit(task)
            if running:
                for ending in self.launcher.wait(TICK):
                    end(running.pop(ending.task), ending.failure)
                self.schedule.tick()

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

    def _end_training(self, job: Job, failure: Failure | None) -> None:
        """Store the result of a run whose task has ended."""
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
        results = self.store.read()
        for job in jobs:
            if (test := read_test_loss(run_folder(self.store.folder, job))) is not None:
                result = results[job.key]
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
