"""Learned values in a bench's report: from the store, beside the verdicts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from helpers.made_up_results import result
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from zoo.bench.store import Result
from zoo.report import learned_values
from zoo.report.figure_list import report_figures
from zoo.report.findings import Findings
from zoo.report.report_folder import write_report
from zoo.report.tables import learned_tables

GATES = [{"1": 0.25, "2": 0.5}, {"1": 0.75, "2": None}]  # of two seeds; null stands for what is not finite
KERNELS = [{"1": [0.25], "2": [0.25, 0.5]}, {"1": [0.75], "2": [0.75, 1.0]}]


def runs(*probes: dict[str, Any], **changed: Any) -> list[Result]:
    plain = [result("baseline", seed, 3.0) for seed in (1, 2)]
    return plain + [result("m", seed, 2.9, probes=of, **changed) for seed, of in enumerate(probes, start=1)]


def both() -> list[Result]:
    return runs(*({"gate": gate, "kernel": kernel} for gate, kernel in zip(GATES, KERNELS, strict=True)))


def test_values_are_means_over_seeds_by_element() -> None:
    (arm,) = [arm for arm in Findings.of(both()).arms if arm.first.name == "m"]
    assert learned_values.final_values(arm) == {
        "gate": {1: [0.5], 2: [0.5]},
        "kernel": {1: [0.5], 2: [0.5, 0.75]},
    }


def test_layers_stand_in_the_order_of_their_numbers() -> None:
    gate = {str(n): float(n) for n in (10, 2, 1)}
    (arm,) = [arm for arm in Findings.of(runs({"gate": gate}, {"gate": gate})).arms if arm.first.name == "m"]
    assert list(learned_values.final_values(arm)["gate"]) == [1, 2, 10]


def test_the_table_has_a_row_per_quantity_and_a_column_per_layer() -> None:
    (table,) = learned_tables([Findings.of(both()).comparisons])
    assert table.head == ("method", "learned value", "n", "layer 1", "layer 2")
    assert table.rows == (("m", "gate", "2", "0.500", "0.500"), ("m", "kernel", "2", "0.500", "0.500 … 0.750"))


def test_the_figure_has_a_panel_per_quantity() -> None:
    arms = [c.method for c in Findings.of(both()).comparisons]
    drawn = learned_values.figure(arms, "Learned")
    assert drawn is not None
    assert [axes.get_title() for axes in drawn.axes if axes.get_title()] == ["m\ngate", "m\nkernel"]
    gate, kernel, *_ = drawn.axes
    assert list(gate.lines[-1].get_ydata()) == [0.5, 0.5]
    assert [list(line.get_ydata()) for line in kernel.lines] == [[0.5, 0.5], [0.75]]
    assert [list(line.get_xdata()) for line in kernel.lines] == [[1, 2], [2]]


def test_what_depends_on_the_input_is_one_row_and_one_panel() -> None:
    heights = {"gate_mean": 0.5, "gate_q05": 0.125, "gate_q25": 0.25, "gate_q75": 0.75, "gate_q95": 0.875}
    probes = {name: {"1": height, "2": height} for name, height in heights.items()}
    vector = {f"weight_{name}": {"1": [1.0], "2": [1.0, height]} for name, height in (("mean", 2.0), ("q05", 0.0))}
    arms = [
        c.method for c in Findings.of(runs(probes | vector | {"weight_q95": {"1": [1.0], "2": [1.0, 3.0]}})).comparisons
    ]
    table = learned_values.table(arms, "here")
    assert table is not None
    assert [row[1:] for row in table.rows] == [
        ("gate", "1", "0.500 (0.125 … 0.875)", "0.500 (0.125 … 0.875)"),
        ("weight", "1", "1.000 (1.000 … 1.000)", "1.000 … 2.000 (0.000 … 3.000)"),
    ]
    drawn = learned_values.figure(arms, "Learned")
    assert drawn is not None
    gate, weight = drawn.axes
    assert len(gate.collections) == 5 and len(weight.lines) == 2 and len(weight.collections) == 2


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    write_report(Findings.of(both()), folder)
    return folder


def test_a_report_shows_them_behind_the_verdicts(written: Path) -> None:
    text, page = (written / "report.md").read_text(), (written / "report.html").read_text()
    for told in (text, page):
        assert told.index("Verdicts") < told.index("Learned values") < told.index("Cost compared")
    assert [Path(name).stem for name in re.findall(r"\]\((figures/learned.+)\)", text)] == ["learned_sequential_baseli"]


def test_what_learns_nothing_has_neither_table_nor_figure() -> None:
    plain = Findings.of(runs({}, {}))
    assert not learned_tables([plain.comparisons])
    assert not [name for name, _ in report_figures(plain) if name.startswith("learned")]


def test_tensorboard_begins_with_losses_and_verdicts(written: Path) -> None:
    tags = EventAccumulator(str(written / "tensorboard" / "report")).Reload().Tags()
    texts = sorted(tag for tag in tags["tensors"])
    assert [re.split(r"[ /]", tag)[1] for tag in texts[:4]] == ["Every", "Verdicts", "Learned", "Cost"]
    shown = [re.sub(r"(report/\d+_[a-z]+).*", r"\1", tag) for tag in sorted(tags["images"])]
    assert shown[:4] == ["report/01_overview", "report/02_differences", "report/03_flops", "report/04_curves"]
    assert shown[-3:-1] == [f"report_learned/sequential_baseli_m_{name}" for name in ("gate", "kernel")]
    assert shown[-1] == "report_methods/m/1_curves"
    (run,) = (written / "tensorboard").glob("m-*-s1-*")
    of_run = EventAccumulator(str(run)).Reload().Tags()["scalars"]
    assert sorted({tag.partition("/")[0] for tag in of_run}) == ["loss", "result"]
    assert "loss" < "report"  # TensorBoard shows groups by name


@pytest.mark.parametrize("name", ["m", "x" * 40])
def test_titles_of_panels_fit(name: str) -> None:
    found = [result("baseline", 1, 3.0), result(name, 1, 2.9, probes={"gate": {"1": 0.5}})]
    drawn = learned_values.figure([c.method for c in Findings.of(found).comparisons], "Learned")
    assert drawn is not None and len(drawn.axes[0].get_title().split("\n")[0]) <= 28
