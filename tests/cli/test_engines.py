"""Where runs are carried out, by flags: what they mean, and what is refused before anything starts."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo.bench import launch
from zoo.bench.store import LOCK, Store
from zoo.cli.bench import main, parser
from zoo.cli.engines import bench_store, check_flags, open_launcher, resources
from zoo.engines import slurm_engine
from zoo.engines.engine import Resources
from zoo.errors import ZooError
from zoo.system.lock import open_lock, try_lock


def options(*flags: str) -> argparse.Namespace:
    return parser().parse_args(["--gin", "v1_m3", *flags])


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--jobs 0", "--jobs 0 must be at least 1"),
        ("--jobs-per-device 0", "--jobs-per-device 0 must be at least 1"),
        ("--on ray --cpus-per-run 0", "--cpus-per-run 0 must be at least 1"),
        ("--on ray --gpus-per-run -1", "--gpus-per-run -1 must be at least 0"),
        ("--on ray --gpus-per-run nan", "--gpus-per-run nan must be at least 0"),
        ("--address host:1", "--address goes with --on ray"),
        ("--on slurm --address host:1", "--address goes with --on ray"),
        ("--on ray --slurm partition=x", "--slurm goes with --on slurm"),
        ("--leave", "--leave goes with --on ray or --on slurm"),
        ("--gpus-per-run 1", "--gpus-per-run goes with --on ray or --on slurm"),
        ("--cpus-per-run 2", "--cpus-per-run goes with --on ray or --on slurm"),
        ("--on ray --leave", "--leave needs a cluster that stays"),
        ("--on ray --jobs-per-device 2", "--gpus-per-run 0.5 puts two runs on a GPU"),
        ("--on slurm --gpus-per-run 0.5", "Slurm gives whole GPUs"),
        ("--on slurm --slurm partition", "write NAME=VALUE, with commas between several"),
        ("--on slurm --slurm =gpu", "write NAME=VALUE"),
        ("--on ray --resources tpu=none", "--resources tpu=none: write a positive number"),
        ("--on ray --resources tpu=nan", "write a positive number"),
    ],
)
def test_flags_that_make_no_sense_are_refused(flags: str, sentence: str) -> None:
    with pytest.raises(ZooError) as refusal:
        check_flags(options(*flags.split()))
    assert sentence in str(refusal.value)


def test_what_each_run_is_given() -> None:
    flags = options("--on", "ray", "--cpus-per-run", "4", "--gpus-per-run", "0.5", "--resources", "big=1,fast=2.5")
    check_flags(flags)
    assert resources(flags) == Resources(4, 0.5, (("big", 1.0), ("fast", 2.5)))


def test_an_address_needs_runs_elsewhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--gin", "v1_m3", "--store", f"file://{tmp_path}/far"]) == 2
    assert "is for runs elsewhere (--on ray): name a folder" in capsys.readouterr().err
    assert not (tmp_path / "far").exists()


def test_slurm_needs_a_folder(tmp_path: Path) -> None:
    flags = options("--on", "slurm", "--store", f"file://{tmp_path}/far")
    with pytest.raises(ZooError, match="needs a folder that its nodes share"), bench_store(flags, print):
        pass


def test_stores_are_absolute_where_other_machines_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here, there = options("--store", "some"), options("--store", "some", "--on", "ray")
    with bench_store(here, print), bench_store(there, print):
        assert here.store == Path("some") and there.store == tmp_path / "some"


def test_on_this_machine_runs_get_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[object, ...]] = []
    record: Callable[..., None] = lambda *arguments: given.append(arguments)  # noqa: E731
    monkeypatch.setattr(launch, "LocalLauncher", record)
    monkeypatch.setattr("zoo.bench.devices.visible_devices", lambda: ("0", "1"))
    on_gpu, on_cpu = SimpleNamespace(accelerated=True), SimpleNamespace(accelerated=False)
    for flags, arms in ((["--jobs", "2"], [on_cpu, on_gpu]), (["--jobs", "9"], [on_cpu]), ([], [on_gpu])):
        with open_launcher(options(*flags), arms, print):  # type: ignore[arg-type]
            pass
    assert given == [(2, ("0", "1"), 1), (9, (), 1), (1, ("0", "1"), 1)]
    many = open_launcher(options("--jobs", "3"), [on_gpu], print)  # type: ignore[list-item]
    with pytest.raises(ZooError, match="this machine has 2 GPUs"), many:
        pass


@pytest.mark.parametrize(
    ("flags", "sentence", "there"),
    [
        ("--on ray --address 127.0.0.1:9", "no Ray answers at 127.0.0.1:9", False),
        ("--on slurm --slurm partition=none", "Slurm has no partition none", False),
        ("--on slurm --gpus-per-run 2", "no node of Slurm has 1 CPUs and 2 GPUs for a run", True),
        ("--on slurm", "is not seen by the nodes of Slurm", False),
        ("--jobs-per-device 2 --jobs 5", "--jobs 5", False),
    ],
)
def test_a_bench_that_is_refused_leaves_nothing_behind(
    flags: str,
    sentence: str,
    there: bool,
    settings: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("ray" if "ray" in flags else "submitit")
    unseen = subprocess.CompletedProcess([], 1, "", "cp: cannot stat 'probe': No such file or directory")
    monkeypatch.setattr(slurm_engine, "command", lambda *_: "small|2|(null)\n")
    monkeypatch.setattr(slurm_engine.subprocess, "run", lambda *_, **__: unseen)
    monkeypatch.setattr(slurm_engine.shutil, "which", lambda name: f"/usr/bin/{name}")  # as where there is Slurm
    monkeypatch.setattr("zoo.bench.devices.visible_devices", lambda: ("0", "1"))
    monkeypatch.setattr("zoo.bench.arms.Arm.accelerated", True)
    around = tmp_path / "around"
    store = around / "new" / "bench"
    (store if there else around).mkdir(parents=True)
    before = sorted(around.rglob("*"))
    assert main(["--gin", "v1_m3", "--store", str(store), *flags.split(), "--set", *settings]) == 2
    printed = capsys.readouterr().err
    assert sentence in printed and "Traceback" not in printed
    assert sorted(around.rglob("*")) == before


def test_a_bench_whose_folder_was_removed_meanwhile_is_told_so(tmp_path: Path) -> None:
    """Of two, the first is refused and removes its lock; the second had opened it, and would hold what nobody sees."""
    first = open_lock(tmp_path / LOCK)
    with Store(tmp_path).held():
        pass
    assert not (tmp_path / LOCK).exists()
    with first:
        assert not try_lock(first)
