"""What an engine costs: so many tasks that only wait, two at a time, as processes of this machine and through Ray.

tools/run python tools/benchmarks/engines.py                          # 20 tasks of a minute: about 25 minutes
tools/run python tools/benchmarks/engines.py --tasks 8 --seconds 2    # the overhead per task, roughly
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from zoo.bench.launch import Launcher, LocalLauncher, Task
from zoo.engines.engine import Resources
from zoo.engines.launcher import EngineLauncher
from zoo.engines.places import FolderPlace
from zoo.engines.ray_engine import RayEngine, ray_cluster

AT_A_TIME = 2


def seconds_of(launcher: Launcher, tasks: int, seconds: float) -> float:
    """The time of all tasks, handed out as a bench does it."""
    began, left, running = time.monotonic(), list(range(tasks)), 0
    while left or running:
        while left and running < launcher.capacity:
            wait = f"import time; time.sleep({seconds})  # {left.pop()}"
            launcher.submit(Task(title=wait, module="timeit", arguments=("-n1", "-r1", wait), cores=1))
            running += 1
        for ending in launcher.wait(2.0):
            assert ending.failure is None, ending.failure
            running -= 1
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    local = LocalLauncher(AT_A_TIME)
    here = seconds_of(local, options.tasks, options.seconds)
    local.stop()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        with ray_cluster(None):
            start = time.monotonic() - began
            engine = RayEngine(FolderPlace(Path(folder)), Resources())
            launcher = EngineLauncher(engine, Path(folder), capacity=AT_A_TIME, cores=1, say=lambda text: None)
            on_ray = seconds_of(launcher, options.tasks, options.seconds)
            launcher.stop()
    rounds = -(-options.tasks // AT_A_TIME)
    print(f"{options.tasks} tasks of {options.seconds:g} s, {AT_A_TIME} at a time")
    print(
        f"as processes {here:.1f} s; on Ray {on_ray:.1f} s: × {on_ray / here:.3f}, and {start:.1f} s to start the cluster"
    )
    print(f"that is {(on_ray - here) / rounds:+.2f} s per task")


if __name__ == "__main__":
    main()
