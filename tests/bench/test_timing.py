"""Time and memory in turns: of sleeping and holding memory, where the answer is known."""

from __future__ import annotations

import functools
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoo.bench.arms import Job, arms_of
from zoo.bench.suite import Suite
from zoo.bench.synthetic_step import training
from zoo.bench.timing import Worker, compare, in_turns, measure_memory
from zoo.errors import ZooError


def sleeping(seconds: float) -> functools.partial[object]:
    """A build whose step sleeps."""
    return functools.partial(functools.partial, time.sleep, seconds)


def holding(megabytes: int) -> functools.partial[object]:
    """A build whose step holds memory that it has written to."""
    return functools.partial(functools.partial, bytes.join, b"", [b"x" * (megabytes << 20), b"y"])


def test_ratios_of_time_and_memory() -> None:
    found = compare({"short": sleeping(0.02), "long": sleeping(0.1)}, rounds=5, threads=1)
    assert 2 < found["long"].ratio(found["short"]) <= 5.5  # other work makes both longer
    assert len(found["long"].seconds) == 5
    assert measure_memory("some", holding(64), 1) == pytest.approx(64, abs=16)


def test_cpu_time_does_not_count_waiting() -> None:
    with Worker("asleep", sleeping(0.1), threads=1, cpu=True) as asleep:
        assert asleep.time(2) < 0.05


def test_turns_are_fewer_where_steps_are_slow() -> None:
    with Worker("a", sleeping(0.02), threads=1) as a, Worker("b", sleeping(0.1), threads=1) as b:
        assert len(in_turns(a, b, rounds=7, patience=0.1)) == 5
        rounds = in_turns(a, b, rounds=7)
    assert len(rounds) == 7 and statistics.median(one / other for one, other in rounds) < 0.5


def test_what_fails_in_a_process_is_reported() -> None:
    with pytest.raises(ZooError, match="the first cannot be measured: ValueError: sleep length must be non-negative"):
        Worker("the first", sleeping(-1.0), threads=1)
    with pytest.raises(ZooError, match="the second cannot be measured: its process died"):
        measure_memory("the second", functools.partial(functools.partial, os._exit, 3), 1)


def test_ctrl_c_is_not_the_processes_but_ours_and_none_is_left(tmp_path: Path) -> None:
    script = tmp_path / "turns.py"
    script.write_text(
        "import functools, time\n"
        "from zoo.bench.timing import Worker\n"
        "if __name__ == '__main__':\n"
        "    with Worker('a', functools.partial(functools.partial, time.sleep, 60), threads=1, warm_up=0) as worker:\n"
        "        print(worker._process.pid, flush=True)\n"
        "        worker.time(1)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    masks = dict(line.split(":\t") for line in Path(f"/proc/{child}/status").read_text().splitlines())
    assert int(masks["SigBlk"], 16) & 1 << (signal.SIGINT - 1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, out = process.communicate(timeout=300)
    assert out.count("Traceback") == 1 and "KeyboardInterrupt" in out  # ours alone
    assert not Path(f"/proc/{child}").exists()


def test_a_rehearsed_step_costs_what_a_real_one_does_and_teaches_nothing() -> None:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    shape = ["data.vocab_size = 300", "data.length = 16", "data.batch_size = 4", "model.depth = 2", "model.aspect = 8"]
    for arm in arms_of(["wr_8_2"], [*shape, "train.accumulate = 2"], Suite(), None):
        step = training(Job(arm, 1, 1.0).text)
        session = step.args[0]  # type: ignore[attr-defined]
        before = {name: value.clone() for name, value in session.model.named_parameters()}
        with FlopCounterMode(display=False) as counter:
            step()
        with FlopCounterMode(display=False) as of_one:
            session.model.loss(*torch.randint(300, (2, 4, 16))).backward()
        assert counter.get_total_flops() == 2 * of_one.get_total_flops() > 0.5 * arm.flops * 4 * 16 * 2
        assert all((value == before[name]).all() for name, value in session.model.named_parameters())
        assert session.state.step == 1 and session.state.skipped == 0
