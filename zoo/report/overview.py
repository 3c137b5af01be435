"""The first screen of a report in words and tables: what helps, what hurts, what is open, how sure, at what size and cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zoo.bench.step_costs import Ratio
from zoo.report.cell_texts import number_text
from zoo.report.ladder_results import LadderFindings, LadderRow
from zoo.report.ladder_tables import ROLES
from zoo.report.standings import AtSize, Effect, Standing, by_name, by_word
from zoo.report.verdict_words import HURTS, NOT_TRAINED, meanings, word_of
from zoo.scaling.multiplier import Overall
from zoo.system.table import Table, counted

MOST_ROWS = 400  # of the first table: more are in the tables of the verdicts
MOST_NAMES = 12  # after a word
UNKNOWN = "–"
AT_EDGE, FEWER_RATES, FAR, OWN_NOISE = "†", "‡", "§", "¶"
MARKS = {
    AT_EDGE: "at some size its best learning rate is the lowest or highest of those tried: one beyond may be better",
    FEWER_RATES: "at some size fewer learning rates were tried for it than for the plain block",
    FAR: "κ this far from 1 has the right sign, not the right size",
    OWN_NOISE: "its runs scatter far more than those of the others, so its interval is of its own noise",
}
LADDER = "A ladder trains the plain block and every method at several sizes, its rungs, by one recipe."
WHOLE_STEPS = 0.005  # of ln κ: a whole number of steps is not quite 10 % more tokens


class Answer(NamedTuple):
    """A word, what it means, and the methods that it is said of."""

    word: str
    meaning: str
    standings: Sequence[Standing]


def parts(some: Sequence[Standing]) -> list[list[Standing]]:
    """What is judged by κ, then what was judged at one size alone: each a figure and a table of its own; none is empty."""
    halves = ([each for each in some if each.ladder is ladder] for ladder in (True, False))
    return [of for of in halves if of]


def shown(some: Sequence[Standing]) -> Sequence[Standing]:
    """The rows of the first screen: all, or those whose effects are largest, in the same order."""
    if len(some) <= MOST_ROWS:
        return some
    largest = sorted(range(len(some)), key=lambda i: -abs(some[i].gain) if math.isfinite(some[i].gain) else 0.0)
    return [some[i] for i in sorted(largest[:MOST_ROWS])]


def answers(some: Sequence[Standing]) -> list[Answer]:
    """What is said of the methods, the best news first, with the meaning of every word that is used."""
    words = meanings(some[0].ladder) if some else {}
    return [Answer(word, words.get(word, ""), of) for word, of in by_word(some).items()]


def names_text(some: Sequence[Standing]) -> str:
    """The methods after a word, each with its effect, in every host where there are several; of many methods, the first.

    One method is named rather than counted as "1 more".
    """
    hosts, optimizers, methods = {each.host for each in some}, several_optimizers(some), by_name(some)
    named = []
    first = list(methods.items())[:MOST_NAMES] if len(methods) > MOST_NAMES + 1 else list(methods.items())
    for name, of in first:
        values = []
        for each in of:
            value = number_text(each.effect.value, ".2f" if each.ladder else "+.3f")
            value += f" {place_text(each, optimizers)}" if len(hosts) > 1 or optimizers else ""
            values.append(f"{value}, by its FLOPs" if each.by_its_flops else value)
        named.append(f"{name} ({', '.join(values)})" if values != [UNKNOWN] else name)
    more = f" and {len(methods) - len(first)} more" if len(first) < len(methods) else ""
    return ", ".join(named) + more


def overview_table(some: Sequence[Standing], links: Mapping[str, str] | None = None) -> Table:
    """A row per method: verdict, κ or difference with its interval, sizes, seeds, cost."""
    ladder, optimizers = bool(some) and some[0].ladder, several_optimizers(some)
    rows = []
    for each in shown(some):
        effect = {"κ (95 %)": effect_text(each.effect, True), "κ_time (95 %)": effect_text(each.in_time, True)}
        if not ladder:
            effect = {"difference (95 %)": effect_text(each.effect, False)}
        rows.append(
            {
                "method": each.name,
                "verdict": verdict_text(each),
                **effect,
                "parameters of the plain block": sizes_text(each.sizes),
                "seeds": seeds_text(each.sizes),
                "time ×": time_text(each.cost.time),
                "parameters": percent_text(each.cost.parameters),
                "FLOPs": percent_text(each.cost.flops),
                "host": place_text(each, optimizers),
            }
        )
    unit = "κ over all rungs" if ladder else "loss at one size, in nats per token"
    brief = ("method", "verdict", *list(effect), "seeds") if rows else ("method", "verdict")
    return Table.of(f"Every method: {unit}", rows, brief)._replace(links=links or {})


def several_optimizers(some: Sequence[Standing]) -> bool:
    """Whether rows must say the optimiser."""
    return len({each.optimizer for each in some}) > 1


def place_text(standing: Standing, optimizers: bool) -> str:
    """The host; where there are several optimisers, with the optimiser."""
    return f"{standing.host}, {standing.optimizer or UNKNOWN}" if optimizers else standing.host


def verdict_text(standing: Standing) -> str:
    """The verdict with its marks; of a control, with what it is; of what hurts by its FLOPs alone, that."""
    marked = f"{standing.verdict}{marks(standing)}"
    beside = control_text(standing) or (flops_text(standing) if standing.by_its_flops else "")
    return f"{marked} ({beside})" if beside else marked


def control_text(standing: Standing) -> str:
    """What a control is, and where κ_data is what is expected of it, what that came to; empty for a method."""
    if standing.role == "method":
        return ""
    value, low, high = standing.in_data
    is_data = standing.role == "more tokens" and not math.isnan(value)
    return ROLES[standing.role] + (f", measured {value:.3f}, 95 % {low:.3f} … {high:.3f}" if is_data else "")


def flops_text(standing: Standing) -> str:
    """The remark on a method whose FLOPs outweigh its lower loss."""
    return f"by its FLOPs: its loss is {-standing.sizes[-1].difference:.3f} lower"


def marks(standing: Standing) -> str:
    """The marks of a row, whose meanings MARKS has."""
    applies = (standing.at_edge, standing.fewer_rates, standing.far, standing.own_noise)
    signs = "".join(mark for mark, does in zip(MARKS, applies, strict=True) if does)
    return f" {signs}" if signs else ""


def marks_text(some: Sequence[Standing]) -> str:
    """The meanings of the marks that these rows have, in a sentence; empty where they have none."""
    used = "".join(map(marks, some))
    return " ".join(f"{mark} {meaning}." for mark, meaning in MARKS.items() if mark in used)


def effect_text(effect: Effect, multiplier: bool) -> str:
    """κ, or a difference in nats, with its interval."""
    form = ".3f" if multiplier else "+.3f"
    if math.isnan(effect.value):
        return UNKNOWN
    if math.isnan(effect.low):
        return format(effect.value, form)
    return f"{effect.value:{form}} ({effect.low:{form}} … {effect.high:{form}})"


def size_text(parameters: float) -> str:
    """A number of parameters or tokens: 98 k, 1.04 M."""
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if parameters >= 10**power:
            return f"{parameters / 10**power:.3g} {letter}"
    return f"{parameters:,}"


def sizes_text(sizes: Sequence[AtSize]) -> str:
    """From the smallest size to the largest."""
    ends = dict.fromkeys(size_text(each.parameters) for each in (sizes[0], sizes[-1])) if sizes else {}
    return " to ".join(ends) or UNKNOWN


def seeds_text(sizes: Sequence[AtSize]) -> str:
    """The seeds at every size."""
    return ", ".join(str(each.seeds) for each in sizes) or UNKNOWN


def time_text(time: Ratio | None) -> str:
    """The time of a training step beside the plain block's."""
    return f"{time.value:.2f} ({time.low:.2f} … {time.high:.2f})" if time else UNKNOWN


def percent_text(ratio: float) -> str:
    """A ratio to the plain block's figure, as a difference in percent."""
    return "±0 %" if abs(ratio - 1) < 5e-5 else f"{ratio - 1:+.1%}".replace("%", " %")


class Control(NamedTuple):
    """A control of a ladder: what must come of it, what came, and whether that is so."""

    label: str
    expected: str
    outcome: str
    passed: bool


def controls(ladder: LadderFindings) -> list[Control]:
    """The controls of a ladder, without which it is not to be believed."""
    return [_control(row) for row in ladder.rows if row.role != "method"]


def _control(row: LadderRow) -> Control:
    if row.role == "other seeds":
        return Control(row.label, "κ = 1", f"κ = {_over_all(row.compute)}", _holds(row.compute, 1.0))
    if row.role == "more tokens":
        return Control(
            row.label, "κ_data = 1.10", f"κ_data = {_over_all(row.data)}", _holds(row.data, 1.1, WHOLE_STEPS)
        )
    outcome = f"{row.verdict}, κ = {_over_all(row.compute)}"
    if row.role == "harm":
        return Control(row.label, "it hurts", outcome, word_of(row.verdict) in (HURTS, NOT_TRAINED))
    gained = row.compute is not None and row.compute.log.interval()[0] > 0
    return Control(row.label, "it helps", outcome, gained)


def _over_all(overall: Overall | None) -> str:
    if overall is None:
        return UNKNOWN
    low, high = overall.log.interval()
    return effect_text(Effect(*(math.exp(min(each, 700)) for each in (overall.log.value, low, high))), True)


def _holds(overall: Overall | None, expected: float, slack: float = 0.0) -> bool:
    """Whether the interval has the expected value in it, give or take so much of ln κ."""
    if overall is None:
        return False
    low, high = overall.log.interval()
    return low - slack <= math.log(expected) <= high + slack


def controls_table(ladder: LadderFindings) -> Table:
    """The controls of a ladder beside what was to be expected of them."""
    rows = tuple((each.label, each.expected, each.outcome, "yes" if each.passed else "no") for each in controls(ladder))
    head = ("control", "expected", "measured", "as expected")
    return Table(f"Is it to be believed? Controls of ladder {ladder.name}, {ladder.host} host", head, rows)


class Remark(NamedTuple):
    """What a reader must know beside the verdicts: in a few words above the table, in full below it."""

    short: str
    text: str


def trust_in_short(ladders: Sequence[LadderFindings]) -> str:
    """What `trust` says, in a few words."""
    if not ladders:
        return "one size: a difference may not hold at another"
    parts = []
    for ladder in ladders:
        outcomes = controls(ladder)
        good, sizes = sum(each.passed for each in outcomes), len(ladder.rungs)
        came = f"{'all' if good == len(outcomes) else f'{good} of'} {counted(len(outcomes), 'control')} as expected"
        where = f"ladder {ladder.name}, {ladder.host} host"
        parts.append(f"{where}: {came if outcomes else 'no control'}, {sizes} sizes, {ladder.rungs[0].split} split")
    return "; ".join(parts)


def trust(ladders: Sequence[LadderFindings]) -> str:
    """How reliable the results on the screen are, in a sentence or two."""
    if not ladders:
        return (
            "Every row is of one size, where a difference may not hold at another: a ladder would tell."
            " Intervals are 95 % intervals of one method at a time; the verdicts allow for all methods of a suite."
        )
    sentences = []
    for ladder in ladders:
        outcomes = controls(ladder)
        failed = [each for each in outcomes if not each.passed]
        where = f"Ladder {ladder.name}, {ladder.host} host"
        if not outcomes:
            sentences.append(f"{where}: no control was run, so nothing is to be believed yet.")
        elif failed:
            named = "; ".join(f"{each.label}: {each.outcome}, expected {each.expected}" for each in failed)
            good = len(outcomes) - len(failed)
            sentences.append(f"{where}: {good} of {len(outcomes)} controls came out as expected; not {named}.")
        else:
            sentences.append(f"{where}: all {len(outcomes)} controls came out as expected.")
        sentences += _basis(ladder)
    return f"{LADDER} Intervals are 95 % intervals of one method at a time. " + " ".join(sentences)


def _basis(ladder: LadderFindings) -> list[str]:
    """What κ rests on: the split, the plain block's curve, and how many questions were asked; a sentence each."""
    rungs, methods = ladder.rungs, sum(row.role == "method" for row in ladder.rows)
    sentences = [f"Losses are those of the {rungs[0].split} split."]
    if len(rungs) == 2:
        slope = number_text(rungs[-1].slope, ".3f")
        sentences.append(
            "With two rungs the plain block's curve is a straight line through two sizes, by which an e-fold of compute is worth"
            f" {slope} nats at both: every κ rests on that line."
        )
    else:
        sentences.append(f"Every κ rests on a quadratic through the plain block's losses at {len(rungs)} sizes.")
    budgets = [str(rung.number) for rung in rungs if not math.isnan(rung.data_slope)]
    if budgets and len(budgets) < len(rungs):
        which = f"rung{'s' if len(budgets) > 1 else ''} {' and '.join(budgets)}"
        sentences.append(f"κ_data is of {which} alone, where the plain block was run with other budgets of tokens.")
    if methods > 1:
        sentences.append(f"No verdict is corrected for {methods} methods having been tried.")
    return sentences
