"""Numbers and names of a report as its cells and titles show them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zoo.report.arm_results import ArmResults
from zoo.report.verdicts import Comparison

MATCHES = {
    "none": "the plain block",
    "parameters": "a plain block with as many parameters",
    "flops": "a plain block with as many FLOPs per token",
    "tokens": "a plain block with as many FLOPs in all",
    "time": "a plain block trained for as long",
}


def number_text(value: float, form: str) -> str:
    """A number in this format; a dash for NaN."""
    return "–" if math.isnan(value) else format(value, form)


def interval_text(low: float, high: float) -> str:
    """An interval of a difference of losses."""
    return f"{number_text(low, '+.4f')} … {number_text(high, '+.4f')}"


def p_value_text(p: float) -> str:
    """A p-value."""
    return "< 0.001" if p < 0.001 else number_text(p, ".3f")


def against(comparison: Comparison) -> str:
    """The baseline of a comparison, for a title."""
    return f"against {MATCHES[comparison.match]}, {where(comparison)}"


def where(comparison: Comparison) -> str:
    """Suite, host, and how large the plain model is and how long it trains."""
    suite = f"suite {comparison.suite}, " if comparison.suite else ""
    return f"{suite}{comparison.method.first.host} host{size(comparison.plain)}"


def size(plain: ArmResults | None) -> str:
    """Parameters and tokens of the plain model, as the end of a title."""
    return f", {plain.spent.parameters:,} parameters, {plain.spent.trained:,} tokens" if plain else ""


def short_name(c: Comparison) -> str:
    """Suite, host and plain arm, as part of a figure's name."""
    return "_".join(part for part in (c.suite, c.method.first.host, c.method.plain_arm[:6]) if part)


def caveats(c: Comparison) -> str:
    """What to know of the seeds besides their number."""
    arms = (("method", c.method), ("baseline", c.baseline))
    diverged = [f"{name} diverged on {arm.diverged}" for name, arm in arms if arm.diverged]
    notes = [*(["validation"] if c.provisional else []), *diverged]
    return f" ({', '.join(notes)})" if notes else ""


def comparison_text(of_method: Sequence[Comparison], match: str) -> str:
    """What came of comparing a method with its baseline of this match."""
    for c in of_method:
        if c.match == match:
            reach = number_text((c.difference.high - c.difference.low) / 2, ".3f")
            mean = number_text(c.difference.mean, "+.3f")
            seeds = f"n {c.difference.n}{caveats(c)}, detectable {number_text(c.detectable, '.3f')}"
            return f"**{c.verdict}**: {mean} ± {reach} ({seeds})"
    method, plain = of_method[0].method, of_method[0].plain
    if plain is None or method.baselines.get(match) != plain.id:
        return "–"
    off = abs(plain.spent.off_by(method.spent, match))
    return f"the same, off by {off:.3%}" if off >= 5e-6 else "the same"
