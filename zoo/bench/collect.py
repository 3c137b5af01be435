"""From the folder of a run to one line of the store."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.bench.arms import Job
from zoo.bench.store import Result
from zoo.errors import ZooError
from zoo.runs.metrics import read_rows
from zoo.runs.run_folder import read_provenance
from zoo.runs.summary import read_summary
from zoo.system.json_rows import Point


def collect(job: Job, folder: Path) -> Result:
    """Make one line of the store from what a run left in its folder."""
    summary = read_summary(folder)
    if summary is None or not summary.over:
        raise ZooError(f"the run of {job.title} did not end: see {folder}")
    arm = job.arm
    training, speed = training_curve(read_rows(folder, "train"))
    validated = [row for row in read_rows(folder, "valid") if row["loss"] is not None]
    return Result(
        key=job.key,
        arm=arm.id,
        name=arm.name,
        match=arm.match,
        host=arm.host,
        seed=job.seed,
        lr=arm.values["train.lr"] * job.lr_factor,
        lr_factor=job.lr_factor,
        status=summary.status if math.isfinite(summary.valid_loss) else "diverged",
        causal=arm.causal,
        parameters=arm.parameters,
        flops=arm.flops,
        steps=summary.steps,
        tokens=summary.tokens,
        valid_loss=_number(summary.valid_loss),
        test_loss=None,
        tested=False,
        bits_per_byte=_number(summary.bits_per_byte),
        accuracy=_number(summary.accuracy),
        tokens_per_second=speed or summary.tokens_per_second,
        peak_memory=summary.peak_memory,
        seconds=summary.seconds,
        blew_up=summary.blew_up,
        alarm=summary.alarm,
        curve=[(*interpolate(row["step"], training), row["loss"]) for row in validated],
        training=training,
        probes=summary.probes,
        baselines=dict(arm.baselines),
        unigram_entropy=summary.unigram_entropy,
        corpus=summary.corpus,
        config=job.text,
        settings=job.settings,
        versions=read_provenance(folder),
        stamps=summary.stamps,
        budgets=summary.budgets,
    )


def training_curve(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Point], float]:
    """The logged training losses with the time they took, and the median of the tokens per second."""
    points: list[Point] = []
    tokens, seconds = 0, 0.0
    for row in rows:
        seconds += (row["tokens"] - tokens) / row["tokens_per_second"]
        tokens = row["tokens"]
        if row["loss"] is not None:  # finite
            points.append((row["step"], tokens, round(seconds, 3), row["loss"]))
    return points, statistics.median(row["tokens_per_second"] for row in rows) if rows else 0.0


def interpolate(step: int, training: Sequence[Point]) -> tuple[int, int, float]:
    """Step, tokens and seconds of a validation, between those of the logged points around its step."""
    known = [(0, 0, 0.0), *(point[:3] for point in training)]
    after = next((point for point in known if point[0] >= step), known[-1])
    before = next(point for point in reversed(known) if point[0] <= step)
    part = (step - before[0]) / (after[0] - before[0]) if after[0] > before[0] else 0.0
    return step, round(before[1] + part * (after[1] - before[1])), before[2] + part * (after[2] - before[2])


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
