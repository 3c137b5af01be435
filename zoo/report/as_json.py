"""A report as plain data, for programs."""

from __future__ import annotations

import math
from typing import Any

from zoo.report.findings import Findings
from zoo.report.verdicts import Comparison
from zoo.statistics.difference import Difference


def as_dict(report: Findings) -> dict[str, Any]:
    """Verdicts, arms and downstream figures of a report; what is not known is null."""
    return {
        "comparisons": [_comparison(c) for c in report.comparisons],
        "arms": [
            {
                "arm": arm.id,
                "name": arm.first.name,
                "match": arm.first.match,
                "host": arm.first.host,
                "seeds": [run.seed for run in arm.runs],
                "losses": {str(seed): loss for seed, loss in arm.losses(arm.split).items()},
                "split": arm.split,
                "parameters": arm.first.parameters,
                "flops": arm.first.flops,
                "diverged": arm.diverged,
            }
            for arm in report.arms
        ],
        "downstream": [
            {
                **_who(each.comparison),
                "task": each.task,
                "items": each.items,
                "figure": each.measure,
                "better": each.better,
                "method_mean": _number(each.means[0]),
                "baseline_mean": _number(each.means[1]),
                **_difference(each.difference),
                "outcome": each.verdict,
            }
            for each in report.downstream
        ],
    }


def _comparison(c: Comparison) -> dict[str, Any]:
    ours, theirs = c.means()
    return {
        **_who(c),
        "split": c.split,
        "method_loss": _number(ours),
        "baseline_loss": _number(theirs),
        **_difference(c.difference),
        "p_dunnett": _number(c.p_adjusted),
        "detectable": _number(c.detectable),
        "margin": _number(c.margin),
        "verdict": c.verdict,
    }


def _who(c: Comparison) -> dict[str, str]:
    return {"method": c.name, "match": c.match, "suite": c.suite, "host": c.method.first.host, "arm": c.method.id}


def _difference(d: Difference) -> dict[str, Any]:
    figures = {"difference": d.mean, "low": d.low, "high": d.high, "p": d.p}
    return {"seeds": d.n, "baseline_seeds": d.n_other, **{name: _number(value) for name, value in figures.items()}}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
