"""The second table of the first screen: what there is beside the loss, on every page of a report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from helpers.made_up_ladder import made_up_ladder
from helpers.made_up_results import result

from zoo.bench.step_costs import Ratio
from zoo.bench.store import Result
from zoo.report.beside_loss import beside_loss_table
from zoo.report.cost_table import cost_table
from zoo.report.findings import Findings
from zoo.report.html_report import html_report
from zoo.report.method_pages import method_pages
from zoo.report.pages import markdown
from zoo.report.results_page import results_page
from zoo.report.standings import standings

METHOD = "v1_m4"


@pytest.fixture(scope="module")
def report() -> Findings:
    """A ladder whose method trains and decodes more slowly at its top rung, and is more accurate there alone."""
    made = made_up_ladder({METHOD: 1.15, "v1_m3": 1.0}, times={METHOD: 1.25})
    top = f"sequential 4 {METHOD}"
    costs = dict(made.notes.costs)
    costs[top] = dataclasses.replace(
        costs[top], evaluation=[(1.1, 1.0)] * 9, decoding=[(1.5, 1.0)] * 9, state=(1280.0, 1024.0)
    )
    return Findings.of(more_accurate(made.results, top), made.notes._replace(costs=costs))


def more_accurate(results: Sequence[Result], arm: str) -> list[Result]:
    """These results, two percent more accurate in one arm, and a hundredth of a bit per byte better."""
    changed = []
    for run in results:
        better, noise = run.arm == arm, (run.seed % 3 - 1) / 10_000
        accuracy, bits = 0.1 + 0.02 * better + noise, 1.0 - 0.01 * better + noise
        changed.append(dataclasses.replace(run, accuracy=accuracy, bits_per_byte=bits))
    return changed


def test_a_row_is_of_the_largest_size(report: Findings) -> None:
    table = beside_loss_table(report, standings(report))
    assert table is not None
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    assert rows.keys() == {METHOD, "v1_m3", "wr_mean", "skip_scalar_0"}  # the plain block's own controls have none
    row = rows[METHOD]
    assert row["parameters of the plain block"] == "790 k"
    assert row["accuracy (%)"].startswith("+2.00 ± 0.") and row["bits per byte"].startswith("-0.0100 ± 0.")
    assert [row[name] for name in table.head[4:]] == [
        "1.10 (1.10 … 1.10)",
        "1.50 (1.50 … 1.50)",
        "1,280 / 1,024",
        "790 k",
    ]
    assert row["steps/s ×"] == "0.80 (0.80 … 0.80)"  # a step takes 1.25 times as long
    assert [rows["v1_m3"][name] for name in table.head[3:-1]] == ["–"] * 4  # never measured


def test_a_speed_has_the_interval_of_its_time() -> None:
    assert Ratio(1.25, 1.0, 2.0).inverse == (0.8, 0.5, 1.0)


def test_hosts_are_told_apart() -> None:
    report = made_up_ladder({METHOD: 1.1}, ("sequential", "parallel")).findings
    table = beside_loss_table(report, standings(report))
    assert table is not None and {row[1] for row in table.rows if row[0] == METHOD} == {"sequential", "parallel"}


def test_without_any_figure_there_is_no_table() -> None:
    runs = [result(name, 1, 3.0, accuracy=None, bits_per_byte=None) for name in ("baseline", "m")]
    report = Findings.of(runs)
    assert beside_loss_table(report, standings(report)) is None
    assert "Beside the loss" not in html_report(report) + markdown(report)


def test_every_page_has_it(report: Findings) -> None:
    rows = standings(report)
    results, whole = results_page(report, rows, [], {METHOD: "its.md"}, []), markdown(report)
    for page in (results, whole):
        assert page.index("Every method") < page.index("## Beside the loss") < page.index("Controls of ladder")
    assert f"| [{METHOD}](its.md) | +2.00 ± 0." in results
    page = html_report(report)
    assert page.index('class="standings"') < page.index("<h2>Beside the loss") < page.index("<h2>All tables")
    (section,) = page.split("<h2>Beside the loss</h2>")[1:]
    assert f'<td><a href="#method-{METHOD}">{METHOD}</a></td><td>+2.00 ± 0.' in section


def test_the_page_of_a_method_has_accuracy_by_size(report: Findings) -> None:
    page = next(page for page in method_pages(report, standings(report)) if page.name == METHOD)
    (table,) = page.parts[0].tables
    place = table.head.index("accuracy (%)")
    assert table.head[place + 1] == "bits per byte"
    assert [row[place].partition(" ")[0] for row in table.rows] == ["+0.00", "-0.00", "+2.00"]  # noise below


def test_rates_per_second_are_in_plain_digits() -> None:
    made = made_up_ladder({METHOD: 1.15}, times={METHOD: 1 / 1234.5})
    table = cost_table(Findings.of(made.results, made.notes).comparisons)
    column = table.head.index("steps/s")
    assert {row[column] for row in table.rows if row[0] == METHOD} == {"1,230 (1,230 … 1,230)"}
