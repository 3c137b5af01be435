"""The page of one method, as data: what is said, tables and charts, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zoo.bench.store import Result
from zoo.report.arm_results import ArmResults
from zoo.report.beside_loss import accuracy_cells, with_plain
from zoo.report.cell_texts import interval_text, number_text, p_value_text, seeds_text, where
from zoo.report.charts import Chart
from zoo.report.claim_outcomes import ClaimChecker
from zoo.report.claims import card_named, claim_text
from zoo.report.cost_table import cost_table
from zoo.report.findings import Findings
from zoo.report.method_charts import curve_chart, kappa_chart, learned_charts, rate_chart
from zoo.report.method_evidence import MethodEvidence, curves, method_evidence
from zoo.report.overview import (
    AT_EDGE,
    FAR,
    FEWER_RATES,
    MARKS,
    OWN_NOISE,
    UNKNOWN,
    effect_text,
    flops_text,
    marks,
    seeds_text as seeds_of_sizes,
    several_optimizers,
    size_text,
    sizes_text,
)
from zoo.report.standings import AtSize, Standing
from zoo.report.verdict_words import meanings
from zoo.report.verdicts import Comparison
from zoo.system.foreign_text import file_name
from zoo.system.table import Table

MOST_PAGES = 150  # methods that have a page: of more, those at the top of the first table
MOST_LEARNED = 8  # charts of learned values


class Part(NamedTuple):
    """A part of a page under its heading."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()


class MethodPage(NamedTuple):
    """All that is known of one method."""

    name: str
    phrase: str  # what it does, from its card
    parts: tuple[Part, ...]

    @property
    def slug(self) -> str:
        """Its name in links and files, whatever characters the method's has."""
        return file_name(self.name)


def method_pages(report: Findings, standings: Sequence[Standing]) -> list[MethodPage]:
    """A page for each method of the first screen; of very many, for the first."""
    checker = ClaimChecker(report)
    evidence = method_evidence(report, standings)[:MOST_PAGES]
    return [_page(each, checker) for each in evidence]


def _page(evidence: MethodEvidence, checker: ClaimChecker) -> MethodPage:
    card = card_named(evidence.name.partition("(")[0])
    parts = [_standing(evidence, each) for each in evidence.standings]
    parts += [*_matched(evidence), *_rates(evidence), *_costs(evidence), *_claims(evidence, checker)]
    parts += _learned(evidence)
    return MethodPage(evidence.name, card.phrase if card else "", tuple(parts))


def _standing(evidence: MethodEvidence, standing: Standing) -> Part:
    """What came of the method in one host: the verdict, size by size, and its curves."""
    climbs = [c for c in evidence.climbs if c.ladder.key == standing.key]
    charts = [kappa_chart(climb) for climb in climbs if climb.row.rungs]
    groups = curves(evidence, standing)
    chart = curve_chart(groups, f"Learning curves, {standing.host} host")
    charts += [chart] if chart.series else []
    source = f"ladder {standing.source}" if standing.ladder else f"suite {standing.source}" if standing.source else ""
    optimizer = standing.optimizer if several_optimizers(evidence.standings) else ""
    where = ", ".join(filter(None, (f"{standing.host.capitalize()} host", optimizer, source)))
    return Part(
        f"{where}: {standing.verdict}", (_sentence(standing),), (_size_table(evidence, standing),), tuple(charts)
    )


def _sentence(standing: Standing) -> str:
    """The verdict, why, and at which sizes."""
    meaning = meanings(standing.ladder).get(standing.word, "")
    of_what = "κ" if standing.ladder else "loss − the plain block's, nats per token"
    values = [f"{of_what}: {effect_text(standing.effect, standing.ladder)}"]
    values += [f"κ_time: {effect_text(standing.in_time, True)}"] if standing.ladder else []
    sizes = f"plain blocks of {sizes_text(standing.sizes)} parameters, {seeds_of_sizes(standing.sizes)} seeds"
    words = f"{meaning}; {flops_text(standing)}" if standing.by_its_flops else meaning
    return (
        f"{standing.verdict}: {words}. {'; '.join(values)} (95 % intervals in brackets); {sizes}.{_caveats(standing)}"
    )


def _caveats(standing: Standing) -> str:
    """What to know of κ beside its interval."""
    said = [MARKS[mark] for mark in (FAR, OWN_NOISE) if mark in marks(standing)]
    return "".join(f" {each[0].upper() if each[0].isascii() else each[0]}{each[1:]}." for each in said)


def _size_table(evidence: MethodEvidence, standing: Standing) -> Table:
    compared = with_plain(evidence.comparisons)
    rows = [_size_row(at, standing.ladder, compared.get(at.arm)) for at in standing.sizes]
    return Table.of("Size by size", rows)


def _size_row(at: AtSize, ladder: bool, compared: Comparison | None) -> dict[str, str]:
    return {
        **({"rung": str(at.rung)} if ladder else {}),
        "parameters": size_text(at.parameters),
        "tokens": size_text(at.tokens),
        "seeds": str(at.seeds),
        "loss": number_text(at.loss, ".4f"),
        "plain block": number_text(at.plain_loss, ".4f"),
        "difference": number_text(at.difference, "+.4f"),
        "κ (95 %)" if ladder else "difference (95 %)": effect_text(at.effect, ladder),
        **accuracy_cells(compared),
        "verdict of this size alone": at.verdict,
    }


def _matched(evidence: MethodEvidence) -> Iterator[Part]:
    """The comparisons with baselines that are matched in something, and with the plain block at sizes of suites."""
    shown = {at.arm for each in evidence.standings for at in each.sizes}
    others = [c for c in evidence.comparisons if c.match != "none" or c.method.id not in shown]
    if others:
        rows = [_comparison_row(c) for c in others]
        yield Part("Against other baselines", tables=(Table.of("", rows),))


def _comparison_row(c: Comparison) -> dict[str, str]:
    return {
        "baseline matched in": "nothing" if c.match == "none" else c.match,
        "where": where(c),
        "n": seeds_text(c.difference),
        "difference": number_text(c.difference.mean, "+.4f"),
        "95 %": interval_text(c.difference.low, c.difference.high),
        "p (Dunnett)": p_value_text(c.p_adjusted),
        "verdict": c.verdict,
    }


def _rates(evidence: MethodEvidence) -> Iterator[Part]:
    """Loss against learning rate, beside the plain block's, at every size where rates were tried."""
    charts, remarks = [], list[str]()
    for standing in evidence.standings:
        tried: list[tuple[str, Sequence[Result]]] = []
        for at in standing.sizes:
            size = f", {size_text(at.parameters)}"
            remarks += _rate_remarks(at, standing)
            for label, id in (("the plain block", at.plain_arm), (evidence.name, at.arm)):
                if id in evidence.arms:
                    tried.append((label + size, evidence.arms[id].tried))
        chart = rate_chart(tried, f"Loss against learning rate, {standing.host} host")
        charts += [chart] if chart else []
    if charts or remarks:
        yield Part("Learning rates", tuple(remarks), charts=tuple(charts))


def _rate_remarks(at: AtSize, standing: Standing) -> Iterator[str]:
    """What is wrong with the learning rates that a method was given the choice of at one size."""
    rates, where = at.rates, f"{standing.host} host, {size_text(at.parameters)} parameters"
    tried, plain = (" ".join(f"× {each:g}" for each in sorted(of)) for of in (rates.tried, rates.plain))
    if rates.at_edge:
        end = "lowest" if rates.chosen == min(rates.tried) else "highest"
        best = f"its best rate, × {rates.chosen:g}, is the {end} of those tried ({tried})"
        yield f"{AT_EDGE} {where}: {best}; one beyond may be better."
    if rates.fewer:
        yield f"{FEWER_RATES} {where}: fewer rates were tried for it ({tried}) than for the plain block ({plain})."


def _costs(evidence: MethodEvidence) -> Iterator[Part]:
    """What it costs beside the plain block, a column per size."""
    columns = []
    for arm in {c.method.id: c.method for c in evidence.comparisons if c.plain}.values():
        compared = next(c for c in evidence.comparisons if c.method.id == arm.id and c.plain)
        assert compared.plain is not None
        table = cost_table([compared])
        title = f"{arm.first.host}, {size_text(compared.plain.spent.parameters)}"
        columns.append((title, dict(zip(table.head, table.rows[0], strict=True))))
    if columns:
        names = [name for name in columns[0][1] if name not in ("method", "host")]
        names = [name for name in names if any(of[name] != UNKNOWN for _, of in columns)]
        rows = tuple((name, *(of[name] for _, of in columns)) for name in names)
        yield Part("Cost beside the plain block", tables=(Table("", ("", *(title for title, _ in columns)), rows),))


def _claims(evidence: MethodEvidence, checker: ClaimChecker) -> Iterator[Part]:
    """What its card claims, and what came of that at the largest size of every host."""
    rows = []
    for standing in evidence.standings:
        arms = evidence.arms_of(standing)
        for outcome in checker.outcomes(arms[-1]) if arms else ():
            rows.append((f"{outcome.relation} {outcome.what}".strip(), standing.host, outcome.status))
    text = claim_text(evidence.name)
    if rows or text != UNKNOWN:
        table = (Table("", ("claim", "host", "outcome"), tuple(dict.fromkeys(rows))),) if rows else ()
        yield Part("Claimed", (text,) if text != UNKNOWN else (), table)


def _learned(evidence: MethodEvidence) -> Iterator[Part]:
    """What it has learned, at the largest size of every host."""
    charts: list[Chart] = []
    for standing in evidence.standings:
        arms: list[ArmResults] = evidence.arms_of(standing)
        for chart in learned_charts(arms[-1]) if arms else ():
            charts.append(chart._replace(title=f"{chart.title}, {standing.host} host"))
    if charts:
        more = () if len(charts) <= MOST_LEARNED else (f"{len(charts) - MOST_LEARNED} more are in TensorBoard.",)
        yield Part("Learned", more, charts=tuple(charts[:MOST_LEARNED]))
