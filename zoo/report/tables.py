"""The tables of a report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from zoo.report import learned_values
from zoo.report.arm_results import ArmResults
from zoo.report.cell_texts import (
    against,
    caveats,
    change_text,
    interval_text,
    number_text,
    p_value_text,
    seeds_text,
    size,
    where,
)
from zoo.report.cost_table import cost_table
from zoo.report.downstream import downstream_tables
from zoo.report.findings import Findings
from zoo.report.grouping import methods_of
from zoo.report.ladder_tables import ladder_tables
from zoo.report.selection import curves_drawn, families_of, of_one_report
from zoo.report.twins import Twins
from zoo.report.verdicts import Comparison
from zoo.system.table import Table


def tables(report: Findings, learned: bool = False) -> list[Table]:
    """Every table of a report; `learned` adds what the methods have learned."""
    return [
        *_ladder_tables(report),
        *_verdict_tables(report),
        *(_learned_tables(report) if learned else ()),
        *_other_tables(report),
    ]


@of_one_report
def _verdict_tables(report: Findings) -> list[Table]:
    return titled_tables(families_of(report))


@of_one_report
def _ladder_tables(report: Findings) -> list[Table]:
    return ladder_tables(report.ladders)


@of_one_report
def _learned_tables(report: Findings) -> list[Table]:
    return learned_tables(curves_drawn(report))


@of_one_report
def _other_tables(report: Findings) -> list[Table]:
    others = [cost_table(report.comparisons), arm_table(report.arms), model_table(report.comparisons)]
    if disagreeing := [c for c in report.comparisons if c.disagrees()]:
        others.insert(0, disagreement_table(disagreeing))
    others[:0] = downstream_tables(report.downstream)
    if report.twins:
        others.append(twins_table(report.twins))
    if report.earlier:
        others.append(change_table(report, report.earlier))
    return others


def verdict_table(comparisons: Sequence[Comparison]) -> Table:
    """The comparisons of one family, the best first."""
    rows = []
    for c in sorted(comparisons, key=lambda c: (math.isnan(c.difference.mean), c.difference.mean)):
        d, (ours, theirs) = c.difference, c.means()
        rows.append(
            {
                "method": c.name,
                "n": f"{seeds_text(d)}{caveats(c)}",
                "loss": number_text(ours, ".4f"),
                "baseline": number_text(theirs, ".4f"),
                "difference": number_text(d.mean, "+.4f"),
                "95 %": interval_text(*d.interval()),
                "p": p_value_text(d.p),
                "p (Dunnett)": p_value_text(c.p_adjusted),
                "detectable": number_text(c.detectable, ".4f"),
                "accuracy (%)": change_text(c.accuracy, "+.2f", 100.0),
                "bits per byte": change_text(c.bits_per_byte, "+.4f"),
                "learning rate": " / ".join(dict.fromkeys(f"{arm.first.lr:.2g}" for arm in (c.method, c.baseline))),
                "match is off by": "–" if c.match == "none" else f"{c.off_by:+.3%}",
                "verdict": c.verdict,
            }
        )
    brief = ("method", "n", "difference", "95 %", "p (Dunnett)", "verdict")
    return Table.of(f"Verdicts {against(comparisons[0])}", rows, brief)


def titled_tables(families: Sequence[Sequence[Comparison]]) -> list[Table]:
    """A table for each family; those with the same title are distinguished by the plain model's arm."""
    tables = [verdict_table(of) for of in families]
    titles = Counter(table.title for table in tables)
    return [
        table._replace(title=f"{table.title}, arm {of[0].method.plain_arm}") if titles[table.title] > 1 else table
        for table, of in zip(tables, families, strict=True)
    ]


def learned_tables(places: Sequence[Sequence[Comparison]]) -> list[Table]:
    """What the methods of each suite, host and plain arm have learned, where there is anything."""
    tables = [learned_values.table(methods_of(of), where(of[0])) for of in places]
    return [table for table in tables if table]


def arm_table(arms: Sequence[ArmResults]) -> Table:
    """Every arm with its loss, its learning rate and its size."""
    rows = []
    for arm in sorted(arms, key=lambda a: (a.first.host, a.first.name, a.first.match)):
        spread, first = arm.spread(), arm.first
        rows.append(
            {
                "arm": first.name,
                "match": first.match,
                "host": first.host,
                "n": str(spread.n),
                "mean loss": number_text(spread.mean, ".4f"),
                "deviation": number_text(spread.deviation, ".4f"),
                "split": arm.split,
                "learning rate": f"{first.lr:.2g}",
                "rates tried": ", ".join(f"{factor:g}" for factor in sorted(arm.factors)),
                "parameters": f"{first.parameters:,}",
                "tokens": f"{arm.spent.trained:,}",
                "diverged": str(arm.diverged),
                "causal": "no" if not first.causal else "yes",
            }
        )
    return Table.of("Every arm", rows, ("arm", "match", "n", "mean loss", "deviation", "learning rate", "diverged"))


def twins_table(pairs: Sequence[Twins]) -> Table:
    """The differences between twins."""
    rows = [
        {
            "pair": f"{t.first} − {t.second}",
            "host": t.host,
            "n": str(t.difference.n),
            "difference": number_text(t.difference.mean, "+.4f"),
            "95 %": interval_text(t.difference.low, t.difference.high),
        }
        for t in pairs
    ]
    return Table.of("Twins: methods that are the same function", rows, ("pair", "n", "difference", "95 %"))


def disagreement_table(comparisons: Sequence[Comparison]) -> Table:
    """The methods for which loss and accuracy point opposite ways, both beyond their 95 % intervals."""
    rows = [
        (c.name, where(c), c.match, change_text(c.difference, "+.4f"), change_text(c.accuracy, "+.2f", 100.0))
        for c in sorted(comparisons, key=lambda c: (c.match, c.name))
    ]
    return Table("Loss and accuracy disagree", ("method", "where", "match", "loss", "accuracy (%)"), tuple(rows))


def model_table(comparisons: Sequence[Comparison]) -> Table:
    """What the model of each family found: how far runs lie apart, how alike arms are in that, how alike seeds."""
    models = {id(c.model): c for c in comparisons if c.model and c.model.arms}
    rows = []
    for c in models.values():
        assert c.model is not None
        fit = c.model.fit()
        rows.append(
            (
                where(c),
                c.model.split,
                str(len(c.model.arms)),
                number_text(fit.deviation, ".4f"),
                "∞" if math.isinf(fit.prior.degrees) else number_text(fit.prior.degrees, ".1f"),
                number_text(fit.seed_deviation, ".4f"),
            )
        )
    head = ("family", "split", "arms", "s₀", "d₀", "seeds' deviation")
    return Table("Noise: the model of each family", head, tuple(rows))


def change_table(now: Findings, before: Findings) -> Table:
    """What is different from an earlier report, comparison by comparison."""
    old, new = _by_arm_and_match(before.comparisons), _by_arm_and_match(now.comparisons)
    rows = []
    for key in dict.fromkeys([*new, *old]):
        was, is_now = old.get(key), new.get(key)
        c = is_now or was
        assert c is not None
        host = f"{c.method.first.host}{size(c.plain)}"
        rows.append((c.name, host, c.match, _outcome(was), _outcome(is_now)))
    return Table("Against the earlier results", ("method", "host", "match", "before", "now"), tuple(rows))


def _by_arm_and_match(comparisons: Sequence[Comparison]) -> dict[tuple[str, str], Comparison]:
    """Comparisons by what they are about: the same arms, whatever their results."""
    return {(c.method.id, c.match): c for c in comparisons}


def _outcome(c: Comparison | None) -> str:
    return f"{number_text(c.difference.mean, '+.4f')} ({c.verdict}, n {seeds_text(c.difference)})" if c else "–"
