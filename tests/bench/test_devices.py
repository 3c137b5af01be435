"""GPUs that are shared out among runs: pretended ones, as there may be none here."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from zoo.bench.devices import check_jobs, visible_devices
from zoo.bench.launch import Ending, LocalLauncher, Task
from zoo.errors import ZooError

SEEN = """
import os, pathlib, sys, time
folder, name, expected = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
device = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
mark = folder / f"on-{device}-{name}"
mark.touch()
until = time.monotonic() + 20
while (together := len(list(folder.glob(f"on-{device}-*")))) < expected and time.monotonic() < until:
    time.sleep(0.02)
time.sleep(0.2)  # the others look
mark.unlink()
(folder / f"ran-{name}").write_text(f"{device} {together}")
"""


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: LocalLauncher, tasks: dict[str, bool], expected: int = 1
) -> list[str]:
    """Run tasks, each with a GPU or without; the GPU that each saw, and how many tasks were on it: each waits for so many."""
    (tmp_path / "seen_task.py").write_text(SEEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name, accelerated in tasks.items():
        launcher.submit(
            Task(
                title=name,
                module="seen_task",
                arguments=(str(tmp_path), name, str(expected)),
                cores=1,
                accelerated=accelerated,
            )
        )
    endings: list[Ending] = []
    until = time.monotonic() + 60
    while len(endings) < len(tasks):
        assert time.monotonic() < until, "it took too long"
        endings += launcher.wait(1.0)
    launcher.stop()
    assert all(ending.failure is None for ending in endings)
    return [(tmp_path / f"ran-{name}").read_text() for name in tasks]


def test_each_run_has_a_gpu_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = LocalLauncher(3, devices=("3", "GPU-abc"))  # more at a time than there are: the third waits
    seen = run(tmp_path, monkeypatch, launcher, dict.fromkeys("abcd", True))
    assert {text.split()[0] for text in seen} == {"3", "GPU-abc"}
    assert {text.split()[1] for text in seen} == {"1"}


def test_runs_share_a_gpu_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = LocalLauncher(2, devices=("0",), per_device=2)
    seen = run(tmp_path, monkeypatch, launcher, dict.fromkeys("ab", True), expected=2)
    assert {text.split()[0] for text in seen} == {"0"} and {text.split()[1] for text in seen} == {"2"}


def test_a_run_on_the_cpu_sees_no_gpu_and_takes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = run(tmp_path, monkeypatch, LocalLauncher(2, devices=("0",)), {"a": False, "b": True})
    assert [text.split(" ")[0] for text in seen] == ["", "0"]


def test_without_gpus_the_environment_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert run(tmp_path, monkeypatch, LocalLauncher(1), {"a": True}) == ["7 1"]


@pytest.mark.parametrize(
    ("variable", "count", "devices"),
    [
        (None, 0, ()),
        (None, 2, ("0", "1")),
        ("2,5", 2, ("2", "5")),
        ("", 0, ()),
        (" GPU-x , 1", 2, ("GPU-x", "1")),
        ("0,99", 1, ("0",)),
    ],
)
def test_the_gpus_that_may_be_used(
    variable: str | None, count: int, devices: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert visible_devices() == devices


def test_more_runs_than_gpus_are_refused_unless_asked_for() -> None:
    check_jobs(8, (), 1)
    check_jobs(2, ("0", "1"), 1)
    check_jobs(4, ("0", "1"), 2)
    with pytest.raises(ZooError, match="--jobs 5: this machine has 2 GPUs, and each takes 1 run at a time; .* 3$"):
        check_jobs(5, ("0", "1"), 1)
