"""Rows and events: read back as anyone would, and there once whatever happened in between."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from zoo.runs.metrics import METRICS, Records, read_rows
from zoo.runs.tensorboard import hyper_parameters

PROBES = {
    "gate": {1: torch.tensor(0.5), 2: torch.tensor(1.5)},
    "skip": {2: torch.tensor([1.0, 2.0, 6.0])},
}


def accumulated(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0}).Reload()


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in accumulated(folder).Scalars(tag)]


def test_a_row_is_a_line_and_its_numbers_are_scalars(tmp_path: Path) -> None:
    kept = Records(tmp_path)
    kept.row("valid", 3, {"loss": 2.5, "accuracy": 0.25, "note": "text"})
    kept.close()
    assert read_rows(tmp_path) == [{"kind": "valid", "step": 3, "loss": 2.5, "accuracy": 0.25, "note": "text"}]
    assert scalars(tmp_path, "loss/valid") == [(3, 2.5)]
    assert accumulated(tmp_path).Tags()["scalars"] == ["loss/valid", "valid/accuracy"]


def test_what_is_not_finite_is_null_so_that_every_line_is_json(tmp_path: Path) -> None:
    kept = Records(tmp_path)
    kept.row("valid", 1, {"loss": math.nan, "perplexity": math.inf})
    kept.probes(1, {"gate": {1: torch.tensor(math.nan)}})
    kept.close()

    def no_constants(name: str) -> Any:
        raise AssertionError(f"{name} is not JSON")

    lines = [json.loads(line, parse_constant=no_constants) for line in (tmp_path / METRICS).open()]
    assert lines[0]["loss"] is None and lines[0]["perplexity"] is None
    assert lines[1]["probes"] == {"gate": {"1": None}}


def test_probes_are_numbers_of_each_layer_and_elements_of_short_vectors(tmp_path: Path) -> None:
    long = {"wide": {1: torch.arange(40.0)}}
    kept = Records(tmp_path)
    kept.probes(4, PROBES)
    kept.tensorboard.histograms(4, PROBES | long)
    kept.close()
    (row,) = read_rows(tmp_path, "probes")
    assert row == {
        "kind": "probes",
        "step": 4,
        "probes": {"gate": {"1": 0.5, "2": 1.5}, "skip": {"2": [1.0, 2.0, 6.0]}},
    }
    (histogram,) = accumulated(tmp_path).Histograms("vectors/wide/layer_01")
    assert (histogram.histogram_value.num, histogram.histogram_value.sum) == (40, 780.0)
    assert accumulated(tmp_path).Tags()["histograms"] == ["vectors/wide/layer_01"]  # short vectors are in the figures


def test_tensorboard_opens_on_the_loss_with_one_card_per_learned_quantity(tmp_path: Path) -> None:
    """Groups are the tags up to the first slash, shown by name: loss, probes, and then the rest."""
    probes = {"gate": {n: torch.tensor(0.5) for n in range(1, 9)}, "kernel": {n: torch.rand(4) for n in range(1, 9)}}
    kept = Records(tmp_path)
    for kind in ("train", "valid"):
        kept.row(kind, 1, {"accuracy": 0.1, "loss": 2.5})
    kept.probes(1, probes)
    kept.tensorboard.review(1, probes, steps=1, seconds=1.0)
    kept.tensorboard.figures(1, probes)
    kept.close()
    tags = accumulated(tmp_path).Tags()
    assert sorted(tags["scalars"])[:2] == ["loss/train", "loss/valid"]
    assert tags["images"] == ["probes/gate", "probes/kernel"] and tags["histograms"] == []
    assert not [tag for tag in tags["scalars"] if tag.startswith("probes")]
    first, second = sorted({tag.partition("/")[0] for kind in ("scalars", "images") for tag in tags[kind]})[:2]
    assert (first, second) == ("loss", "probes")


def test_figures_are_drawn_while_it_runs_and_once_a_step(tmp_path: Path) -> None:
    kept = Records(tmp_path)
    for step in (10, 20, 30):
        kept.probes(step, PROBES)
        kept.tensorboard.review(step, PROBES, steps=30, seconds=1e4)
    kept.tensorboard.figures(30, PROBES)
    kept.tensorboard.figures(30, PROBES)
    kept.close()
    assert [event.step for event in accumulated(tmp_path).Images("probes/gate")] == [10, 20, 30]


def test_a_run_without_probes_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zoo.runs.probe_figures", None)  # importing it would fail
    kept = Records(tmp_path)
    kept.probes(1, {})
    kept.tensorboard.review(10, {}, steps=30, seconds=1e4)
    kept.tensorboard.figures(30, {})
    kept.close()
    assert read_rows(tmp_path) == [] and accumulated(tmp_path).Tags()["images"] == []


def test_training_and_validation_share_one_chart(tmp_path: Path) -> None:
    from tensorboard.plugins.custom_scalar import layout_pb2
    from tensorboard.util import tensor_util

    kept = Records(tmp_path)
    kept.tensorboard.describe("", 1)
    kept.row("train", 1, {"loss": 3.0})
    kept.row("valid", 1, {"loss": 3.0})
    kept.close()
    found = accumulated(tmp_path)
    (event,) = found.Tensors("custom_scalars__config__")
    layout = layout_pb2.Layout.FromString(tensor_util.make_ndarray(event.tensor_proto).item())
    charts = {chart.title: list(chart.multiline.tag) for category in layout.category for chart in category.chart}
    assert charts == {"loss": found.Tags()["scalars"]}


CONFIGURATION = """\
# The complete configuration
model.depth = 6
model.residual = @residual.some
train.betas = (0.9, 0.95)
train.compile = False
train.lr = 0.003
data.corpus = 'sotu'
"""


def test_the_configuration_is_there_as_text_and_as_one_row_of_the_hparams_tab(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams import metadata
    from tensorboard.util import tensor_util

    kept = Records(tmp_path)
    kept.tensorboard.describe(CONFIGURATION, 1234)
    kept.row("valid", 1, {"loss": 2.0})
    kept.tensorboard.end()
    kept.close()
    found = accumulated(tmp_path)
    (text,) = found.Tensors("configuration/text_summary")
    assert b"train.lr = 0.003" in tensor_util.make_ndarray(text.tensor_proto).item()
    contents = found.PluginTagToContent("hparams")
    start = metadata.parse_session_start_info_plugin_data(contents[metadata.SESSION_START_INFO_TAG])
    assert start.hparams["train.lr"].number_value == 0.003
    assert start.hparams["model.residual"].string_value == "@residual.some"
    assert metadata.parse_session_end_info_plugin_data(contents[metadata.SESSION_END_INFO_TAG]).status == 1
    experiment = metadata.parse_experiment_plugin_data(contents[metadata.EXPERIMENT_TAG])
    assert [metric.name.tag for metric in experiment.metric_infos][0] == "loss/valid"
    columns = sorted(experiment.hparam_infos, key=lambda info: (not info.differs, info.name))  # as TensorBoard does
    assert [column.name for column in columns][:4] == ["method", "model.depth", "parameters", "train.lr"]
    assert start.hparams["method"].string_value == "some" and start.hparams["parameters"].number_value == 1234
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []  # add_hparams would make a run of its own


def test_bindings_become_plain_values() -> None:
    assert hyper_parameters("model.depth = 6")["method"] == "baseline"
    assert hyper_parameters(CONFIGURATION) == {
        "method": "some",
        "model.depth": 6,
        "model.residual": "@residual.some",
        "train.betas": "(0.9, 0.95)",
        "train.compile": False,
        "train.lr": 0.003,
        "data.corpus": "sotu",
    }


# --- going on


def write(kept: Records, steps: range) -> None:
    for step in steps:
        kept.row("train", step, {"loss": float(step)})


def test_what_came_after_the_checkpoint_is_not_there_twice(tmp_path: Path) -> None:
    first = Records(tmp_path)
    first.tensorboard.describe(CONFIGURATION, 1234)
    write(first, range(1, 5))
    marks = first.marks()
    write(first, range(5, 9))
    first.flush()  # and then it is killed
    second = Records(tmp_path, marks, 4)
    write(second, range(5, 7))
    second.flush()
    third = Records(tmp_path, marks, 4)  # killed again before the next checkpoint
    write(third, range(5, 11))
    third.close()
    assert [row["step"] for row in read_rows(tmp_path)] == list(range(1, 11))
    assert scalars(tmp_path, "loss/train") == [(step, float(step)) for step in range(1, 11)]
    assert len(accumulated(tmp_path).Tensors("custom_scalars__config__")) == 1


def test_a_tensorboard_that_looks_on_forgets_what_was_cut(tmp_path: Path) -> None:
    first = Records(tmp_path)
    write(first, range(1, 5))
    marks = first.marks()
    write(first, range(5, 9))
    first.flush()
    watcher = accumulated(tmp_path)
    assert len(watcher.Scalars("loss/train")) == 8
    second = Records(tmp_path, marks, 4)
    second.row("train", 5, {"loss": 50.0})
    second.close()
    watcher.Reload()
    assert [event.value for event in watcher.Scalars("loss/train")] == [1.0, 2.0, 3.0, 4.0, 50.0]


def test_without_a_checkpoint_it_begins_anew(tmp_path: Path) -> None:
    first = Records(tmp_path)
    write(first, range(1, 5))
    first.flush()
    second = Records(tmp_path)
    write(second, range(1, 3))
    second.close()
    assert [row["step"] for row in read_rows(tmp_path)] == [1, 2]
    assert scalars(tmp_path, "loss/train") == [(1, 1.0), (2, 2.0)]


@pytest.mark.parametrize("torn", ['{"kind": "tra', '{"kind": "train", "step": 3, "loss": 1.0}'])
def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path: Path, torn: str) -> None:
    first = Records(tmp_path)
    write(first, range(1, 3))
    first.close()
    with (tmp_path / METRICS).open("a") as file:
        file.write(torn)
    assert [row["step"] for row in read_rows(tmp_path)] == [1, 2]
    marks = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    second = Records(tmp_path, marks, 2)
    write(second, range(3, 4))
    second.close()
    assert [row["step"] for row in read_rows(tmp_path)] == [1, 2, 3]


def test_a_row_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    kept = Records(tmp_path)
    write(kept, range(1, 3))
    kept.flush()
    assert [row["step"] for row in read_rows(tmp_path, "train")] == [1, 2]
    assert [step for step, _ in scalars(tmp_path, "loss/train")] == [1, 2]
    kept.close()
