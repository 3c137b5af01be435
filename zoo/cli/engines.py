"""The flags of `zoo-bench` that say where its runs are carried out, and the launcher that they stand for."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.bench.arms import Arm
    from zoo.bench.launch import Launcher
    from zoo.bench.schedule import Say
    from zoo.engines.engine import Resources
    from zoo.engines.mirror import Mirror

MOST = 10_000  # jobs, CPUs or GPUs: more is a slip


def add_engine_flags(parser: argparse.ArgumentParser) -> None:
    """Add what says where runs are carried out, how many at a time, and with what."""
    flags = parser.add_argument_group("where runs are carried out (docs/scaling.md)")
    flags.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="runs at a time (default: 1 on this machine, each with its GPU or share of the cores; elsewhere, what fits)",
    )
    flags.add_argument(
        "--jobs-per-device",
        type=int,
        default=1,
        metavar="N",
        help="runs that share one GPU of this machine (default: 1)",
    )
    flags.add_argument(
        "--on", choices=("here", "ray", "slurm"), default="here", help="this machine (default), a Ray cluster, or Slurm"
    )
    flags.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="the Ray cluster; without one a cluster on this machine is started and ended",
    )
    flags.add_argument(
        "--slurm", default="", metavar="K=V,…", help="options of sbatch: partition=gpu,time=4:00:00,account=…"
    )
    flags.add_argument(
        "--cpus-per-run", type=int, default=1, metavar="N", help="with --on: CPUs of each run (default: 1)"
    )
    flags.add_argument(
        "--gpus-per-run", type=float, default=0, metavar="N", help="with --on: GPUs of each run (default: 0)"
    )
    flags.add_argument("--resources", default="", metavar="K=N,…", help="with --on ray: custom resources of each run")
    flags.add_argument(
        "--leave",
        action="store_true",
        help="with --on: runs continue when this command ends; the same command finds them",
    )


@contextlib.contextmanager
def bench_store(options: argparse.Namespace, say: Say) -> Iterator[None]:
    """Check the flags; make `options.store` the folder of the store, which may stand for an address (`options.mirror`)."""
    from zoo.engines.places import is_address

    check_flags(options)
    options.mirror = None
    if not is_address(options.store):
        folder = Path(options.store)
        options.store = (
            folder if options.on == "here" else folder.absolute()
        )  # other machines have other folders to be in
        yield
        return
    options.mirror = mirror = _mirror(options)
    options.store = mirror.folder
    if options.plan:
        mirror.pull()
        yield
        return
    with mirror.held(say):
        yield


def check_flags(options: argparse.Namespace) -> None:
    """Refuse numbers that make no sense, and flags of an engine that was not chosen."""
    from zoo.errors import ZooError

    for flag, value, least in (
        ("--jobs", options.jobs, 1),
        ("--jobs-per-device", options.jobs_per_device, 1),
        ("--cpus-per-run", options.cpus_per_run, 1),
        ("--gpus-per-run", options.gpus_per_run, 0),
    ):
        if value is not None and not least <= value <= MOST:
            raise ZooError(f"{flag} {value:g} must be at least {least} and at most {MOST}")
    for flag, value, engines in (
        ("--address", options.address, ("ray",)),
        ("--resources", options.resources, ("ray",)),
        ("--slurm", options.slurm, ("slurm",)),
        ("--leave", options.leave, ("ray", "slurm")),
        ("--gpus-per-run", options.gpus_per_run, ("ray", "slurm")),
        ("--cpus-per-run", options.cpus_per_run != 1, ("ray", "slurm")),
    ):
        if value and options.on not in engines:
            raise ZooError(f"{flag} goes with {' or '.join(f'--on {engine}' for engine in engines)}")
    if options.jobs_per_device != 1 and options.on != "here":
        raise ZooError(
            "--jobs-per-device is for this machine; with --on ray, --gpus-per-run 0.5 puts two runs on a GPU"
        )
    if options.on == "slurm" and options.gpus_per_run % 1:
        raise ZooError(f"--gpus-per-run {options.gpus_per_run:g}: Slurm gives whole GPUs")
    if options.on == "ray" and options.leave and options.address is None:
        raise ZooError("--leave needs a cluster that stays: name it with --address")
    pairs("--slurm", options.slurm)
    resources(options)


def pairs(flag: str, text: str) -> dict[str, str]:
    """What a flag of the form NAME=VALUE,NAME=VALUE says."""
    from zoo.errors import ZooError

    parts = [part.partition("=") for part in text.split(",")] if text else []
    if not all(name.strip() and equals and value.strip() for name, equals, value in parts):
        raise ZooError(f"{flag} {text!r}: write NAME=VALUE, with commas between several")
    return {name.strip(): value.strip() for name, _, value in parts}


def resources(options: argparse.Namespace) -> Resources:
    """What each run is given."""
    from zoo.engines.engine import Resources
    from zoo.errors import ZooError

    custom = []
    for name, text in pairs("--resources", options.resources).items():
        try:
            amount = float(text)
        except ValueError:
            amount = 0.0
        if not 0 < amount <= MOST:
            raise ZooError(f"--resources {name}={text}: write a positive number")
        custom.append((name, amount))
    return Resources(options.cpus_per_run, options.gpus_per_run, tuple(custom))


def plan_launcher(options: argparse.Namespace) -> Launcher:
    """The launcher that a plan reckons with: processes on this machine, as many at a time as was asked for."""
    from zoo.bench.launch import LocalLauncher

    return LocalLauncher(options.jobs or 1)


@contextlib.contextmanager
def open_launcher(options: argparse.Namespace, arms: Sequence[Arm], say: Say) -> Iterator[Launcher]:
    """The launcher that the flags ask for, after a look at what there is; whoever uses it stops it."""
    if options.on == "here":
        yield _local(options, arms)
    elif options.on == "ray":
        with _on_ray(options, say) as launcher:
            yield launcher
    else:
        yield _on_slurm(options, say)


def _local(options: argparse.Namespace, arms: Sequence[Arm]) -> Launcher:
    from zoo.bench import devices, launch
    from zoo.system.child_process import without_torch

    jobs = options.jobs or 1
    gpus = without_torch(devices.visible_devices) if any(arm.accelerated for arm in arms) else ()
    devices.check_jobs(jobs, gpus, options.jobs_per_device)
    return launch.LocalLauncher(jobs, gpus, options.jobs_per_device)


@contextlib.contextmanager
def _on_ray(options: argparse.Namespace, say: Say) -> Iterator[Launcher]:
    from zoo.engines.launcher import EngineLauncher
    from zoo.engines.places import FolderPlace
    from zoo.engines.ray_engine import RayEngine, ray_cluster

    store = options.store
    place = options.mirror.place if options.mirror else FolderPlace(store)
    with ray_cluster(options.address):
        engine = RayEngine(place, resources(options), options.leave)
        engine.check()
        if engine.has_idle_gpus:
            say("the Ray cluster has GPUs, and no run will use one: --gpus-per-run 1 gives each run its own")
        capacity = options.jobs or engine.capacity
        say(f"on Ray: {capacity} runs at a time; logs: {place.address}/engine/RUN/log-N.txt")
        yield EngineLauncher(
            engine,
            store,
            capacity=capacity,
            cores=options.cpus_per_run,
            say=say,
            gpus=options.gpus_per_run > 0,
            leave=options.leave,
            mirror=options.mirror,
        )


def _on_slurm(options: argparse.Namespace, say: Say) -> Launcher:
    from zoo.engines.launcher import EngineLauncher
    from zoo.engines.slurm_engine import check_store, slurm_engine

    store, given = options.store, pairs("--slurm", options.slurm)
    engine = slurm_engine(store, given, resources(options), options.jobs)
    check_store(store, given.get("partition"), say)
    say(f"on Slurm: jobs and arrays called zoo; logs: {store}/engine/RUN/log-N.txt")
    return EngineLauncher(
        engine,
        store,
        capacity=engine.capacity,
        cores=options.cpus_per_run,
        say=say,
        gpus=options.gpus_per_run > 0,
        leave=options.leave,
    )


def _mirror(options: argparse.Namespace) -> Mirror:
    from zoo.engines.mirror import Mirror
    from zoo.errors import ZooError

    if options.on == "slurm":
        raise ZooError(f"--on slurm needs a folder that its nodes share, not {options.store}")
    if options.on == "here" and not (options.plan or options.costs):
        raise ZooError(f"--store {options.store} is for runs elsewhere (--on ray): name a folder")
    return Mirror(options.store)
