"""A whole ladder whose truth is known: from pretended runs to κ, verdicts, tables and predictions."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import naive_ladder as naive
from helpers.made_up_ladder import step_cost
from helpers.pretend_ladder import LADDER, SETTINGS, LadderLauncher

from zoo.bench.ladder_notes import PREDICTIONS, note_arms, read_ladder_arms, read_predictions
from zoo.bench.ladder_plan import plan_ladder
from zoo.bench.ladder_runner import run_ladder
from zoo.bench.store import Store
from zoo.bench.suite_notes import read_suite_notes
from zoo.report.figure_list import report_figures
from zoo.report.figures import svg
from zoo.report.findings import Findings
from zoo.report.html_report import html_report
from zoo.report.ladder_figures import kappa_figure
from zoo.report.ladder_judge import StoreJudge
from zoo.report.ladder_results import LadderFindings, LadderRow, budget_points, ladder_findings
from zoo.report.ladder_tables import ladder_tables
from zoo.report.pages import markdown
from zoo.scaling.gate import HELPS, HOPELESS

KAPPAS = {"wr_mean": 1.3, "skip_scalar_0": 0.4, "v1_m3": 1.0, "v1_m4": 1.15}
METHODS = ["v1_m3", "v1_m4"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("ladder")
    (folder / "small.gin").write_text(LADDER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zoo.bench.freshness.corpus_fingerprint", lambda arm: "x")
        plan = plan_ladder(str(folder / "small.gin"), [], [*SETTINGS, "ladder.seeds = (3, 3, 3)"], METHODS)
        bench, said = Store(folder / "bench"), list[str]()
        judge = StoreJudge(bench, said.append)
        assert run_ladder(plan, bench, judge, launcher=LadderLauncher(KAPPAS), say=said.append) == []
        (folder / "said").write_text("\n".join(said))
        yield folder


def findings(store: Path) -> LadderFindings:
    folder = [store / "bench"]
    results = list(Store(folder[0]).read().values())
    (found,) = ladder_findings(results, read_ladder_arms(folder), read_predictions(folder), {})
    return found


def row(found: LadderFindings, label: str) -> LadderRow:
    return next(row for row in found.rows if row.label == label)


def test_the_controls_come_out(store: Path) -> None:
    found = findings(store)
    same, more = row(found, "plain, other seeds"), row(found, "plain, 10 % more tokens")
    assert same.compute is not None and more.data is not None
    low, high = same.compute.log.interval()
    assert low < 0 < high and same.verdict in ("the same", "open")
    for at, rung in zip(more.rungs, found.rungs, strict=True):  # a whole number of steps is not quite 10 % more
        tokens = rung.arms[more.label].results[0].tokens / rung.tokens
        assert at.data is not None and tokens == pytest.approx(1.1, abs=0.03)
        assert at.data.log.value == pytest.approx(math.log(tokens), abs=4 * at.data.log.error)
    low, high = more.data.log.interval()
    assert low > 0.05 and high < 0.15
    assert row(found, "wr_mean").verdict == "helps, not in time"  # nobody measured its time
    assert row(found, "skip_scalar_0").verdict == "hurts"


def test_kappa_is_the_formula(store: Path) -> None:
    """ln κ = −ΔL/s + ln(C_plain/C_method) at every rung, s by a parabola through the plain block's means."""
    found = findings(store)
    xs, means = [rung.x for rung in found.rungs], [rung.plain_loss for rung in found.rungs]
    curve = naive.quadratic([x - xs[1] for x in xs], means, [1.0] * 3)
    for label in ("v1_m4", "wr_mean"):
        for at, rung in zip(row(found, label).rungs, found.rungs, strict=True):
            runs = rung.arms[label]
            loss = sum(run.valid_loss or 0.0 for run in runs.results) / 3
            slope, charge = naive.slope(curve, rung.x - xs[1]), rung.x - math.log(runs.noted.charged)
            assert at.compute.log.value == pytest.approx((rung.plain_loss - loss) / slope + charge, rel=1e-3)
            assert at.compute.log.error == pytest.approx(rung.noise.deviation * math.sqrt(2 / 3) / slope, rel=1e-3)
    helpful = row(found, "v1_m4").compute
    assert helpful is not None and 0 < helpful.log.interval()[0] < helpful.log.interval()[1] < 0.25


def test_measured_time_is_counted(store: Path) -> None:
    """Steps that take 1.5 times as long turn a gain of 1.15 into a loss of time; 0.9 times, into a gain."""
    folder = [store / "bench"]
    results, arms = list(Store(folder[0]).read().values()), read_ladder_arms(folder)
    for slower, expected in ((1.5, "helps, not in time"), (0.9, "helps")):
        plain = {arm.depth: arm.arm for arm in arms.values() if arm.role == "plain"}
        methods = [arm for arm in arms.values() if arm.role == "method"]
        costs = {arm.arm: step_cost(arm, plain[arm.depth], slower) for arm in methods}
        found = row(ladder_findings(results, arms, {}, costs)[0], "v1_m4")
        assert found.verdict == expected and found.time is not None and found.compute is not None
        assert found.time.log.value == pytest.approx(found.compute.log.value - math.log(slower), abs=0.02)


def test_trouble_is_said_with_its_rung(store: Path) -> None:
    folder = [store / "bench"]
    arms = read_ladder_arms(folder)
    second = next(arm.arm for arm in arms.values() if arm.depth == 2 and arm.label == "v1_m4")

    def troubled(**changed: object) -> str:
        results = [
            replace(r, **changed) if r.arm == second else r  # type: ignore[arg-type]
            for r in Store(folder[0]).read().values()
        ]
        found = row(ladder_findings(results, arms, {}, {})[0], "v1_m4")
        assert found.compute is None and found.data is None and len(found.rungs) >= 2
        return found.verdict

    assert troubled(status="diverged", valid_loss=None) == "diverged at rung 2"
    assert troubled(valid_loss=5.999) == "did not train at rung 2"
    assert troubled(causal=False) == "leaks" and troubled(alarm="a leak") == "leaks"


def test_the_top_rung_was_predicted_before_it_was_run(store: Path) -> None:
    found = findings(store)
    assert {outcome.prediction.label for outcome in found.outcomes} == {"plain", "wr_mean", "skip_scalar_0", *METHODS}
    for outcome in found.outcomes:
        assert outcome.prediction.depth == 3 and outcome.prediction.runs > 20
        assert abs(outcome.error) < (0.2 if outcome.prediction.label == "skip_scalar_0" else 0.02)
    plain = next(outcome for outcome in found.outcomes if outcome.prediction.label == "plain")
    assert plain.inside
    registered = plain.prediction.registered
    ended = [r.stamps.get("ended", "") for r in Store(store / "bench").read().values() if r.arm == plain.prediction.arm]
    assert registered and all(not each or registered <= each for each in ended)
    assert "registered: plain at the top rung should come to" in (store / "said").read_text()


def test_a_prediction_is_never_made_after_the_run(store: Path) -> None:
    bench, said = Store(store / "bench"), list[str]()
    before = (bench.folder / PREDICTIONS).read_text()
    plan = plan_ladder(str(store / "small.gin"), [], [*SETTINGS, "ladder.seeds = (3, 3, 3)"], METHODS)
    judge = StoreJudge(bench, said.append)
    top = plan.rungs[-1]
    judge.predict(plan.key(plan.rungs), top, top.members)
    assert (bench.folder / PREDICTIONS).read_text() == before and said == []
    (bench.folder / PREDICTIONS).rename(bench.folder / "aside")
    judge.predict(plan.key(plan.rungs), top, top.members)
    assert not (bench.folder / PREDICTIONS).exists()
    assert "was run at the top rung before a prediction was registered" in said[0]
    (bench.folder / "aside").rename(bench.folder / PREDICTIONS)


def test_looks_settle_what_is_clear(store: Path, tmp_path: Path) -> None:
    """By the two smallest rungs alone: at the last look there is a reason for every method."""
    found = findings(store)
    assert StoreJudge(Store(store / "bench"), print).stopped(found.key) == {}
    shutil.copy(store / "bench" / "results.jsonl", tmp_path)
    arms = read_ladder_arms([store / "bench"]).values()
    note_arms(tmp_path, [replace(arm, looks=[2, 3] * (arm.role == "method" and arm.depth < 3)) for arm in arms])
    judge = StoreJudge(Store(tmp_path), print)
    assert judge.settled(found.key) == {"v1_m3": HOPELESS, "v1_m4": HELPS}
    assert judge.stopped(found.key) == {"v1_m3": HOPELESS}


def test_tables_and_pages_show_the_ladder(store: Path) -> None:
    folder = store / "bench"
    report = Findings.of(list(Store(folder).read().values()), read_suite_notes([folder]))
    kappa, rungs, by_rung, predictions = ladder_tables(report.ladders)
    assert kappa.title.startswith("Compute multipliers, ladder small, sequential host, 3 rungs")
    assert [cells[0] for cells in kappa.rows[:2]] == ["v1_m4", "v1_m3"] and len(kappa.rows) == 6
    assert len(rungs.rows) == 3 and len(by_rung.rows) == 18 and len(predictions.rows) == 5
    text, page = markdown(report), html_report(report)
    for shown in ("Compute multipliers", "Predictions of the top rung", "**verdict of a ladder**"):
        assert shown in text
    assert "κ by rung" in page and "helps, not in time" in page


def test_the_figure_has_a_line_per_arm_but_the_harm(store: Path) -> None:
    figure = kappa_figure(findings(store))
    shown = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert shown == ["plain, other seeds", "plain, 10 % more tokens", "wr_mean", "v1_m3", "v1_m4"]
    image = svg(figure)
    assert "<svg" in image and "v1_m4" in image
    report = Findings.of(list(Store(store / "bench").read().values()), read_suite_notes([store / "bench"]))
    names = [name for name, _ in report_figures(report)]
    assert names[0] == "overview/kappa" and names[1].startswith("ladders/small sequential")


def test_one_split_for_all_rungs(store: Path) -> None:
    """While the top rung waits for its test, validation losses are compared, and its outcome is not yet there."""
    folder = [store / "bench"]
    arms, predictions = read_ladder_arms(folder), read_predictions(folder)
    top = {arm.arm for arm in arms.values() if arm.depth == 3}
    results = [
        r if r.arm in top else replace(r, test_loss=(r.valid_loss or 0.0) + 0.5, tested=True)
        for r in Store(folder[0]).read().values()
    ]
    (found,) = ladder_findings(results, arms, predictions, {})
    assert {rung.split for rung in found.rungs} == {"validation"}
    assert all(math.isnan(outcome.loss) for outcome in found.outcomes)
    done = [replace(r, test_loss=(r.valid_loss or 0.0) + 0.5, tested=True) for r in results]
    (found,) = ladder_findings(done, arms, predictions, {})
    assert {rung.split for rung in found.rungs} == {"test"}
    assert all(outcome.error > 0.2 for outcome in found.outcomes if outcome.prediction.label != "skip_scalar_0")


def test_periods_of_one_run_are_budgets(store: Path) -> None:
    """A run of the schedule wsd_s brings the losses of its earlier periods, as validated."""
    run = next(r for r in Store(store / "bench").read().values() if r.name == "baseline")
    half = {"multiple": 0.5, "step": 1, "tokens": run.tokens // 2, "loss": 4.0, "accuracy": None}
    several = replace(run, budgets=[half, {**half, "tokens": run.tokens, "loss": run.valid_loss}])
    assert budget_points(several, "validation") == [(run.tokens // 2, 4.0), (run.tokens, run.valid_loss)]
    assert budget_points(replace(several, test_loss=3.0), "test") == [(run.tokens, 3.0)]
    assert budget_points(replace(several, budgets=[], valid_loss=None), "validation") == []


def test_a_store_without_a_ladder_has_no_such_table() -> None:
    assert ladder_tables(()) == [] and ladder_findings([], {}, {}, {}) == []


def test_one_rung_alone_says_nothing(store: Path) -> None:
    folder = [store / "bench"]
    arms = {key: arm for key, arm in read_ladder_arms(folder).items() if arm.depth == 1}
    assert ladder_findings(list(Store(folder[0]).read().values()), arms, {}, {}) == []
