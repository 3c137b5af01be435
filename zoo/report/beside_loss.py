"""What there is of every method beside its loss: accuracy, bits per byte, and how fast it evaluates, trains and decodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zoo.report.cell_texts import change_text
from zoo.report.findings import Findings
from zoo.report.overview import UNKNOWN, shown, size_text, time_text
from zoo.report.standings import AtSize, Standing
from zoo.report.verdicts import Comparison
from zoo.system.table import Table

SIZE = "parameters of the plain block"
TITLE = "Beside the loss"
COLUMNS = (
    "At the largest size that each was run at. **Accuracy** (higher is better) and **bits per byte** (lower is better) are"
    " differences to the plain block on the validation split, ± half of the 95 % interval. **×** are ratios to the plain block's,"
    " measured in turns with it, with 95 % intervals: of steps/s, and so of samples/s, more is better; of the times of"
    " evaluating a batch and of decoding a token, less. **State** is what decoding keeps per token, the method's / the plain"
    " block's."
)


def beside_loss_table(
    report: Findings, standings: Sequence[Standing], links: Mapping[str, str] | None = None
) -> Table | None:
    """A row per method of the first screen, at its largest size; None where nothing of it was measured."""
    compared = with_plain(report.comparisons)
    several = len({each.host for each in standings}) > 1
    rows = []
    for each in shown(standings):
        largest = each.sizes[-1] if each.sizes else None
        if largest is None or (c := compared.get(largest.arm)) is None:
            continue
        rows.append(
            {
                "method": each.name,
                **({"host": each.host} if several else {}),
                **accuracy_cells(c),
                **_speeds(c, largest),
                SIZE: size_text(largest.parameters),
            }
        )
    known = [row for row in rows if any(row[name] != UNKNOWN for name in row if name not in ("method", "host", SIZE))]
    return Table.of(TITLE, known)._replace(links=links or {}) if known else None


def with_plain(comparisons: Iterable[Comparison]) -> dict[str, Comparison]:
    """The comparison of each method's arm with the plain block."""
    return {c.method.id: c for c in comparisons if c.match == "none"}


def accuracy_cells(c: Comparison | None) -> dict[str, str]:
    """The differences in accuracy and in bits per byte, each with half of its 95 % interval."""
    return {
        "accuracy (%)": change_text(c.accuracy, "+.2f", 100.0) if c else UNKNOWN,
        "bits per byte": change_text(c.bits_per_byte, "+.4f") if c else UNKNOWN,
    }


def _speeds(c: Comparison, at: AtSize) -> dict[str, str]:
    """How fast the method is beside the plain block; a dash for what was not measured."""
    cost = c.method.cost if c.method.cost and c.method.cost.plain == at.plain_arm else None
    return {
        "steps/s ×": time_text(cost.time_ratio.inverse if cost else None),
        "evaluation time ×": time_text(cost.evaluation_ratio if cost else None),
        "decoding time ×": time_text(cost.decoding_ratio if cost else None),
        "state bytes per token": f"{cost.state[0]:,.0f} / {cost.state[1]:,.0f}" if cost and cost.state else UNKNOWN,
    }
