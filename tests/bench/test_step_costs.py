"""What a step costs compared with the plain block's: measured, stored, merged and shown."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict
from pathlib import Path

import pytest
from helpers.made_up_results import result, study

from zoo.bench import measure_costs, step_costs
from zoo.bench.arms import arms_of
from zoo.bench.step_costs import StepCost
from zoo.bench.store import FILE, Store
from zoo.bench.suite import Suite
from zoo.bench.suite_notes import SuiteNotes, read_suite_notes
from zoo.bench.synthetic_step import decoding, evaluation, state_size
from zoo.report.arm_results import arms
from zoo.report.findings import Findings
from zoo.report.pages import markdown
from zoo.system.files import append_line


def cost(
    arm: str, *ratios: float, measured: str = "2026-01-01", plain: str = "baseline", **changed: object
) -> StepCost:
    rounds = [(ratio * 0.1, 0.1) for ratio in ratios]
    values = StepCost(
        arm=arm,
        plain=plain,
        name=arm,
        match="method",
        host="sequential",
        rounds=rounds,
        memory=(30.0, 20.0),
        threads=2,
        code={},
        settings={},
        versions={},
        measured=measured,
        evaluation=[(ratio * 0.05, 0.05) for ratio in ratios],
    )
    return dataclasses.replace(values, **changed)  # type: ignore[arg-type]


def test_a_ratio_is_the_median_of_rounds() -> None:
    found = cost("m", 1.0, 1.2, 9.0, 1.1, 1.3, 0.1, 1.2)
    assert found.time_ratio == pytest.approx((1.2, 0.1, 9.0)) and found.memory_ratio == 1.5
    assert str(found) == "m (method, sequential): time × 1.20 (0.10 … 9.00), memory × 1.50, evaluation × 1.20"
    assert "memory" not in str(dataclasses.replace(found, memory=None))


def test_the_last_measurement_counts_and_stores_are_merged(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for kept, folder in (
        (cost("m", 3.0, measured="2026-01-01"), one),
        (cost("m", 2.0, measured="2026-01-02"), one),
        (cost("n", 4.0, measured="2026-01-03"), one),
        (cost("m", 1.0, measured="2026-01-01"), other),
        (cost("n", 5.0, measured="2026-02-01"), other),
    ):
        append_line(folder / step_costs.FILE, asdict(kept))
    with (one / step_costs.FILE).open("a") as file:
        file.write('{"arm": "cut off')
    assert step_costs.read_costs(one)["m"].time_ratio.value == pytest.approx(2)
    for order in ([one, other], [other, one]):
        found = step_costs.merge_costs(order)
        assert [found[arm].time_ratio.value for arm in ("m", "n")] == pytest.approx([2, 5])
    assert step_costs.read_costs(tmp_path / "none") == {}


def test_a_report_finds_costs_beside_its_results(tmp_path: Path) -> None:
    for run in study(-0.1):
        Store(tmp_path).append(run)
    append_line(tmp_path / step_costs.FILE, asdict(cost("m", 2.0)))
    for named in (tmp_path, tmp_path / FILE):
        assert read_suite_notes([named]).costs["m"].time_ratio.value == pytest.approx(2)


def test_a_report_tells_what_was_measured_from_what_is_a_hint() -> None:
    assert "| m | sequential | +0 | 1.000 | ≈ 1.00 | – | ≈ 1.00 |" in markdown(Findings.of(study(-0.1)))
    measured = SuiteNotes({}, {}, (), {"m": cost("m", 2.0, 2.1, 1.9)})
    assert "| m | sequential | +0 | 1.000 | 2.00 | 1.90 … 2.10 | 1.50 |" in markdown(Findings.of(study(-0.1), measured))
    unknown = SuiteNotes({}, {}, (), {"m": cost("m", 2.0, memory=None)})
    assert "| 2.00 | 2.00 … 2.00 | – |" in markdown(Findings.of(study(-0.1), unknown))


def test_time_comes_from_the_ratio_and_the_plain_models_speed() -> None:
    found = arms(study(-0.1), SuiteNotes({}, {}, (), {"m": cost("m", 4.0)}))
    assert found["m"].speed == pytest.approx(found["baseline"].speed / 4)
    alone = arms([result("m", 1, 3.0)], SuiteNotes({}, {}, (), {"m": cost("m", 4.0)}))["m"]
    assert alone.cost is None and alone.speed == alone.own_speed  # the plain model is in another store


SHAPE = ["data.vocab_size = 300", "data.length = 16", "data.batch_size = 4", "model.depth = 2", "model.aspect = 8"]


def test_what_is_missing() -> None:
    wanted = arms_of(["wr_8_2"], SHAPE, Suite(), None)
    by_match = {arm.match: arm for arm in wanted}
    plain, method = by_match["none"], by_match["method"]
    both = [*wanted, *arms_of(["v1_m3"], SHAPE, Suite(), None)]  # they share the plain arm
    todo = measure_costs.missing_costs(both, {})
    assert todo.keys() == {plain.id} and len(todo[plain.id]) == 4
    have = {
        arm.id: cost(
            arm.id,
            1.0,
            plain=plain.id,
            code={name: hashes[0] for name, hashes in arm.code.items()},
            settings=measure_costs.first_run(arm).settings,
        )
        for arm in todo[plain.id]
    }
    assert measure_costs.missing_costs(both, have) == {}
    elsewhere = have | {method.id: cost(method.id, 1.0, plain="another")}
    assert measure_costs.missing_costs(both, elsewhere) == {plain.id: [method]}
    rewritten = have | {method.id: dataclasses.replace(have[method.id], code={"temporal_mixing.wr_8_2": "other"})}
    assert measure_costs.missing_costs(both, rewritten) == {} and measure_costs.missing_costs(
        both, rewritten, again=True
    ) == {plain.id: [method]}
    other = {**have[method.id].settings, "model.norm_eps": "0.1"}  # a default, as it was then
    assert measure_costs.missing_costs(
        both, have | {method.id: dataclasses.replace(have[method.id], settings=other)}
    ) == {plain.id: [method]}
    without = [arm for arm in wanted if arm is not plain]  # it failed, or was not asked for
    assert measure_costs.missing_costs(without, {}) == {}


def test_what_cannot_be_measured_ends_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.errors import ZooError

    class Worker:
        def __init__(self, name: str, build: object, threads: int, warm_up: int = 2) -> None:
            if name == "v1_m1":
                raise ZooError("v1_m1 cannot be measured: its process died")

        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    from zoo.bench import timing

    monkeypatch.setattr(timing, "Worker", Worker)
    monkeypatch.setattr(timing, "measure_memory", lambda *_: 1.0)
    monkeypatch.setattr(timing, "in_turns", lambda *_: [(0.2, 0.1)])
    monkeypatch.setattr(timing, "measure_once", lambda *_: 64.0)
    both = [arm for name in ("v1_m1", "v1_m3") for arm in arms_of([name], SHAPE, Suite(), None)]
    lines: list[str] = []
    assert measure_costs.measure_costs(both, tmp_path, 1, lines.append) == [
        "v1_m1 cannot be measured: its process died"
    ]
    assert [kept.name for kept in step_costs.read_costs(tmp_path).values()] == ["v1_m3"]
    assert lines[0].endswith("2 to measure") and lines[-1] == "v1_m1 cannot be measured: its process died"


def test_older_measurements_have_dashes(tmp_path: Path) -> None:
    old = asdict(cost("m", 2.0))
    for name in ("evaluation", "decoding", "state"):
        del old[name]
    append_line(tmp_path / step_costs.FILE, old)
    (read,) = step_costs.read_costs(tmp_path).values()
    assert read.evaluation_ratio is None and read.decoding_ratio is None and read.samples_per_second is None
    shown = markdown(Findings.of(study(-0.1), SuiteNotes({}, {}, (), {"m": read})))
    assert "| 1.50 | 5 (5 … 5) | – | – | – | – | – |" in shown


def test_speeds_are_shown_with_their_intervals() -> None:
    whole = cost(
        "m", 2.0, 2.1, 1.9, settings={"data.batch_size": "8"}, decoding=[(0.002, 0.001)] * 3, state=(512.0, 256.0)
    )
    shown = markdown(Findings.of(study(-0.1), SuiteNotes({}, {}, (), {"m": whole})))
    assert "| 5 (4.76 … 5.26) | 40 (38.1 … 42.1) | 2.00 (1.90 … 2.10) | 2.00 (2.00 … 2.00) |" in shown
    assert "| 500 (500 … 500) | 512 / 256 |" in shown


def test_evaluation_and_decoding_of_a_model() -> None:
    """Steps that run, and the state of the plain block: a key and a value per layer, of all heads, in 32 bits."""
    by_match = {arm.match: arm for arm in arms_of(["v1_m3"], SHAPE, Suite(), None)}
    text = measure_costs.first_run(by_match["none"]).text
    evaluation(text)()
    assert decoding(text)() == 16 * state_size(text)()
    assert state_size(text)() == 2 * 2 * 16 * 4  # two of two layers of width 16
