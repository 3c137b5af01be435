"""Which of a run's processes this one is: torchrun says so through the environment, and so does Slurm's srun."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from zoo.errors import ConfigError

PORTS = range(20_000, 30_000)  # of the store, below those that systems hand out by themselves
OF_TORCHRUN = "TORCHELASTIC_RUN_ID"


class Place(NamedTuple):
    """A process's place among those of its run."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among those of its machine
    local_size: int = 1


def place(environment: Mapping[str, str] = os.environ) -> Place:
    """The place that torchrun's variables name; alone where there are none."""
    given = [name for name in ("RANK", "WORLD_SIZE") if name in environment]
    if not given:
        return Place()
    if len(given) == 1:
        other = {"RANK": "WORLD_SIZE", "WORLD_SIZE": "RANK"}[given[0]]
        raise ConfigError(
            f"{given[0]} is set in the environment and {other} is not: set both, as torchrun does, or none"
        )
    size, rank = _number(environment, "WORLD_SIZE", 1), _number(environment, "RANK", 0)
    _check_rank("RANK", rank, "WORLD_SIZE", size)
    local_size = _number(environment, "LOCAL_WORLD_SIZE", 1, size)
    return Place(rank, size, _number(environment, "LOCAL_RANK", 0, rank % local_size), local_size)


def adopt_slurm(environment: MutableMapping[str, str] = os.environ) -> None:
    """Under srun with several tasks, say in torchrun's words what Slurm says, for all that asks later.

    A torchrun that srun started has said it already. In a batch script outside srun there is one process, whatever the job
    could have: Slurm names a step only to what srun starts.
    """
    if OF_TORCHRUN in environment or "SLURM_STEP_ID" not in environment or "SLURM_PROCID" not in environment:
        return
    tasks = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environment else "SLURM_NTASKS"
    size, rank = _number(environment, tasks, 1, 1), _number(environment, "SLURM_PROCID", 0)
    if size == 1:
        return
    _check_rank("SLURM_PROCID", rank, tasks, size)
    for name, own, value in (("RANK", "SLURM_PROCID", rank), ("WORLD_SIZE", tasks, size)):
        if name in environment and _number(environment, name, 0) != value:
            raise ConfigError(
                f"{name} = {environment[name]} and {own} = {value} contradict each other: start the processes with srun or"
                f" with torchrun, and leave {name} unset under srun"
            )
    local_rank = _number(environment, "SLURM_LOCALID", 0, 0)
    beside = _tasks_on_node(environment, size)
    environment.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(local_rank), LOCAL_WORLD_SIZE=str(beside))
    environment.setdefault("MASTER_ADDR", _first_node(environment))
    environment.setdefault("MASTER_PORT", str(_port(environment)))


def _tasks_on_node(environment: Mapping[str, str], size: int) -> int:
    """How many of the tasks run on this machine: of `4(x2),3` the third machine has 3."""
    text = environment.get("SLURM_STEP_TASKS_PER_NODE", environment.get("SLURM_TASKS_PER_NODE", str(size)))
    counts: list[int] = []
    for part in text.split(","):
        if not (match := re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)):
            raise ConfigError(f"SLURM_STEP_TASKS_PER_NODE = {text} is not a list of numbers such as 4(x2),3")
        counts += [int(match[1])] * int(match[2] or 1)
    node = _number(environment, "SLURM_NODEID", 0, 0)
    return counts[node] if node < len(counts) else max(counts)


def _first_node(environment: Mapping[str, str]) -> str:
    """The machine of the first task, where ranks meet: of `gpu[07-09,12],cpu1` it is gpu07."""
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST", "")
    match = re.match(r"([^,\[]+)(?:\[([^\],-]+)[^\]]*\]([^,]*))?", nodes)
    if not match:
        raise ConfigError(
            "SLURM_STEP_NODELIST names no machine where ranks could meet: set MASTER_ADDR to that of the first task"
        )
    return f"{match[1]}{match[2] or ''}{match[3] or ''}"


def _port(environment: Mapping[str, str]) -> int:
    """A port that is the same on all ranks of a step, and another one for other steps and jobs, as far as there are ports."""
    job, step = (_number(environment, name, 0, 0) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    return PORTS[(7 * job + step) % len(PORTS)]


def _check_rank(rank_name: str, rank: int, size_name: str, size: int) -> None:
    if rank >= size:
        raise ConfigError(f"{rank_name} = {rank} is not below {size_name} = {size}: ranks count from 0")


def _number(environment: Mapping[str, str], name: str, least: int, default: int | None = None) -> int:
    """A whole number of the environment."""
    text = environment.get(name, "" if default is None else str(default))
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ConfigError(f"{name} = {text!r} in the environment is not a whole number from {least} on")
    return int(text)
