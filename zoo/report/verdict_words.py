"""The words of a verdict and what each means: one list for tables, figures, pages and the terminal."""

from __future__ import annotations

from collections.abc import Iterable

BETTER, WORSE, SAME, OPEN = "better", "worse", "the same", "open"
NOT_TRAINED, DIVERGED, LEAKS = "did not train", "diverged", "leaks"

WORDS = {
    BETTER: "its loss is lower, beyond chance (p (Dunnett) below the level), and not within ± the margin",
    WORSE: "its loss is higher, beyond chance, and not within ± the margin",
    SAME: "the whole 90 % interval of the difference lies within ± the margin",
    OPEN: "none of these was shown; “detectable” is the smallest difference that could have been",
    NOT_TRAINED: "its loss is not clearly below the unigram entropy, or above the plain block's at a tenth of its tokens;"
    " no claim is checked against it",
    DIVERGED: "on some seed its loss was not finite in the end",
    LEAKS: "it saw later tokens, so its losses mean nothing",
}
COLOURS = {
    BETTER: "#2a7f3f",
    WORSE: "#b3341f",
    SAME: "#1f6fb3",
    NOT_TRAINED: "#c07a10",
    DIVERGED: "#7a3fa0",
    LEAKS: "#7a3fa0",
}
VOID = (LEAKS, DIVERGED, NOT_TRAINED)  # what the losses do not decide
DECIDED_BY_LOSS = (BETTER, SAME, OPEN, WORSE)  # in the order of columns


def explanations(words: Iterable[str] = WORDS) -> str:
    """What these words mean, in one sentence each."""
    used = set(words)
    return "; ".join(f"*{word}*: {meaning}" for word, meaning in WORDS.items() if word in used)
