"""Measuring the step costs of the arms of a bench, each in turns with its plain block."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from zoo.bench.arms import Arm, Job
from zoo.bench.step_costs import FILE, StepCost, read_costs
from zoo.config.values import changed
from zoo.errors import ZooError
from zoo.system.files import append_line

ROUNDS = 60
PATIENCE = 8.0  # seconds for evaluating, and for decoding


def missing_costs(arms: Sequence[Arm], costs: Mapping[str, StepCost], again: bool = False) -> dict[str, list[Arm]]:
    """The arms to measure, by the plain arm to measure them against; `again`: also those with other code since."""
    by_id = {arm.id: arm for arm in arms}
    todo: dict[str, list[Arm]] = {}
    for method in arms:
        plain = method.baselines.get("none", "")
        if plain not in by_id:
            continue
        others = dict.fromkeys([*method.baselines.values(), method.id])
        for arm in (by_id[id] for id in others if id != plain and id in by_id):
            if not _is_current(costs.get(arm.id), arm, plain, again) and arm not in todo.setdefault(plain, []):
                todo[plain].append(arm)
    return {plain: missing for plain, missing in todo.items() if missing}


def _is_current(cost: StepCost | None, arm: Arm, plain: str, again: bool) -> bool:
    """Whether a measurement is what would be measured now."""
    if cost is None or cost.plain != plain or not cost.evaluation or (again and not _has_same_code(cost, arm)):
        return False
    return not changed(cost.settings, first_run(arm).settings)


def _has_same_code(cost: StepCost, arm: Arm) -> bool:
    return all(cost.code.get(name, "") in ("", *hashes) for name, hashes in arm.code.items())


def first_run(arm: Arm) -> Job:
    """The run whose step is measured for the whole arm."""
    return Job(arm, 1, 1.0)


def measure_costs(
    arms: Sequence[Arm],
    folder: Path,
    threads: int,
    say: Callable[[str], None],
    again: bool = False,
    left: Callable[[], str] = str,
) -> list[str]:
    """Measure what the store does not have. A failure ends its arm alone; the failures are returned.

    `left` gives the words for what is left after each arm.
    """
    todo = missing_costs(arms, read_costs(folder), again)
    if not todo:
        return []
    count = sum(map(len, todo.values()))
    say(f"time and memory of a step, evaluation and decoding, compared with the plain block's: {count} to measure")
    by_id, failures = {arm.id: arm for arm in arms}, []
    for id, others in todo.items():
        try:
            failures += _measure_against(by_id[id], others, folder, threads, lambda text: say(text + left()))
        except ZooError as error:
            failures.append(str(error))
    for failure in failures:
        say(failure.splitlines()[0])
    return failures


def _measure_against(
    plain: Arm, others: Sequence[Arm], folder: Path, threads: int, say: Callable[[str], None]
) -> list[str]:
    """Measure arms in turns with the plain one; the failures."""
    from zoo.bench.synthetic_step import evaluation, training
    from zoo.bench.timing import Worker, in_turns, measure_memory
    from zoo.runs.provenance import provenance
    from zoo.system.clock import now

    failures = []
    text = first_run(plain).text
    build = functools.partial(training, text)
    plain_memory = measure_memory(plain.name, build, threads)
    with contextlib.ExitStack() as references:
        step = references.enter_context(Worker(plain.name, build, threads=threads))
        pass_ = references.enter_context(Worker(plain.name, functools.partial(evaluation, text), threads=threads))
        decoded = Decoding(plain.name, text, threads, references)
        for arm in others:
            job = first_run(arm)
            build = functools.partial(training, job.text)
            try:
                memory = measure_memory(arm.name, build, threads)
                with Worker(arm.name, build, threads=threads) as worker:
                    rounds = _rounded(in_turns(worker, step, ROUNDS))
                with Worker(arm.name, functools.partial(evaluation, job.text), threads=threads) as worker:
                    evaluated = _rounded(in_turns(worker, pass_, ROUNDS, PATIENCE))
            except ZooError as error:
                failures.append(str(error))
                continue
            seconds, state = decoded.compare(arm.name, job)
            unknown = math.isnan(memory) or math.isnan(plain_memory)
            cost = StepCost(
                arm=arm.id,
                plain=plain.id,
                name=arm.name,
                match=arm.match,
                host=arm.host,
                rounds=rounds,
                memory=None if unknown else (memory, plain_memory),
                threads=threads,
                code={name: hashes[0] for name, hashes in arm.code.items() if hashes},
                settings=job.settings,
                versions=provenance(),
                measured=now(),
                evaluation=evaluated,
                decoding=seconds,
                state=state,
            )
            append_line(folder / FILE, asdict(cost))
            say(str(cost))
    return failures


class Decoding:
    """Decoding in turns with the plain block's; nothing is known of a method that cannot be decoded with a state."""

    def __init__(self, name: str, text: str, threads: int, stack: contextlib.ExitStack) -> None:
        from zoo.bench.synthetic_step import decoding, state_size
        from zoo.bench.timing import Worker, measure_once

        self._threads = threads
        self._plain = stack.enter_context(Worker(name, functools.partial(decoding, text), threads=threads, warm_up=1))
        self._state = measure_once(name, functools.partial(state_size, text), threads)

    def compare(self, name: str, job: Job) -> tuple[list[tuple[float, float]], tuple[float, float] | None]:
        """Seconds per token of both, round by round, and the bytes of state per token of both."""
        from zoo.bench.synthetic_step import decoding, state_size
        from zoo.bench.timing import Worker, in_turns, measure_once

        try:
            with Worker(name, functools.partial(decoding, job.text), threads=self._threads, warm_up=1) as worker:
                rounds = in_turns(worker, self._plain, ROUNDS, PATIENCE)
            state = measure_once(name, functools.partial(state_size, job.text), self._threads)
        except ZooError:
            return [], None
        length = int(job.settings["data.length"])
        return [(own / length, its / length) for own, its in rounds], (state, self._state)


def _rounded(rounds: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(round(own, 6), round(its, 6)) for own, its in rounds]
