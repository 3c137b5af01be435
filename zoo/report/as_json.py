"""A report as plain data, for programs."""

from __future__ import annotations

import math
from typing import Any

from zoo.report.findings import Findings
from zoo.report.ladder_results import LadderFindings
from zoo.report.verdicts import Comparison
from zoo.scaling.multiplier import Multiplier, Overall
from zoo.statistics.difference import Difference


def as_dict(report: Findings) -> dict[str, Any]:
    """Verdicts, arms, ladders and downstream figures of a report; what is not known is null."""
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
        "ladders": [_ladder(each) for each in report.ladders],
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


def _ladder(ladder: LadderFindings) -> dict[str, Any]:
    return {
        "ladder": ladder.name,
        "host": ladder.host,
        "rungs": [
            {
                "depth": r.depth,
                "parameters": r.parameters,
                "tokens": r.tokens,
                "plain_loss": r.plain_loss,
                "split": r.split,
            }
            for r in ladder.rungs
        ],
        "rows": [
            {
                "arm": row.label,
                "role": row.role,
                "verdict": row.verdict,
                **{name: _kappa(of) for name, of in (("kappa", row.compute), ("time", row.time), ("data", row.data))},
                "by_rung": [
                    {"rung": at.rung, "seeds": at.n, "loss": at.loss, "kappa": _kappa(at.compute)} for at in row.rungs
                ],
            }
            for row in ladder.rows
        ],
        "predictions": [
            {
                "arm": each.prediction.label,
                "depth": each.prediction.depth,
                **{name: _number(getattr(each.prediction, name)) for name in ("loss", "low", "high")},
                "measured": _number(each.loss),
                "registered": each.prediction.registered,
            }
            for each in ladder.outcomes
        ],
    }


def _kappa(of: Multiplier | Overall | None) -> dict[str, float | None] | None:
    """A multiplier with its 95 % interval."""
    if of is None:
        return None
    low, high = of.log.interval()
    return {"value": _exp(of.log.value), "low": _exp(low), "high": _exp(high)}


def _exp(value: float) -> float | None:
    return _number(math.exp(value)) if value < 700 else None  # beyond what a float holds


def _who(c: Comparison) -> dict[str, str]:
    return {"method": c.name, "match": c.match, "suite": c.suite, "host": c.method.first.host, "arm": c.method.id}


def _difference(d: Difference) -> dict[str, Any]:
    figures = {"difference": d.mean, "low": d.low, "high": d.high, "p": d.p}
    return {"seeds": d.n, "baseline_seeds": d.n_other, **{name: _number(value) for name, value in figures.items()}}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
