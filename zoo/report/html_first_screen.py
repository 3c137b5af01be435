"""The first screen of the HTML report: a row per method, each with its interval drawn on one axis."""

from __future__ import annotations

import functools
import html
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from zoo.catalogue.families import families
from zoo.plugins.finder import find_methods
from zoo.report.cell_texts import number_text
from zoo.report.charts import ticks
from zoo.report.ladder_tables import KAPPA
from zoo.report.overview import (
    MARKS,
    UNKNOWN,
    Remark,
    answers,
    control_text,
    effect_text,
    flops_text,
    marks,
    marks_text,
    names_text,
    parts,
    percent_text,
    place_text,
    seeds_text,
    several_optimizers,
    shown,
    size_text,
    sizes_text,
    time_text,
)
from zoo.report.standings import AtSize, Effect, Standing
from zoo.report.verdict_words import ORDER, VOID, colour, meanings, word_of
from zoo.system.foreign_text import one_line

HEADS = ("sizes", "seeds", "time ×", "parameters", "FLOPs")
LEAST_KAPPA, MOST_KAPPA = 0.5, 2.0  # of the figure: what lies beyond is drawn at its edge
HOW_SURE = "how-sure"  # where a link finds the remarks in full
FAR = 3.0  # times the middle difference: what lies beyond is drawn at the edge


class Row(NamedTuple):
    """A row of the first table: a method over all sizes, or at one of them."""

    standing: Standing
    size: str  # empty: all
    effect: Effect
    verdict: str
    sizes: tuple[AtSize, ...]


class Scale(NamedTuple):
    """The axis of the figure: from where to where, and whether equal ratios are equally long."""

    low: float
    high: float
    log: bool

    def place(self, value: float) -> float:
        """Where a value stands, in percent of the width; what is beyond an end, at it."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = (math.log(value) if value > 0 else -math.inf) if self.log else value
        return 100 * min(1.0, max(0.0, (at - low) / (high - low)))

    def holds(self, value: float) -> bool:
        """Whether a value is on the axis."""
        return self.low <= value <= self.high


def text(words: str) -> str:
    """Anyone's words as HTML."""
    return html.escape(one_line(words))


def first_screen(standings: Sequence[Standing], links: Mapping[str, str], remarks: Sequence[Remark] = ()) -> str:
    """Answers in words, remarks in a few, filters, then a table with its figure for each unit: κ, and nats."""
    sections = []
    for of in parts(standings):
        items = "".join(
            f'<li style="--c:{colour(answer.word)}"><span class="word">{text(answer.word)}</span> ({len(answer.standings)}):'
            f" {text(names_text(answer.standings))} <small>— {text(answer.meaning)}</small></li>"
            for answer in answers(of)
        )
        title = "By ladder: how many times its compute the plain block needs (κ)"
        heading = title if of[0].ladder else "At one size: loss − the plain block's (nats per token)"
        places = _places(of)
        heading += f", {text(places[0])} host" if len(places) == 1 else ""
        sections.append((f'<h2>{heading}</h2><ul class="answers">{items}</ul>', _table(of, links)))
    rows = [row for of in parts(standings) for row in _rows(of)]
    first, *others = sections or [("<p>There is nothing to compare yet.</p>", "")]
    return "".join(
        [first[0], _notes(remarks), _filters(rows), first[1], *(f"{words}{table}" for words, table in others)]
    )


def _places(some: Sequence[Standing]) -> list[str]:
    """The hosts of these rows, with the optimisers where there are several; of more than one a column says which."""
    optimizers = several_optimizers(some)
    return sorted({place_text(each, optimizers) for each in some})


def _notes(remarks: Sequence[Remark]) -> str:
    """The remarks in a few words, with a link to where they are in full."""
    items = "".join(f"<li>{text(remark.short)}</li>" for remark in remarks)
    return (
        f'<p class="note">Before you rely on it (<a href="#{HOW_SURE}">in full</a>):</p><ul class="notes">{items}</ul>'
    )


def remarks_section(remarks: Sequence[Remark]) -> str:
    """The remarks in full."""
    return f'<h2 id="{HOW_SURE}">How sure</h2>' + "".join(f"<p>{text(remark.text)}</p>" for remark in remarks)


def _rows(some: Sequence[Standing]) -> list[Row]:
    """A row per method over all sizes, then those of single sizes, which a filter shows."""
    rows = [Row(each, "", each.effect, each.verdict, each.sizes) for each in shown(some)]
    if len({size_name(at) for each in some for at in each.sizes}) == 1:
        return rows
    return rows + [Row(each, size_name(at), at.effect, at.verdict, (at,)) for each in shown(some) for at in each.sizes]


def size_name(at: AtSize) -> str:
    """A size as the filter names it."""
    size = f"{size_text(at.parameters)} parameters, {size_text(at.tokens)} tokens"
    return f"rung {at.rung}: {size}" if at.rung else size


def _filters(rows: Sequence[Row]) -> str:
    """What the table can be filtered by; shown where scripts run."""
    values: dict[str, list[str]] = {
        "verdict": [word for word in ORDER if any(word_of(row.verdict) == word for row in rows)],
        "host": sorted({row.standing.host for row in rows}),
        "family": sorted({family(row.standing.name) for row in rows}),
        "size": list(dict.fromkeys(row.size for row in sorted(rows, key=_by_size) if row.size)),
    }
    fields = []
    for name, options in values.items():
        every = "all sizes together" if name == "size" else "all"
        chosen = "".join(f'<option value="{text(each)}">{text(each)}</option>' for each in options)
        fields.append(f'<label>{name} <select name="{name}"><option value="">{every}</option>{chosen}</select></label>')
    search = '<label>search <input name="text" type="search" placeholder="method, word …"></label>'
    return f'<form class="filters" hidden>{search}{"".join(fields)}<button type="reset">show all</button><output></output></form>'


def _by_size(row: Row) -> tuple[int, int]:
    return row.sizes[0].parameters, row.sizes[0].tokens


def _table(some: Sequence[Standing], links: Mapping[str, str]) -> str:
    """The table of one unit, a column of which is the figure."""
    ladder, rows = some[0].ladder, _rows(some)
    scale = _scale([row for row in rows if not row.size], ladder)
    marks = "".join(
        f'<span style="left:{scale.place(each):.1f}%">{each:.3g}</span>' for each in _marks(scale) if scale.holds(each)
    )
    effects = ("κ (95 %)", "κ_time") if ladder else ("difference (95 %)",)
    several = len(_places(some)) > 1
    place = functools.partial(place_text, optimizers=several_optimizers(some)) if several else None
    head = (
        f'<th class="text">method</th><th class="text">verdict</th><th class="figure"><span class="axis">{marks}</span></th>'
        + "".join(f"<th>{text(each)}</th>" for each in (*effects, *HEADS, *(["host"] if place else [])))
    )
    body = "".join(_row(row, scale, links, place) for row in rows)
    left_out = len(some) - len(shown(some))
    note = f" {left_out:,} methods with smaller effects are in the tables below." if left_out else ""
    way = "right of the line it helps" if ladder else "left of the line it is better"
    kappa = f"κ: {KAPPA}; κ_time: the same in seconds. " if ladder else ""
    return (
        f'<div class="scroll"><table class="standings"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p class="note">{text(kappa)}Dot: the estimate; bar: its 95 % interval; {way}; a diamond lies beyond the axis.'
        " Sizes: parameters of the plain block. Time ×: a training step's beside the plain block's; parameters and FLOPs: what"
        " the method has more. A method's name opens its page; a word explains itself when pointed at."
        f" {text(marks_text(shown(some)))}{note}</p>"
    )


def _row(row: Row, scale: Scale, links: Mapping[str, str], place: Callable[[Standing], str] | None) -> str:
    standing, word = row.standing, word_of(row.verdict)
    link = links.get(standing.name, "")
    name = f'<a href="{html.escape(link)}">{text(standing.name)}</a>' if link else text(standing.name)
    meaning = meanings(standing.ladder).get(word, "")
    control = ' class="control"' if standing.role != "method" else ""
    name += f"<small> {text(control_text(standing))}</small>" if control else ""
    data = {"verdict": word, "host": standing.host, "family": family(standing.name), "size": row.size}
    attributes = "".join(f' data-{key}="{text(value)}"' for key, value in data.items())
    hidden = " hidden" if row.size else ""
    value, _, interval = effect_text(row.effect, standing.ladder).partition(" ")
    effect = f'<td class="effect" data-v="{_key(row.effect)}"><b>{text(value)}</b> {text(interval)}</td>'
    return (
        f'<tr{control}{attributes}{hidden}><td>{name}</td><td class="text" data-v="{ORDER.index(word)}">'
        f'<abbr class="word" style="--c:{colour(word)}" title="{text(meaning)}">{text(row.verdict)}</abbr>{_beside(row)}</td>'
        f'<td class="figure">{_bar(row, scale)}</td>{effect}{"".join(map(_cell, _cells(row, place)))}</tr>'
    )


def _beside(row: Row) -> str:
    """The text after a verdict: marks, and whether its FLOPs alone make the method hurt."""
    if row.size:
        return ""
    used = [mark for mark in MARKS if mark in marks(row.standing)]
    signs = "".join(f' <abbr class="mark" title="{text(MARKS[mark])}">{mark}</abbr>' for mark in used)
    return signs + (f"<small> {text(flops_text(row.standing))}</small>" if row.standing.by_its_flops else "")


class Cell(NamedTuple):
    """A cell of the table: its column, what it shows, what it is sorted by, and what pointing at it tells."""

    label: str
    shown: str
    key: str
    title: str = ""


def _cells(row: Row, place: Callable[[Standing], str] | None) -> Iterator[Cell]:
    """The cells after the effect, the last of which says where the row was measured, if that is not said of all."""
    standing, cost = row.standing, row.standing.cost
    if standing.ladder:
        in_time = row.sizes[0].in_time if row.size else standing.in_time
        yield Cell("κ_time", number_text(in_time.value, ".3f"), _key(in_time), effect_text(in_time, True))
    largest = row.sizes[-1].parameters if row.sizes else 0
    time = cost.time
    yield Cell("sizes", sizes_text(row.sizes), str(largest), row.size)
    yield Cell("seeds", seeds_text(row.sizes), str(sum(at.seeds for at in row.sizes)))
    yield Cell("time ×", f"{time.value:.2f}" if time else UNKNOWN, str(time.value) if time else "", time_text(time))
    yield Cell("parameters", percent_text(cost.parameters), f"{cost.parameters:.6g}")
    yield Cell("FLOPs", percent_text(cost.flops), f"{cost.flops:.6g}")
    if place:
        yield Cell("host", place(standing), place(standing))


def _cell(cell: Cell) -> str:
    unknown = " unknown" if cell.shown == UNKNOWN else ""
    title = f' title="{text(cell.title)}"' if cell.title not in ("", UNKNOWN) else ""
    return f'<td class="more{unknown}" data-label="{text(cell.label)}" data-v="{text(cell.key)}"{title}>{text(cell.shown)}</td>'


def _key(effect: Effect) -> str:
    return "" if math.isnan(effect.value) else f"{effect.value:.6g}"


def _bar(row: Row, scale: Scale) -> str:
    """The interval of a row, drawn on the axis."""
    value, low, high = row.effect
    zero = scale.place(1.0 if scale.log else 0.0)
    if math.isnan(value):
        return f'<span class="bar" style="--z:{zero:.2f}%"></span>'
    left, right = (scale.place(value if math.isnan(end) else end) for end in (low, high))
    beyond = "" if scale.holds(value) else ' class="beyond"'
    style = f"--z:{zero:.2f}%;--c:{colour(row.verdict)};--l:{left:.2f}%;--w:{right - left:.2f}%;--p:{scale.place(value):.2f}%"
    return f'<span class="bar" style="{style}"><i></i><b{beyond}></b></span>'


def _scale(rows: Sequence[Row], ladder: bool) -> Scale:
    """An axis that has room for most intervals; a harmful method must not press all others together."""
    decided = [row for row in rows if word_of(row.verdict) not in VOID and row.standing.role != "harm"]
    sound = [row.effect for row in decided if not math.isnan(row.effect.value)]
    ends = [end for effect in sound for end in effect if math.isfinite(end)]
    if ladder:
        low = max(LEAST_KAPPA, min([end for end in ends if end > 0], default=0.9))
        high = min(MOST_KAPPA, max(ends, default=1.1))
        return Scale(min(low, 0.95) / 1.02, max(high, 1.05) * 1.02, log=True)
    sizes = sorted(abs(effect.value) for effect in sound)
    most = FAR * sizes[len(sizes) // 2] if sizes else 1.0
    reach = min(max(map(abs, ends), default=1.0), max(most, 1e-6)) or 1.0  # all the same: any axis will do
    return Scale(-1.05 * reach, 1.05 * reach, log=False)


def _marks(scale: Scale) -> Iterable[float]:
    return ticks(scale.low, scale.high, log=False)


def family(name: str) -> str:
    """The families of a method, or of the parts of a combination; a dash for what is not installed."""
    known = _families()
    names = dict.fromkeys(known.get(part.partition("(")[0], UNKNOWN) for part in name.split("+"))
    return " + ".join(names)


@functools.cache
def _families() -> dict[str, str]:
    """The family of every installed method, by id."""
    entries = tuple(find_methods())
    return {entry.id: of.name for entry, of in families(entries).items()}
