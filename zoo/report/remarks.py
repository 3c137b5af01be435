"""What a reader of the first screen must know beside the verdicts, in a few words and in full."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from zoo.bench.ladder_notes import PLAIN
from zoo.report.corrected import corrected_text
from zoo.report.findings import Findings
from zoo.report.overview import Remark, trust, trust_in_short
from zoo.report.rate_ties import rate_ties
from zoo.report.standings import optimizer_of, standings
from zoo.report.verdict_words import BETTER, HELPS, NOT_IN_TIME, word_of
from zoo.report.verdicts import Comparison

GOOD = (HELPS, BETTER, NOT_IN_TIME)  # the words that say that a method helps

Sizes = tuple[tuple[int, int], ...]  # parameters and tokens of the plain blocks, the smallest first


class Judged(NamedTuple):
    """A verdict on a method, and what it was said of."""

    name: str
    host: str
    sizes: Sizes
    optimizer: str
    verdict: str


def how_sure(report: Findings) -> list[Remark]:
    """What the verdicts rest on, then the remarks."""
    basis = Remark(trust_in_short(report.ladders), f"{trust(report.ladders)} {corrected_text(report)}".rstrip())
    return [basis, *remarks(report)]


def remarks(report: Findings) -> list[Remark]:
    """What this report needs said: where loss and accuracy disagree, and what a verdict depends on beside the method."""
    every = (growing(report), disagreements(report), one_optimizer_only(report), rate_ties(report))
    return [remark for remark in every if remark]


def growing(report: Findings) -> Remark | None:
    """The methods that do not help over all sizes of a ladder and whose κ grows with compute."""
    parts, names = [], []
    for ladder in report.ladders:
        for row in ladder.rows:
            if row.role != "method" or row.compute is None or word_of(row.verdict) in GOOD:
                continue
            trend = row.compute.trend
            if math.isfinite(trend.value) and trend.interval()[0] > 0:
                kappas = " → ".join(f"{math.exp(at.compute.log.value):.2f}" for at in row.rungs)
                parts.append(f"{row.label} ({kappas}, {ladder.host} host)")
                names.append(row.label)
    if not parts:
        return None
    return Remark(
        f"κ grows with compute: {', '.join(names)}",
        "κ grows with compute beyond its interval, so that the verdict over all sizes says little of larger ones; κ from the"
        f" smallest size to the largest: {', '.join(parts)}.",
    )


def disagreements(report: Findings) -> Remark | None:
    """The methods for which loss and accuracy point opposite ways."""
    disagreeing: list[Comparison] = [c for c in report.comparisons if c.match == "none" and c.disagrees()]
    if not disagreeing:
        return None
    parts = []
    for words, sign in (("a higher loss and a better accuracy", 1), ("a lower loss and a worse accuracy", -1)):
        names = dict.fromkeys(c.name for c in disagreeing if c.difference.mean * sign > 0)
        parts += [f"{words}: {', '.join(names)}"] if names else []
    return Remark(
        f"loss and accuracy disagree: {', '.join(dict.fromkeys(c.name for c in disagreeing))}",
        f"Loss and accuracy disagree, both beyond their 95 % intervals: {'; '.join(parts)}.",
    )


def one_optimizer_only(report: Findings) -> Remark | None:
    """The methods that help under one optimiser and not under another, in the same host at the same sizes."""
    verdicts: dict[tuple[str, str], dict[Sizes, dict[str, str]]] = {}  # method and host → sizes → optimiser → verdict
    for judged in _judged(report):
        at = verdicts.setdefault((judged.name, judged.host), {}).setdefault(judged.sizes, {})
        at.setdefault(judged.optimizer, judged.verdict)  # that of a ladder, which comes first
    parts, names = [], []
    for (name, host), of in verdicts.items():
        several = {sizes: at for sizes, at in of.items() if len(at) > 1}
        if not several:
            continue
        by_optimizer = several[max(several, key=lambda sizes: (len(sizes), sizes[-1]))]
        if 0 < sum(word_of(verdict) in GOOD for verdict in by_optimizer.values()) < len(by_optimizer):
            said = ", ".join(f"{verdict} under {optimizer}" for optimizer, verdict in sorted(by_optimizer.items()))
            parts.append(f"{name} ({host} host: {said})")
            names.append(name)
    if not parts:
        return None
    return Remark(
        f"a gain that depends on the optimiser: {', '.join(dict.fromkeys(names))}",
        f"A gain that depends on the optimiser, at the same sizes: {'; '.join(parts)}.",
    )


def _judged(report: Findings) -> Iterator[Judged]:
    """Every verdict against the plain block: first those of whole ladders, then those of single sizes."""
    arms = {arm.id: arm for arm in report.arms}
    for each in standings(report):
        if each.ladder and each.optimizer and each.role not in PLAIN:
            plain = [arms[at.plain_arm].spent for at in each.sizes if at.plain_arm in arms]
            sizes = tuple((spent.parameters, spent.trained) for spent in plain)
            yield Judged(each.name, each.host, sizes, each.optimizer, each.verdict)
    for c in report.comparisons:
        if c.match == "none" and (optimizer := optimizer_of(c.method.first)):
            sizes = ((c.baseline.spent.parameters, c.baseline.spent.trained),)
            yield Judged(c.name, c.method.first.host, sizes, optimizer, c.verdict)
