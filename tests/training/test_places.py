"""Which of a run's processes this one is, from what torchrun and Slurm say."""

from __future__ import annotations

import pytest

from zoo.errors import ConfigError
from zoo.training import ranks
from zoo.training.places import Place, adopt_slurm, place

STEP = {
    "SLURM_JOB_ID": "41",
    "SLURM_STEP_ID": "2",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "7",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_STEP_TASKS_PER_NODE": "4,3",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
}


def adopted(**changes: str | None) -> dict[str, str]:
    environment = {name: value for name, value in {**STEP, **changes}.items() if value is not None}
    adopt_slurm(environment)
    return environment


def test_srun_is_understood() -> None:
    environment = adopted()
    assert place(environment) == Place(rank=5, size=7, local_rank=1, local_size=3)
    assert (environment["MASTER_ADDR"], environment["MASTER_PORT"]) == ("gpu07", str(20_000 + 7 * 41 + 2))
    once_more = dict(environment)
    adopt_slurm(once_more)  # as after a restart of the process
    assert once_more == environment


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("localhost", "localhost"),
        ("n1,n2", "n1"),
        ("gpu[3,7-9]", "gpu3"),
        ("gpu[07-09,12],cpu1", "gpu07"),
        ("rack[1-2]-node", "rack1-node"),
        ("a-b.example.org", "a-b.example.org"),
    ],
)
def test_ranks_meet_at_the_first_node(nodes: str, first: str) -> None:
    assert adopted(SLURM_STEP_NODELIST=nodes)["MASTER_ADDR"] == first


def test_what_a_user_says_of_the_meeting_place_is_left() -> None:
    environment = adopted(MASTER_ADDR="here", MASTER_PORT="1234")
    assert (environment["MASTER_ADDR"], environment["MASTER_PORT"]) == ("here", "1234")


@pytest.mark.parametrize(("tasks", "node", "count"), [("2(x3)", "2", 2), ("4(x2),3", "2", 3), ("7", "0", 7)])
def test_tasks_of_a_node_are_counted(tasks: str, node: str, count: int) -> None:
    assert adopted(SLURM_STEP_TASKS_PER_NODE=tasks, SLURM_NODEID=node)["LOCAL_WORLD_SIZE"] == str(count)


@pytest.mark.parametrize(
    "changes",
    [
        {"SLURM_STEP_ID": None},  # a batch script, which runs once
        {"SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
        {"TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"},
    ],
)
def test_who_is_alone_or_torchruns_stays_so(changes: dict[str, str | None]) -> None:
    environment = adopted(**changes)
    expected = Place(3, 8, 3, 4) if "RANK" in changes else Place()
    assert place(environment) == expected and "MASTER_ADDR" not in environment


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE = 2 and SLURM_STEP_NUM_TASKS = 7 contradict each other"),
        ({"RANK": "0", "WORLD_SIZE": "7"}, "RANK = 0 and SLURM_PROCID = 5 contradict each other"),
        ({"SLURM_PROCID": "7"}, "SLURM_PROCID = 7 is not below SLURM_STEP_NUM_TASKS = 7"),
        ({"SLURM_PROCID": "first"}, "SLURM_PROCID = 'first' in the environment is not a whole number from 0 on"),
        ({"SLURM_STEP_NODELIST": None}, "names no machine where ranks could meet: set MASTER_ADDR"),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x2"}, r"SLURM_STEP_TASKS_PER_NODE = 4\(x2 is not a list of numbers"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, str | None], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        adopted(**changes)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"RANK": "1"}, "RANK is set in the environment and WORLD_SIZE is not"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set in the environment and RANK is not"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK = 2 is not below WORLD_SIZE = 2: ranks count from 0"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "WORLD_SIZE = '0' in the environment is not a whole number from 1 on"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "RANK = '-1' in the environment is not a whole number from 0 on"),
    ],
)
def test_half_a_place_is_refused(environment: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        place(environment)


def test_without_a_word_a_process_is_alone() -> None:
    assert place({}) == Place(0, 1, 0, 1)


def test_every_process_of_a_machine_has_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_STEP_ID", raising=False)
    assert [ranks._own_cuda(local, 4) for local in range(4)] == [0, 1, 2, 3]
    with pytest.raises(ConfigError, match="this is process 2 on this machine, and torch finds 1 CUDA devices here"):
        ranks._own_cuda(1, 1)
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    assert ranks._own_cuda(1, 1) == 0  # Slurm shows each task its own alone
