"""Engines that lose machines, workers, runs and the bench itself: every result is there once, with the same bits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.broken_bench import BrokenBench, figures, lines_by_key, runs_of

RUNS = 20
SCRIPT = Path(__file__).parents[1] / "scripts" / "bench_on_local_queue.py"


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("tiny")
    text = "\n\n".join(f"Sentence number {i} says that {i * i % 97} follows {i % 13}." for i in range(2000))
    (folder / "text.txt").write_text(text)
    settings = [
        "suite.costs = False",
        f"suite.control_seeds = {RUNS // 2}",
        "train.steps = 120",
        "train.validate_every = 40",
        "train.save_every = 10",
        "data.vocab_size = 300",
        "data.length = 16",
        "data.batch_size = 4",
        "model.depth = 2",
        "model.aspect = 8",
        f'data.corpus = "{folder / "text.txt"}"',
        f'data.cache = "{folder / "cache"}"',
    ]
    return ["--gin", "v1_m3", "--seeds", str(RUNS // 2), "--set", *settings]


@pytest.fixture(scope="module")
def expected(flags: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, ...]]:
    """What the same bench gives on this machine, undisturbed."""
    store = tmp_path_factory.mktemp("undisturbed") / "bench"
    command = [sys.executable, "-m", "zoo.cli.bench", *flags, "--store", str(store), "--jobs", "2"]
    subprocess.run(command, check=True, capture_output=True, timeout=1800)
    return figures(store)


def check(store: Path, expected: dict[str, tuple[Any, ...]], bench: BrokenBench) -> None:
    """Every result once, equal bit for bit, and nothing left running."""
    assert figures(store) == expected and len(expected) == RUNS
    for lines in lines_by_key(store).values():
        assert len({ended for ended, _ in lines}) == 1 and [tested for _, tested in lines].count(True) == 1
    assert runs_of(store) == []
    print(bench.log.read_text()[-2000:], bench.done)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Three nodes of Ray on this machine, two of which can be lost."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.workers = [made.add_node(num_cpus=1) for _ in range(2)]
    yield made
    made.shutdown()


@pytest.mark.slow
def test_a_ray_cluster_that_falls_apart(
    cluster: Any, flags: list[str], expected: dict[str, tuple[Any, ...]], tmp_path: Path
) -> None:
    store = tmp_path / "bench"
    command = ["-m", "zoo.cli.bench", *flags, "--store", str(store), "--on", "ray", "--address", cluster.address]
    bench = BrokenBench(command, store, tmp_path / "log.txt", seed=1)

    def lose_node() -> None:
        node = cluster.workers.pop(0)
        cluster.remove_node(node, allow_graceful=False)
        cluster.workers.append(cluster.add_node(num_cpus=1))

    breaks = {
        "node": lose_node,
        "worker": bench.kill_worker,
        "run": bench.kill_run,
        "driver": bench.kill_driver,
    }
    assert bench.go(breaks, times=8, seconds=1500) == 0
    assert set(bench.done) == breaks.keys()
    check(store, expected, bench)


@pytest.mark.slow
def test_jobs_of_submitit_that_are_lost(flags: list[str], expected: dict[str, tuple[Any, ...]], tmp_path: Path) -> None:
    store = tmp_path / "bench"
    command = [str(SCRIPT), *flags, "--store", str(store), "--on", "slurm", "--jobs", "3"]
    bench = BrokenBench(command, store, tmp_path / "log.txt", seed=2)
    breaks = {"worker": bench.kill_worker, "run": bench.kill_run, "driver": bench.kill_driver}
    assert bench.go(breaks, times=9, seconds=1500) == 0
    assert set(bench.done) == breaks.keys()
    check(store, expected, bench)


@pytest.mark.slow
def test_a_ray_cluster_without_a_shared_folder(
    flags: list[str], expected: dict[str, tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store behind an address: every machine works on copies; runs that are killed go on from what was brought back."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    few = [flag.replace(f"control_seeds = {RUNS // 2}", "control_seeds = 2") for flag in flags]
    far, few[few.index("--seeds") + 1] = tmp_path / "far", "2"
    command = ["-m", "zoo.cli.bench", *few, "--store", f"file://{far}", "--on", "ray"]
    bench = BrokenBench(command, Path("zoo-attempt-"), tmp_path / "log.txt", seed=3)
    assert bench.go({"run": bench.kill_run}, times=2, seconds=900) == 0
    stored = figures(far)
    assert len(stored) == 4 and all(expected[key] == run for key, run in stored.items())
    assert (far / "report.html").exists() and not (far / "bench.json").exists()
