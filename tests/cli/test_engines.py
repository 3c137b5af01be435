"""Where runs are carried out, by flags: what they mean, and what is refused before anything starts."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo.bench import launch
from zoo.cli.bench import main, parser
from zoo.cli.engines import bench_store, check_flags, open_launcher, resources
from zoo.engines.engine import Resources
from zoo.errors import ZooError


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
