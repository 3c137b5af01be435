"""What the columns and verdicts of a report mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoo.report.findings import Findings
from zoo.report.ladder_tables import ladder_legend
from zoo.system import foreign_text

BASIS = (
    "Losses are nats per token on the test split (validation, where there is none). Differences are method − baseline over"
    " paired seeds: negative is better."
)
COLUMNS = {
    "n": "seeds that both arms finished.",
    "95 % (t), 95 % (bootstrap)": "intervals of the difference. With few seeds the bootstrap interval is too narrow; with"
    " three it spans the smallest to the largest difference.",
    "p (Holm)": "p after Holm's correction over the methods of a suite that were asked the same.",
    "detectable": "the smallest true difference these seeds would reveal with 80 % power, given their observed spread; a"
    " smaller difference that was shown is likely to be overrated.",
    "learning rate": "the best of those that both arms tried; two values are the method's and the baseline's.",
    "match is off by": "what the baseline has more or less than the method.",
    "rates tried": "learning rates of the arm's first seed, as multiples of its own.",
    "training FLOPs ×": "FLOPs per token of a training step, forward and backward, as a ratio to the plain block's.",
    "time ×, memory ×": "of a training step, as ratios to the plain block's, measured in turns with it, each in a process of"
    " its own with as many threads as a run; memory is what is used beyond the weights: activations, gradients, the"
    " optimiser's state. “≈” marks a hint from the runs themselves, where that was not measured: the 90th percentile of each"
    " arm's speed, and the memory of whole processes.",
}

VERDICT = (
    "*better* or *worse* where p (Holm) < 0.05 and the difference is at least the margin; *no difference that matters* where"
    " the whole 95 % interval (t) lies within ± the margin, or a significant difference is smaller than it; *no difference"
    " shown* otherwise. *Leaks*: it saw later tokens; *diverged*: on some seed."
)


def legend(report: Findings) -> list[tuple[str, str]]:
    """What each column means, with its name."""
    return [*COLUMNS.items(), ("margin", margins(report)), ("verdict", VERDICT), *ladder_legend(report.ladders)]


def margins(report: Findings) -> str:
    """The smallest difference that matters, in figures."""
    suites: dict[str, list[str]] = {}  # margin → the suites that it holds in
    for suite, of_plain_arms in report.margins.items():
        for margin in of_plain_arms.values():
            suites.setdefault(f"{margin:.4f}", []).append(suite)
    values = "".join(suites) if len(suites) < 2 else _by_suite(suites)
    return (
        f"the smallest difference that matters{f': {values} nats per token' if values else ''}. Where `suite.margin` sets none"
        " it is the larger of 0.005 and what 1 % more tokens is worth to the plain block: 0.01 × −d loss / d ln tokens, the"
        " slope of its training loss over the second half of the tokens, mean over the seeds."
    )


def _by_suite(suites: Mapping[str, Sequence[str]]) -> str:
    """Several margins, each with the suites that it holds in; of very many, from the least to the largest."""
    if len(suites) > 12:
        return f"{min(suites, key=float)} to {max(suites, key=float)}"
    margins = []
    for margin in sorted(suites, key=float):
        names = sorted({foreign_text.file_name(suite) for suite in suites[margin] if suite})
        margins.append(f"{margin} ({', '.join(names)})" if names else margin)
    return ", ".join(margins)


def introduction(report: Findings) -> str:
    """The legend as Markdown: what losses and differences are, then a column per line."""
    return "\n".join([BASIS, "", *(f"- **{name}**: {text}" for name, text in legend(report))])
