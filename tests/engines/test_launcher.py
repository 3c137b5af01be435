"""Tasks through an engine that loses them: what did not end is started again, what ended is not, nothing runs twice."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.pretend_engine import QUICK, PretendEngine, engine_launcher

from zoo.bench.launch import Ending, Task
from zoo.engines.board import Attempt, Beat, Board, End, StopRequest
from zoo.engines.launcher import IN_VAIN, EngineLauncher, ended, task_name
from zoo.engines.places import FolderPlace

COUNTING = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
until = int(sys.argv[2])
folder.joinpath("checkpoints").mkdir(parents=True, exist_ok=True)
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
def saved():
    names = sorted(folder.joinpath("checkpoints").iterdir())
    return int(names[-1].name[5:13]) if names else 0
with folder.joinpath("pids").open("a") as file:
    file.write(f"from step {saved()}\\n")
print("it began", file=sys.stderr, flush=True)
for step in range(saved() + 1, until + 1):
    folder.joinpath("checkpoints", f"step_{step:08d}.0123456789abcdef.pt").touch()
    time.sleep(0.1)
    if stopped:
        sys.exit(143)
"""
FAILING = "import sys; print('no such method', file=sys.stderr); sys.exit(2)"


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "counting_task.py").write_text(COUNTING)
    (tmp_path / "code" / "failing_task.py").write_text(FAILING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "code"))


@pytest.fixture
def store(tmp_path: Path, modules: None) -> Path:
    return tmp_path / "store"


def counting(store: Path, name: str, steps: int = 3) -> Task:
    folder = store / "runs" / name
    return Task(
        title=f"run {name}", module="counting_task", arguments=(str(folder), str(steps)), cores=1, folders=(folder,)
    )


def endings(launcher: EngineLauncher, number: int) -> list[Ending]:
    """So many tasks that have ended."""
    ended: list[Ending] = []
    until = time.monotonic() + 60
    while len(ended) < number:
        assert time.monotonic() < until, "it took too long"
        ended += launcher.wait(0.2)
    return ended


def beginnings(store: Path, name: str) -> list[str]:
    return (store / "runs" / name / "pids").read_text().splitlines()


def until_step(store: Path, name: str, step: int) -> None:
    folder = store / "runs" / name / "checkpoints"
    until = time.monotonic() + 60
    while not list(folder.glob(f"step_{step:08d}.*")):
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


def test_what_ends_well_has_ended_and_the_log_is_named(store: Path) -> None:
    lines: list[str] = []
    engine = PretendEngine(str(store))
    launcher = engine_launcher(engine, store, lines)
    tasks = [counting(store, "one"), counting(store, "two")]
    for task in tasks:
        launcher.submit(task)
    assert sorted(each.task.title for each in endings(launcher, 2) if each.failure is None) == ["run one", "run two"]
    launcher.stop()
    assert engine.batches == [2] and engine.closed  # one array
    board = Board(FolderPlace(store), task_name(tasks[0]))
    log = store / board.log(1)
    assert log.read_text() == "it began\n" and any(str(log) in line for line in lines)
    assert board.read(End) == End(1, 0)


def test_what_never_began_and_what_was_killed_is_started_again_where_it_was(store: Path) -> None:
    lines: list[str] = []
    task = counting(store, "one", steps=12)
    engine = PretendEngine(str(store), lost=[(task_name(task), 1)])
    launcher = engine_launcher(engine, store, lines)
    launcher.submit(task)
    launcher.wait(0.3)
    until_step(store, "one", 3)
    launcher.wait(0.3)  # sees that it was begun, and saved
    engine.kill(f"{task_name(task)}-2")
    (ending,) = endings(launcher, 1)
    launcher.stop()
    assert ending.failure is None and [start.number for start in engine.starts] == [1, 2, 3]
    first, second = beginnings(store, "one")
    assert first == "from step 0" and int(second.rpartition(" ")[2]) >= 3
    assert any("lost before it began; started again" in line for line in lines)
    assert any("lost on " in line and "from step" in line for line in lines)


def test_a_process_that_is_killed_is_started_again(store: Path) -> None:
    task = counting(store, "one", steps=8)
    engine, lines = PretendEngine(str(store)), list[str]()
    launcher = engine_launcher(engine, store, lines)
    launcher.submit(task)
    launcher.wait(0.1)
    until_step(store, "one", 2)
    thread = engine.threads[f"{task_name(task)}-1"]
    assert thread and thread.carrier._child
    os.kill(thread.carrier._child.pid, signal.SIGKILL)
    (ending,) = endings(launcher, 1)
    launcher.stop()
    assert ending.failure is None and len(beginnings(store, "one")) == 2
    assert any("killed by signal 9; started again" in line for line in lines)


def test_a_task_that_fails_again_and_again_has_failed(store: Path) -> None:
    lines: list[str] = []
    engine = PretendEngine(str(store))
    launcher = engine_launcher(engine, store, lines)
    launcher.submit(Task(title="it", module="failing_task", arguments=(), cores=1))
    (ending,) = endings(launcher, 1)
    launcher.stop()
    assert ending.failure is not None and len(engine.starts) == IN_VAIN
    assert ending.failure.of("it") == "it failed (exit code 2):\nno such method"


def test_silence_is_a_loss_whatever_the_engine_says(store: Path) -> None:
    """An engine that believes in a machine which is cut off; what comes back finds a newer attempt, and ends."""
    task = counting(store, "one", steps=60)
    engine, lines = PretendEngine(str(store)), list[str]()
    launcher = engine_launcher(engine, store, lines)
    launcher.submit(task)
    launcher.wait(0.1)
    until_step(store, "one", 1)
    thread = engine.threads[f"{task_name(task)}-1"]
    assert thread and thread.carrier._child
    os.kill(thread.carrier._child.pid, signal.SIGSTOP)  # it does not answer, nor go on
    engine.kill = lambda handle: None  # type: ignore[method-assign]  # the machine cannot be reached
    board = Board(FolderPlace(store), task_name(task))
    real = Board.write

    def cut_off(self: Board, value: object) -> None:
        if not (isinstance(value, Beat) and value.number == 1):
            real(self, value)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Board, "write", cut_off)
        until = time.monotonic() + 30
        while len(engine.starts) < 2:
            assert time.monotonic() < until and not launcher.wait(0.2)
    assert any("lost on " in line for line in lines)
    thread.join(20)  # SIGKILL ends a stopped process as well
    assert not thread.is_alive() and thread.carrier._child.returncode == -signal.SIGKILL
    launcher.stop()
    last = board.read(Attempt)
    assert last and last.number == 2


def test_stopping_lets_runs_save_and_the_next_bench_goes_on(store: Path) -> None:
    task = counting(store, "one", steps=25)
    engine = PretendEngine(str(store))
    launcher = engine_launcher(engine, store, [])
    launcher.submit(task)
    launcher.wait(0.1)
    until_step(store, "one", 2)
    launcher.wait(0.3)
    launcher.stop()
    assert not engine._lives(f"{task_name(task)}-1") and engine.closed
    board = Board(FolderPlace(store), task_name(task))
    assert board.read(End) == End(1, 143)
    second = PretendEngine(str(store))
    again = engine_launcher(second, store, [])
    again.submit(task)
    (ending,) = endings(again, 1)
    assert ending.failure is None and [start.number for start in second.starts] == [2]
    first, later = beginnings(store, "one")
    assert first == "from step 0" and later != first


@pytest.mark.parametrize(("gpus", "accelerated", "seen"), [(False, True, ""), (True, False, ""), (True, True, "5")])
def test_a_task_sees_a_gpu_only_where_the_engine_gives_one(
    gpus: bool, accelerated: bool, seen: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")  # as an engine sets it on the machine
    (store.parent / "code" / "gpu_task.py").write_text(
        "import os, sys; print(repr(os.environ['CUDA_VISIBLE_DEVICES']), file=sys.stderr)"
    )
    task = replace(counting(store, "one"), module="gpu_task", accelerated=accelerated)
    launcher = engine_launcher(PretendEngine(str(store)), store, [], gpus=gpus)
    launcher.submit(task)
    assert [ending.failure for ending in endings(launcher, 1)] == [None]
    launcher.stop()
    assert (store / Board(FolderPlace(store), task_name(task)).log(1)).read_text() == f"{seen!r}\n"


def test_what_waits_in_a_queue_is_taken_out_of_it_at_once(store: Path) -> None:
    """Also what had begun before, as a job that was preempted."""
    tasks = [counting(store, "one"), counting(store, "two")]
    names = [task_name(task) for task in tasks]
    engine = PretendEngine(str(store), lost=[(name, 1) for name in names])
    killed: list[str] = []
    engine.states = lambda handles: dict.fromkeys(handles, "waiting")  # type: ignore[method-assign]
    engine.kill = killed.append  # type: ignore[method-assign]
    launcher = engine_launcher(engine, store, [])
    for task in tasks:
        launcher.submit(task)
    launcher.wait(0.1)
    Board(FolderPlace(store), names[1]).write(Beat(1, 5, "host", 10, 10))
    time.sleep(QUICK.lost)
    assert launcher.wait(0.2) == []  # silence is no loss there
    began = time.monotonic()
    launcher.stop()
    assert sorted(killed) == sorted(f"{name}-1" for name in names) and time.monotonic() - began < 5
    assert Board(FolderPlace(store), names[0]).read(StopRequest) == StopRequest(1)


def test_a_bench_that_leaves_its_runs_is_followed_by_one_that_finds_them(store: Path) -> None:
    lines: list[str] = []
    task = counting(store, "one", steps=20)
    engine = PretendEngine(str(store))
    first = engine_launcher(engine, store, [], leave=True)
    first.submit(task)
    first.wait(0.1)
    until_step(store, "one", 2)
    first.stop()
    second = engine_launcher(engine, store, lines)
    board_name = task_name(task)
    second.submit(task)
    assert lines == ["run one: an earlier bench began it; this one waits for it"]
    (ending,) = endings(second, 1)
    assert ending.failure is None and [start.number for start in engine.starts] == [1]
    assert beginnings(store, "one") == ["from step 0"]
    assert Board(FolderPlace(store), board_name).read(End) == End(1, 0)


def test_a_bench_that_died_while_it_started_something_costs_some_patience(store: Path) -> None:
    task = counting(store, "one")
    name = task_name(task)
    Board(FolderPlace(store), name).write(Attempt(1, ""))  # it had no time to write a handle
    engine = PretendEngine(str(store))
    launcher = engine_launcher(engine, store, [])
    launcher.submit(task)
    began = time.monotonic()
    (ending,) = endings(launcher, 1)
    assert ending.failure is None and [start.number for start in engine.starts] == [2]
    assert time.monotonic() - began >= QUICK.lost


def test_half_a_file_is_no_news(tmp_path: Path) -> None:
    board = Board(FolderPlace(tmp_path), "one")
    assert board.read(Attempt) is None
    board.write(Attempt(3, "handle"))
    file = tmp_path / "engine" / "one" / "attempt.json"
    text = file.read_text()
    for damaged in (text[:10], "[]", "null", "{}", json.dumps({"number": 3})):
        file.write_text(damaged)
        assert board.read(Attempt) is None
    file.write_text(json.dumps({**json.loads(text), "later": 1}))
    assert board.read(Attempt) == Attempt(3, "handle")


@pytest.mark.parametrize(
    ("code", "words"), [(-9, "killed by signal 9"), (143, "stopped by signal 15"), (2, "exit code 2")]
)
def test_endings_in_words(code: int, words: str) -> None:
    assert ended(code) == words
