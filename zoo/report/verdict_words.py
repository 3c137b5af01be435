"""The words of a verdict and what each means: one list for tables, figures, pages and the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zoo.scaling.ladder_verdicts import VERDICTS

BETTER, WORSE, SAME, OPEN = "better", "worse", "the same", "open"
NOT_TRAINED, DIVERGED, LEAKS = "did not train", "diverged", "leaks"
HELPS, NOT_IN_TIME, FADES, HURTS = "helps", "helps, not in time", "fades", "hurts"  # of a ladder

WORDS = {
    BETTER: "its loss is lower, beyond chance (p (Dunnett) below the level), and not within ± the margin",
    WORSE: "its loss is higher, beyond chance, and not within ± the margin",
    SAME: "the whole 90 % interval of the difference (under looks that of the look's level) lies within ± the margin",
    OPEN: "none of these was shown; “detectable” is the smallest difference that could have been",
    NOT_TRAINED: "its loss is not clearly below the unigram entropy, or above the plain block's at a tenth of its tokens;"
    " no claim is checked against it",
    DIVERGED: "on some seed its loss was not finite in the end",
    LEAKS: "it saw later tokens, so its losses mean nothing",
}
COLOURS = {
    BETTER: "#2a7f3f",
    HELPS: "#2a7f3f",
    NOT_IN_TIME: "#5f8f2a",
    FADES: "#8a7a10",
    WORSE: "#b3341f",
    HURTS: "#b3341f",
    SAME: "#1f6fb3",
    NOT_TRAINED: "#b06a08",
    DIVERGED: "#7a3fa0",
    LEAKS: "#7a3fa0",
}
UNDECIDED_COLOUR = "#666666"
VOID = (LEAKS, DIVERGED, NOT_TRAINED)  # what the losses do not decide
DECIDED_BY_LOSS = (BETTER, SAME, OPEN, WORSE)  # in the order of columns
# The words of suites and of ladders, from the best news to the worst.
ORDER = (HELPS, BETTER, NOT_IN_TIME, FADES, SAME, OPEN, HURTS, WORSE, *reversed(VOID))


def explanations(words: Iterable[str] = WORDS) -> str:
    """What these words mean, in one sentence each."""
    used = set(words)
    return "; ".join(f"*{word}*: {meaning}" for word, meaning in WORDS.items() if word in used)


def word_of(verdict: str) -> str:
    """The word of a verdict without its rung: *did not train* of "did not train at rung 2"."""
    return verdict if verdict in ORDER else next((word for word in VOID if verdict.startswith(word)), OPEN)


def colour(verdict: str) -> str:
    """The colour of a verdict."""
    return COLOURS.get(word_of(verdict), UNDECIDED_COLOUR)


def meanings(of_ladder: bool) -> Mapping[str, str]:
    """What the words mean: those of a ladder, or those of one size."""
    return VERDICTS if of_ladder else WORDS
