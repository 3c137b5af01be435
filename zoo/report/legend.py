"""What the columns and verdicts of a report mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoo.report.findings import Findings
from zoo.report.ladder_tables import ladder_legend
from zoo.report.overview import MARKS
from zoo.report.verdict_words import explanations
from zoo.system import foreign_text

BASIS = (
    "Losses are nats per token on the test split (validation, where there is none). Differences are method − baseline"
    " over the same seeds: negative is better."
)
LEVELS = (
    "The level is 5 %; of a suite run with `--until-decided`, and of the methods of a ladder with looks, that of the look: 0.14 %"
    " at 3 seeds, 1.3 % at 5, 4.5 % at 8."
)
COLUMNS = {
    "n": "seeds that the arms finished; two numbers are the method's and the baseline's.",
    "95 %": "the interval of the difference, of this question alone: loss = arm + seed + ε over all arms of a suite, host and"
    " size, each arm with its own variance, moderated by the family's (Smyth 2004), t on d₀ + d degrees of freedom"
    " (docs/statistics.md).",
    "p (Dunnett)": "p for having asked the same of all methods of a suite, whose differences share a baseline.",
    "detectable": "the smallest true difference these seeds would reveal with 80 % power, among so many questions; a"
    " smaller difference that was shown is likely to be overrated.",
    "accuracy (%), bits per byte": "differences on the validation split, with half of the 95 % interval, by the same model."
    " Accuracy is better where it is positive.",
    "s₀, d₀, seeds' deviation": "how far the runs of an arm typically lie apart; as how many degrees of freedom that counts"
    " for each arm (∞: one variance serves all); how far seeds move all arms together.",
    "learning rate": "the best of those that both arms tried; two values are the method's and the baseline's.",
    "match is off by": "what the baseline has more or less than the method.",
    "rates tried": "learning rates that the arm was given the choice of, as multiples of its own; the choice is made on a"
    " seed that is not judged (“rate chosen on a test seed”: in older runs it was).",
    "training FLOPs ×": "FLOPs per token of a training step, forward and backward, as a ratio to the plain block's.",
    "time ×, memory ×": "of a training step, as ratios to the plain block's, measured in turns with it, each in a process of"
    " its own with as many threads as a run; memory is what is used beyond the weights: activations, gradients, the"
    " optimiser's state. “≈” marks a hint from the runs themselves, where that was not measured: the 90th percentile of each"
    " arm's speed, and the memory of whole processes.",
    "steps/s, samples/s, decoded tokens/s": "of training and of decoding one row, medians with 95 % intervals, as this machine"
    " was then; a sample is a row of a batch.",
    "evaluation time ×, decoding time ×": "of evaluating a batch and of decoding a token, as ratios to the plain block's,"
    " measured in turns with it. “–”: not measured, or the method cannot be decoded with a state.",
    "state bytes per token": "what decoding keeps of each token, the method's and the plain block's.",
}


def legend(report: Findings) -> list[tuple[str, str]]:
    """What each column means, with its name."""
    verdict = ("verdict", f"{explanations()}. {LEVELS}")
    return [*COLUMNS.items(), *MARKS.items(), ("margin", margins(report)), verdict, *ladder_legend(report.ladders)]


def margins(report: Findings) -> str:
    """The smallest difference that matters, in figures."""
    suites: dict[str, list[str]] = {}  # margin → the suites that it holds in
    for suite, of_plain_arms in report.margins.items():
        for margin in of_plain_arms.values():
            suites.setdefault(f"{margin:.4f}", []).append(suite)
    values = "".join(suites) if len(suites) < 2 else _by_suite(suites)
    return (
        f"the smallest difference that matters{f': {values} nats per token' if values else ''}. Where `suite.margin` sets none"
        " it is the larger of 0.005 and what 1 % more compute is worth to the plain block: 0.01 × −d loss / d ln tokens, the"
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
