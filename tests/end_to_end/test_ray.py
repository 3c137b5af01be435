"""A bench on a Ray cluster: what is refused before it starts, and how it ends: its runs stop, or go on without it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.broken_bench import lines_by_key, runs_of

from zoo.engines.engine import Resources
from zoo.engines.places import FolderPlace
from zoo.engines.ray_engine import RayEngine, ray_cluster
from zoo.errors import ZooError
from zoo.runs.checkpoint import listed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield made
    made.shutdown()


def started(settings: list[str], store: Path, address: str, *flags: str, steps: int = 1500) -> subprocess.Popen[str]:
    """A bench of one arm that takes a while."""
    changed = [
        each for each in settings if not each.startswith(("train.steps", "train.save_every", "train.validate_every"))
    ]
    changed += [
        f"train.steps = {steps}",
        "train.save_every = 20",
        "train.validate_every = 1000",
        "suite.baselines = ()",
    ]
    words = ["--gin", "v1_m3", "--seeds", "1", "--store", str(store), "--on", "ray", "--address", address, *flags]
    return subprocess.Popen(
        [sys.executable, "-m", "zoo.cli.bench", *words, "--set", *changed],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until_saved(store: Path, step: int = 1) -> int:
    """Wait until the one run of a store has a checkpoint at this step or later; its step."""
    until = time.monotonic() + 180
    while time.monotonic() < until:
        for folder in (store / "runs").glob("*/checkpoints"):
            if (checkpoints := listed(folder)) and checkpoints[-1].step >= step:
                return checkpoints[-1].step
        time.sleep(0.3)
    raise AssertionError("it took too long")


def interrupted(bench: subprocess.Popen[str]) -> str:
    """Send Ctrl-C to a bench; what it printed."""
    bench.send_signal(signal.SIGINT)
    printed, _ = bench.communicate(timeout=180)
    assert bench.returncode == 130, printed
    return printed


def test_ctrl_c_stops_the_runs_and_the_same_command_goes_on(cluster: Any, settings: list[str], tmp_path: Path) -> None:
    store = tmp_path / "bench"
    bench = started(settings, store, cluster.address)
    until_saved(store)
    interrupted(bench)
    assert runs_of(store) == []
    step = until_saved(store)
    again = started(settings, store, cluster.address)
    printed, _ = again.communicate(timeout=400)
    assert again.returncode == 0 and step < 1500, printed
    (log,) = (store / "engine").glob("v1_m3*/log-2.txt")
    assert log.exists() and len(lines_by_key(store)) == 1


def test_runs_that_are_left_go_on_and_are_found_again(cluster: Any, settings: list[str], tmp_path: Path) -> None:
    store = tmp_path / "bench"
    bench = started(settings, store, cluster.address, "--leave")
    until_saved(store)
    assert "1 of its tasks go on; the same command finds them" in interrupted(bench)
    (run,) = runs_of(store)
    until_saved(store, until_saved(store) + 20)
    assert runs_of(store) == [run]  # nobody watches, and it goes on
    again = started(settings, store, cluster.address, "--leave")
    printed, _ = again.communicate(timeout=400)
    assert again.returncode == 0, printed
    assert "an earlier bench began it; this one waits for it" in printed
    (folder,) = (store / "engine").glob("v1_m3*")
    assert not (folder / "log-2.txt").exists()  # there was one attempt
    ((ended, _), *others) = next(iter(lines_by_key(store).values()))
    assert {other for other, _ in others} == {ended}


def test_what_the_cluster_lacks_is_refused_before_anything_starts(
    cluster: Any, settings: list[str], tmp_path: Path
) -> None:
    store = tmp_path / "bench"
    bench = started(settings, store, cluster.address, "--gpus-per-run", "1")
    printed, _ = bench.communicate(timeout=180)
    assert bench.returncode == 2 and "no node of the Ray cluster has what a run is to have (1 CPU, 1 GPU)" in printed
    assert not store.exists() and "Traceback" not in printed
    nowhere = FolderPlace(tmp_path)
    nowhere.address = "/no/node/has/this"
    with ray_cluster(cluster.address):
        RayEngine(FolderPlace(tmp_path), Resources()).check()
        assert not (tmp_path / "engine").exists()
        with pytest.raises(ZooError, match="is not seen by every node of the Ray cluster .*name a folder that all"):
            RayEngine(nowhere, Resources()).check()


def test_two_benches_on_one_store(cluster: Any, settings: list[str], tmp_path: Path) -> None:
    store = tmp_path / "bench"
    bench = started(settings, store, cluster.address)
    until_saved(store)
    second = started(settings, store, cluster.address)
    printed, _ = second.communicate(timeout=180)
    assert second.returncode == 2 and "another zoo-bench is working in" in printed
    assert len(runs_of(store)) == 1
    interrupted(bench)
