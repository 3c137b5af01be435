"""What a bench does with its runs, whatever launcher carries them out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers.pretend_bench import PretendLauncher, folder_of

from zoo.bench.arms import Arm, Job, arms_of
from zoo.bench.launch import TEST_SPLIT, TRAIN, Ending, Failure, Task
from zoo.bench.pool import Pool
from zoo.bench.runner import run_bench
from zoo.bench.schedule import Schedule
from zoo.bench.store import Store
from zoo.bench.suite import Suite

SUITE = Suite(seeds=2, control_seeds=2, costs=False)


class LateLauncher(PretendLauncher):
    """Ends one task per call, the one submitted last, so that others are always under way."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity, self.cores = capacity, 5
        self.running: list[Task] = []
        self.most = 0  # at a time
        self.tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        self.tasks.append(task)
        self.running.append(task)
        self.most = max(self.most, len(self.running))

    def wait(self, seconds: float) -> list[Ending]:
        task = self.running.pop()
        return [Ending(task, self.perform(task))]


@pytest.fixture
def arms(settings: list[str], monkeypatch: pytest.MonkeyPatch) -> list[Arm]:
    """The plain block and two methods."""
    monkeypatch.setattr("zoo.bench.freshness.corpus_fingerprint", lambda arm: "x")
    each = [arm for name in ("v1_m3", "v1_m4") for arm in arms_of([name], settings, SUITE, None)]
    return list({arm.id: arm for arm in each}.values())


def test_a_launcher_has_no_more_than_it_can_run(arms: list[Arm], tmp_path: Path) -> None:
    launcher, lines = LateLauncher(2), list[str]()
    assert run_bench(arms, SUITE, Store(tmp_path), launcher=launcher, say=lines.append) == []
    assert launcher.most == 2 and launcher.stopped
    assert {task.cores for task in launcher.tasks} == {5}
    assert [task.module for task in launcher.tasks] == [TRAIN] * 6 + [TEST_SPLIT] * 2
    assert lines[0] == "6 runs to train, 2 at a time; then the test split for 6 runs"
    assert [run.tested for run in Store(tmp_path).read().values()] == [True] * 6


def test_a_task_that_is_lost_ends_its_arm_alone_and_is_run_by_the_next_bench(arms: list[Arm], tmp_path: Path) -> None:
    launcher = LateLauncher(3)

    def perform(task: Task) -> Failure | None:
        if task.title.startswith("v1_m3"):
            return Failure("the node was lost", "")
        launcher.pretend(task)
        return None

    launcher.perform = perform
    failures = run_bench(arms, SUITE, Store(tmp_path), launcher=launcher, say=lambda text: None)
    assert failures == ["v1_m3 (method, sequential, seed 1) failed (the node was lost):\n"]
    assert sorted(run.name for run in Store(tmp_path).read().values()) == ["baseline"] * 2 + ["v1_m4"] * 2
    whole = LateLauncher(3)
    assert run_bench(arms, SUITE, Store(tmp_path), launcher=whole, say=lambda text: None) == []
    assert sum(task.module == TRAIN for task in whole.tasks) == 2 and len(Store(tmp_path).read()) == 6


def test_a_failure_ends_what_waits_of_its_arm(arms: list[Arm], tmp_path: Path) -> None:
    """Also the other learning rates of its first seed, which were in the same batch."""
    launcher = LateLauncher(1)
    launcher.perform = lambda task: Failure("1", "no memory")
    suite = Suite(seeds=1, lrs=(0.5, 1.0, 2.0), costs=False)
    assert len(run_bench(arms, suite, Store(tmp_path), launcher=launcher, say=lambda text: None)) == 3
    assert len(launcher.tasks) == 3 and Store(tmp_path).read() == {}


def test_a_launcher_that_runs_nothing_yields_no_result(arms: list[Arm], tmp_path: Path) -> None:
    launcher = LateLauncher(2)
    launcher.perform = lambda task: None
    failures = run_bench(arms, SUITE, Store(tmp_path), launcher=launcher, say=lambda text: None)
    assert len(failures) == 3 and all("did not end: see " in failure for failure in failures)
    assert Store(tmp_path).read() == {}


def test_a_test_split_that_fails_is_reported_and_costs_no_result(arms: list[Arm], tmp_path: Path) -> None:
    launcher = LateLauncher(1)

    def perform(task: Task) -> Failure | None:
        if task.module == TEST_SPLIT:
            return Failure("2", "no checkpoint")
        launcher.pretend(task)
        return None

    launcher.perform = perform
    failures = run_bench(arms, SUITE, Store(tmp_path), launcher=launcher, say=lambda text: None)
    assert failures == ["the test split failed (2):\nno checkpoint"]
    assert [run.tested for run in Store(tmp_path).read().values()] == [False] * 6


def test_judged_runs_are_tested_before_much_training_is_at_stake(
    arms: list[Arm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bench whose machine is lost has the test losses of all but the last runs."""
    monkeypatch.setattr("zoo.bench.pool.AT_STAKE", 1.5)  # pretended runs take a second
    launcher = LateLauncher(1)

    def perform(task: Task) -> None:
        if sum(each.module == TRAIN for each in launcher.tasks) == 6:
            raise KeyboardInterrupt
        launcher.pretend(task)

    launcher.perform = perform
    suite = Suite(seeds=2, control_seeds=2, lrs=(1.0,), costs=False)
    with pytest.raises(KeyboardInterrupt):
        run_bench(arms, suite, Store(tmp_path), launcher=launcher, say=lambda text: None)
    assert [task.module for task in launcher.tasks] == [TRAIN, TRAIN, TEST_SPLIT] * 2 + [TRAIN, TRAIN]
    results = Store(tmp_path).read().values()
    assert len(results) == 5 and sum(run.tested for run in results) == 4
    whole = LateLauncher(1)
    assert run_bench(arms, suite, Store(tmp_path), launcher=whole, say=lambda text: None) == []
    assert [task.module for task in whole.tasks] == [TRAIN, TEST_SPLIT]


def test_only_judged_runs_are_tested_and_each_once(
    arms: list[Arm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.bench.pool.AT_STAKE", 1.5)
    launcher = LateLauncher(2)
    suite = Suite(seeds=3, control_seeds=3, lrs=(0.5, 1.0), costs=False)
    assert run_bench(arms, suite, Store(tmp_path), launcher=launcher, say=lambda text: None) == []
    tested = [name for task in launcher.tasks if task.module == TEST_SPLIT for name in task.arguments]
    assert len(tested) == len(set(tested)) == 9 and not any("-s0-" in name for name in tested)
    assert {run.seed for run in Store(tmp_path).read().values() if not run.tested} == {0}


def test_what_was_tested_is_no_longer_at_stake(
    arms: list[Arm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.bench.pool.AT_STAKE", 1.5)
    launcher = LateLauncher(1)
    pool = Pool(Store(tmp_path), launcher, Schedule([], tested=3, say=lambda text: None))
    for seed in (1, 2, 3):
        pool.judge([Job(arms[0], seed, 1.0)])
        assert pool.schedule.tested == 3 - seed
    tested = [name for task in launcher.tasks if task.module == TEST_SPLIT for name in task.arguments]
    assert len(tested) == len(set(tested)) == 3


def test_a_test_that_fails_is_not_tried_twice(arms: list[Arm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.bench.pool.AT_STAKE", 1.5)
    launcher = LateLauncher(1)
    launcher.perform = lambda task: Failure("2", "") if task.module == TEST_SPLIT else launcher.pretend(task)
    failures = run_bench(arms, SUITE, Store(tmp_path), launcher=launcher, say=lambda text: None)
    tested = [name for task in launcher.tasks if task.module == TEST_SPLIT for name in task.arguments]
    assert len(tested) == len(set(tested)) == 6
    assert len(failures) == sum(task.module == TEST_SPLIT for task in launcher.tasks)


def test_runs_of_an_arm_that_has_failed_since_are_tested_too(arms: list[Arm], tmp_path: Path) -> None:
    """Else a ladder would compare all of its runs by their validation loss for ever."""
    launcher = LateLauncher(1)
    launcher.perform = (
        lambda task: Failure("1", "") if "v1_m3" in task.title and "seed 2" in task.title else launcher.pretend(task)
    )
    assert len(run_bench(arms, SUITE, Store(tmp_path), launcher=launcher, say=lambda text: None)) == 1
    results = Store(tmp_path).read().values()
    assert len(results) == 5 and all(run.tested for run in results)


def test_lost_folders_are_trained_again_after_everything_else(arms: list[Arm], tmp_path: Path) -> None:
    """What nobody has seen yet comes before what is only repeated."""
    launcher = LateLauncher(1)
    launcher.perform = lambda task: Failure("1", "") if task.module == TEST_SPLIT else launcher.pretend(task)
    one = Suite(seeds=1, control_seeds=1, costs=False)
    assert len(run_bench(arms, one, Store(tmp_path), launcher=launcher, say=lambda text: None)) == 1
    shutil.rmtree(tmp_path / "runs")
    second = LateLauncher(1)
    assert run_bench(arms, SUITE, Store(tmp_path), launcher=second, say=lambda text: None) == []
    seeds = ["seed 2" in task.title for task in second.tasks if task.module == TRAIN]
    assert seeds == [True] * 3 + [False] * 3
    assert all(run.tested for run in Store(tmp_path).read().values())


def test_a_lost_run_that_is_trained_again_is_not_tested_half_way(arms: list[Arm], tmp_path: Path) -> None:
    """Its folder is there as soon as it is begun: what ends a bench then must not leave its weights to the test split."""
    launcher = LateLauncher(1)
    launcher.perform = lambda task: Failure("1", "") if task.module == TEST_SPLIT else launcher.pretend(task)
    run_bench(arms, SUITE, Store(tmp_path), launcher=launcher, say=lambda text: None)
    shutil.rmtree(tmp_path / "runs")
    second = LateLauncher(1)

    def begin(task: Task) -> None:
        folder_of(task).mkdir(parents=True)
        for name in ("config.gin", "versions.json"):
            (folder_of(task) / name).write_text("{}")
        raise KeyboardInterrupt

    second.perform = begin
    with pytest.raises(KeyboardInterrupt):
        run_bench(arms, SUITE, Store(tmp_path), launcher=second, say=lambda text: None)
    begun = folder_of(second.tasks[-1])
    third = LateLauncher(1)
    assert run_bench(arms, SUITE, Store(tmp_path), launcher=third, say=lambda text: None) == []
    modules = [task.module for task in third.tasks]
    assert modules == [TRAIN] * 6 + [TEST_SPLIT] and begun in {folder_of(task) for task in third.tasks[:6]}
    assert all(run.tested for run in Store(tmp_path).read().values())


def test_everything_is_stopped_whatever_ends_a_bench(arms: list[Arm], tmp_path: Path) -> None:
    launcher = LateLauncher(2)

    def perform(task: Task) -> None:
        raise KeyboardInterrupt

    launcher.perform = perform
    with pytest.raises(KeyboardInterrupt):
        run_bench(arms, SUITE, Store(tmp_path), launcher=launcher, say=lambda text: None)
    assert launcher.stopped


def test_runs_that_are_elsewhere_are_fetched_and_not_trained_again(arms: list[Arm], tmp_path: Path) -> None:
    launcher, far = LateLauncher(2), tmp_path / "far"

    def perform(task: Task) -> Failure | None:
        if task.module == TEST_SPLIT:
            return Failure("2", "the network is gone")
        launcher.pretend(task)
        return None

    launcher.perform = perform
    store = Store(tmp_path / "bench")
    run_bench(arms, SUITE, store, launcher=launcher, say=lambda text: None)
    (store.folder / "runs").rename(far)  # another machine's bench has none of them here
    second = LateLauncher(2)
    second.fetch = lambda folder: shutil.copytree(far / folder.name, folder, dirs_exist_ok=True)  # type: ignore[method-assign,assignment,return-value]
    assert run_bench(arms, SUITE, store, launcher=second, say=lambda text: None) == []
    assert {task.module for task in second.tasks} == {TEST_SPLIT}


def test_a_run_that_is_under_way_elsewhere_is_left_as_it_is(
    arms: list[Arm], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    monkeypatch.setattr("zoo.bench.pool.clear_folder", lambda job, folder, again: looked.append(folder) or "")
    launcher = LateLauncher(2)
    launcher.under_way = lambda folder: "v1_m3" in folder.name  # type: ignore[method-assign]
    assert run_bench(arms, SUITE, Store(tmp_path), launcher=launcher, say=lambda text: None) == []
    assert looked and not any("v1_m3" in folder.name for folder in looked)
