"""How often the runs of a ladder read their corpus: text that is read again and again teaches less than new text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from zoo.bench.arms import Arm
from zoo.bench.ladder_plan import LadderPlan
from zoo.data.training_size import TrainingSize, training_sizes
from zoo.errors import ConfigError


class CorpusReads(NamedTuple):
    """The corpus that is read most often, and how often that is."""

    size: TrainingSize
    by_rung: tuple[float, ...]  # in a run of the rung's own tokens
    longest: float  # in the longest run of the ladder

    @property
    def text(self) -> str:
        """How many tokens there are, and how often each rung reads them, as a sentence without its end."""
        counted, tokens = self.size.counted, self.size.tokens
        words = f"{tokens:,} training tokens" if counted else f"about {_rounded(tokens)} training tokens, by its bytes"
        repeating = [f"{_times(each)} at rung {i}" for i, each in enumerate(self.by_rung, start=1) if each > 1]
        longest = f"{_times(self.longest)} by the longest run (of ladder.budgets)" if self.longest > 1 else ""
        reads = ", ".join([*repeating, longest] if longest else [])
        return f"{self.size.corpus} has {words}: {f'read {reads}' if reads else 'no run reads any twice'}"

    def check(self, most: float) -> None:
        """Refuse a corpus that a run would read more often than that."""
        if self.longest > most:
            enough = _rounded(self.size.tokens * self.longest / most)
            raise ConfigError(
                f"{self.text}. What is read more than {most:g} times counts for clearly less than new text, and the larger rungs"
                f" would have less of it than the smaller ones. Name a corpus of {enough}"
                " tokens or more, --set 'data.corpus = \"…\"', or say how often this one may be read:"
                f" --set 'ladder.most_epochs = {math.ceil(self.longest)}'"
            )


def corpus_reads(plan: LadderPlan) -> CorpusReads:
    """How often each rung of a ladder reads its corpus; of a mixture, the part that is read most often."""
    rungs = plan.hosts[0]
    plain = rungs[0].plain.arm
    size = max(training_sizes({**plain.defaults, **plain.values}), key=lambda each: each.share / max(1, each.tokens))
    longest = [member.arm for rung in rungs for member in rung.members]
    return CorpusReads(size, tuple(_reads([rung.plain.arm], size) for rung in rungs), _reads(longest, size))


def _reads(arms: Sequence[Arm], size: TrainingSize) -> float:
    """How often the longest of the runs reads the corpus."""
    return max(arm.steps * arm.tokens_per_step for arm in arms) * size.share / max(1, size.tokens)


def _times(reads: float) -> str:
    return f"{reads:.1f} times" if reads < 10 else f"{reads:,.0f} times"


def _rounded(tokens: float) -> str:
    """Two digits are as much as an estimate is worth."""
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if tokens >= 10**power:
            return f"{float(f'{tokens / 10**power:.2g}'):g} {letter}"
    return f"{tokens:.0f}"
