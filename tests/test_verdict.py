"""From made-up results to verdicts, reports and stores."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
from made_up import result, study

from zoo import report
from zoo.errors import ZooError
from zoo.store import FILE, NOTHING_KNOWN, SUITES, Known, Store, best_factor, known, merged, remember
from zoo.table import show
from zoo.verdict import arms, compare, twins


@pytest.mark.parametrize(
    ("offset", "verdict"),
    [(-0.1, "better"), (0.1, "worse"), (0.0, "no difference shown"), (0.0005, "no difference shown")],
)
def test_verdicts(offset: float, verdict: str) -> None:
    (found,) = compare(study(offset))
    assert found.verdict == verdict
    assert found.difference.mean == pytest.approx(offset, abs=1e-9)


def test_pairing_matters() -> None:
    """Seeds differ far more than the method helps: only pairs show it."""
    (found,) = compare(study(-0.02))
    assert found.verdict == "better" and found.method.spread().deviation > 0.05


def test_a_leak_is_never_better() -> None:
    assert compare(study(-1.0, causal=False))[0].verdict == "leaks"
    assert compare(study(-1.0, alarm="too good"))[0].verdict == "leaks"


def test_divergence_is_a_result() -> None:
    results = study(-0.1)
    results[-1] = result("m", 3, None)
    assert compare(results)[0].verdict == "diverged"


def test_one_seed_gives_no_verdict() -> None:
    results = [result("baseline", 1, 3.0), result("m", 1, 2.0)]
    assert compare(results)[0].verdict == "one seed: no verdict"
    results[0] = result("baseline", 1, None)
    assert compare(results)[0].verdict == "no seed that both finished: no verdict"


def test_many_methods_are_corrected_together() -> None:
    """A difference that one question would show is not shown when it is one of forty."""
    results = study(-0.005, noise=(0.001, -0.001, 0.0005))
    alone = compare(results)[0]
    assert alone.verdict == "better"
    for i in range(40):
        results += [result(f"other{i}", s, 3.0 + s / 10 + (-1) ** s * 0.01) for s in (1, 2, 3)]
    together = next(c for c in compare(results) if c.name == "m")
    assert together.difference.p == alone.difference.p and together.verdict == "no difference shown"
    assert alone.detectable < 0.005 < together.detectable


def test_suites_are_corrected_apart() -> None:
    results = study(-0.005, noise=(0.001, -0.001, 0.0005))
    alone = compare(results)[0]
    for i in range(40):
        results += [result(f"other{i}", s, 3.0 + s / 10 + (-1) ** s * 0.01) for s in (1, 2, 3)]
    mine = Known({"m": "mine"}, {}, ())
    apart = next(c for c in compare(results, mine) if c.name == "m")
    assert apart.p_holm == alone.p_holm and apart.verdict == "better" and apart.suite == "mine"
    titles = [table.title for table in report.Report.of(results, mine).tables()]
    assert titles[:2] == [
        "Verdicts against the plain block, sequential host, 1,000 parameters, 100 tokens",
        "Verdicts against the plain block, suite mine, sequential host, 1,000 parameters, 100 tokens",
    ]


def test_a_plain_block_that_is_matched_already_is_asked_once() -> None:
    same = {"none": "baseline", "parameters": "baseline", "flops": "wider"}
    results = study(-0.1, baselines=same) + [
        result("baseline wider", s, 3.0, arm="wider", match="flops") for s in (1, 2)
    ]
    assert [c.match for c in compare(results)] == ["none", "flops"]


def test_a_store_remembers_its_suites(tmp_path: Path) -> None:
    assert known([tmp_path]) == NOTHING_KNOWN
    remember(tmp_path, "", {"m": {"none": "p"}, "z": {}}, [])
    remember(tmp_path, "b", {"m": {"flops": "f"}, "n": {}}, [("m", "n")])
    remember(tmp_path, "a", {"n": {"none": "p"}}, [])
    remember(tmp_path, "a", {"n": {"none": "q"}, "k": {}}, [("m", "n")])
    found = known([tmp_path])
    assert found.suites == {"m": "b", "n": "a", "k": "a", "z": ""}
    assert found.baselines == {"m": {"none": "p", "flops": "f"}, "n": {"none": "q"}, "k": {}, "z": {}}
    assert found.twins == (("m", "n"),)
    assert known([tmp_path / FILE]) == found


@pytest.mark.parametrize("text", ["{", "[]", '{"a": {"methods": []}}'])
def test_notes_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / SUITES).write_text(text)
    with pytest.raises(ZooError, match="suites.json cannot be read: move it away"):
        known([tmp_path])


def test_the_best_learning_rate_is_chosen_on_the_first_seed() -> None:
    runs = [result("m", 1, 3.0, lr_factor=f) for f in (0.5, 2.0)] + [result("m", 1, 2.5, lr_factor=1.0)]
    runs.append(result("m", 1, None, lr_factor=4.0))
    assert best_factor(runs) == 1.0
    assert [run.lr_factor for run in arms(runs + [result("m", 2, 2.6)])["m"].runs] == [1.0, 1.0]


def test_twins_are_noise() -> None:
    results = study(0.0) + [result("n", s, 3.0 + s / 10) for s in (1, 2, 3)]
    (found,) = twins(results, Known({}, {}, (("m", "n"),)))
    assert found.difference.mean == pytest.approx(0, abs=1e-9) and found.difference.n == 3


def test_store_appends_and_survives_a_torn_line(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(result("m", 1, 3.0))
    with (tmp_path / FILE).open("a") as file:
        file.write('3.5\n{"key": "half')
    store.append(result("m", 2, 3.5))
    store.append(result("m", 1, 3.0, test_loss=2.9))
    read = store.read()
    assert len(read) == 2 and read["m-1-1.0"].test_loss == 2.9
    assert len((tmp_path / FILE).read_text().splitlines()) == 5  # nothing was rewritten


def test_merged_stores_count_a_run_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Store(tmp_path / name).append(result("m", 1, 3.0))
    Store(tmp_path / "b").append(result("m", 2, 3.0))
    assert len(merged([tmp_path / "a", tmp_path / "b"])) == 2
    with pytest.raises(ZooError, match="results.jsonl"):
        merged([tmp_path])


def test_merged_stores_have_a_run_as_it_was_left_last(tmp_path: Path) -> None:
    early, late = {"ended": "2026-01-01T00:00:00+00:00"}, {"ended": "2026-02-01T00:00:00+00:00"}
    Store(tmp_path / "a").append(result("m", 1, 3.0, stamps=late))
    Store(tmp_path / "a").append(result("m", 2, 3.0, stamps=late))
    Store(tmp_path / "b").append(result("m", 1, 3.0, stamps=late, test_loss=None, tested=False))  # a copy from before
    Store(tmp_path / "b").append(result("m", 2, 9.0, stamps=early))
    assert [run.test_loss for run in merged([tmp_path / "a", tmp_path / "b"])] == [3.0, 3.0]
    assert sorted(run.test_loss for run in merged([tmp_path / "b", tmp_path / "a"])) == [3.0, 3.0]


def test_report_files(tmp_path: Path) -> None:
    found = report.Report.of(study(-0.1))
    report.write(found, tmp_path)
    text, page = (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()
    assert "better" in text and "| m |" in text and "<svg" in page and "better" in page
    drawn = re.findall(r"!\[.*\]\((.+)\)", text)
    assert len(drawn) == 6 and all((tmp_path / file).read_text().startswith("<svg") for file in drawn)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard" / "report"))
    events.Reload()
    assert events.Tags()["images"] and events.Tags()["tensors"]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 7  # the report and six runs
    report.write(found, tmp_path)  # again: nothing is doubled
    assert len(list((tmp_path / "tensorboard" / "report").iterdir())) == 1


def test_comparison_with_an_earlier_report() -> None:
    table = report.changes(report.Report.of(study(-0.1)), report.Report.of(study(0.1)))
    assert "worse" in table.rows[0][3] and "better" in table.rows[0][4]


def test_losses_prefer_the_test_split() -> None:
    assert result("m", 1, 3.0, test_loss=2.0).loss == 2.0
    assert result("m", 1, 3.0, test_loss=None).loss == 3.0
    assert math.isnan(result("m", 1, None).loss)


def test_results_are_plain_json(tmp_path: Path) -> None:
    Store(tmp_path).append(result("m", 1, 3.0))
    row = json.loads((tmp_path / FILE).read_text())
    assert row["name"] == "m" and row["curve"][1] == [10, 100, 1.0, 3.0]


def test_the_time_of_a_method_is_not_that_of_other_work_on_the_machine() -> None:
    """A run that was slowed most of the time has the speed of the stretches in which it was not."""
    whole = [(i, 100 * i, float(i), 3.0) for i in range(30)]
    slowed = [(i, 100 * i, i + 5.0 * min(i, 20), 3.0) for i in range(30)]
    for points in (whole, slowed):
        assert arms([result("m", 1, 3.0, training=points)])["m"].speed == pytest.approx(100.0)


def test_arms_are_compared_on_one_split() -> None:
    """A bench that was interrupted leaves arms that have not been on the test split: then validation tells, and it says so."""
    tested = [result("baseline", seed, 3.0, test_loss=9.0) for seed in (1, 2, 3)]
    rest = [result("m", seed, 2.9 + seed / 1000, test_loss=None) for seed in (1, 2, 3)]
    (found,) = compare([*tested, *rest])
    assert found.provisional and found.split == "validation"
    assert found.difference.mean == pytest.approx(-0.098)
    assert "3 (validation)" in report.verdicts([found]).markdown()
    (found,) = compare([*tested, *(result("m", seed, 2.9, test_loss=8.9) for seed in (1, 2, 3))])
    assert not found.provisional and found.difference.mean == pytest.approx(-0.1)
    half = [result("m", 1, 2.9, test_loss=8.9), result("m", 2, 2.9, test_loss=None)]
    assert compare([*tested, *half])[0].provisional


def test_an_arm_that_diverged_altogether_waits_for_no_split() -> None:
    plain = [result("baseline", seed, 3.0) for seed in (1, 2, 3)]
    (found,) = compare([*plain, *(result("m", seed, None) for seed in (1, 2, 3))])
    assert found.verdict == "diverged" and not found.provisional and found.split == "test"


def test_the_baseline_may_be_the_one_that_has_not_been_on_the_test_split() -> None:
    plain = [result("baseline", seed, 3.0, test_loss=None) for seed in (1, 2, 3)]
    (found,) = compare([*plain, *(result("m", seed, 2.9, test_loss=8.9) for seed in (1, 2, 3))])
    assert found.provisional and found.difference.mean == pytest.approx(-0.1)


# --- what may be compared


def test_both_arms_have_the_same_choice_of_learning_rates() -> None:
    """A baseline that was tuned for another bench is taken at a rate that the method was given too."""
    rates = {0.5: -1.0, 1.0: 0.0}
    plain = [result("baseline", s, 3.0 + d + s / 10, lr_factor=f) for f, d in rates.items() for s in (1, 2, 3)]
    method = [result("m", s, 2.9 + s / 10 + s / 1000) for s in (1, 2, 3)]
    (found,) = compare(plain + method)
    assert found.baseline.first.lr_factor == 1.0 and found.verdict == "better"
    tried = [result("m", 1, 5.0, lr_factor=0.5)]
    (found,) = compare(plain + method + tried)
    assert found.baseline.first.lr_factor == 0.5 and found.verdict == "worse"
    assert compare(plain[:3] + method) == []  # nothing in common yet


def test_runs_from_before_a_default_changed_do_not_count() -> None:
    results = [result("baseline", s, 3.0 + s / 10, settings={"a": "1", "train.seed": str(s)}) for s in (1, 2, 3)]
    results += [result("m", s, 2.9 + s / 10, settings={"a": "1" if s < 3 else "0"}) for s in (3, 1, 2)]
    assert compare(results)[0].difference.n == 2
    assert arms(results)["baseline"].spread().n == 3


def test_arms_that_read_another_text_are_not_compared() -> None:
    assert compare(study(-0.1, corpus="y")) == []


def test_sizes_are_judged_apart() -> None:
    """One method in two sizes: each against its own plain block, neither in the other's family."""
    large = {"arm": "large m", "baselines": {"none": "large"}, "parameters": 9000}
    results = study(-0.1) + [result("baseline", s, 2.0 + s / 10, arm="large", parameters=9000) for s in (1, 2, 3)]
    results += [result("m", s, 2.1 + s / 10 + s / 1000, key=f"large {s}", **large) for s in (1, 2, 3)]
    results = [r if r.arm != "large" else dataclasses.replace(r, key=f"plain {r.seed}") for r in results]
    small, wide = compare(results, Known({"m": "a", "large m": "a"}, {}, ()))
    assert (small.verdict, wide.verdict) == ("better", "worse")
    assert small.p_holm == small.difference.p and wide.p_holm == wide.difference.p
    titles = [table.title for table in report.Report.of(results).tables()]
    assert sum("9,000 parameters" in title for title in titles) == 1


def test_a_baseline_that_was_asked_for_later_is_compared() -> None:
    later = [result("baseline wide", s, 2.0, arm="wide", match="parameters", parameters=1010) for s in (1, 2, 3)]
    noted = Known({}, {"m": {"parameters": "wide"}}, ())
    none, wide = compare(study(-0.1) + later, noted)
    assert (none.match, wide.match, wide.verdict) == ("none", "parameters", "worse")
    assert wide.off_by == pytest.approx(0.01) and none.off_by == 0
    assert "+1.000%" in report.verdicts([wide]).markdown()


def test_seeds_that_diverged_are_told(tmp_path: Path) -> None:
    results = study(-0.1)
    results[2] = result("baseline", 3, None, curve=[], training=[(5, 50, 0.5, 4.1)])
    results += [result("n", s, None, curve=[], training=[]) for s in (1, 2, 3)]
    found = report.Report.of(results)
    table = report.verdicts(found.comparisons)
    assert [row[:4] for row in table.rows] == [
        ("m", "2 (baseline diverged on 1)", "3.0495", "3.1500"),  # the mean of the seeds that both have
        ("n", "0 (method diverged on 3, baseline diverged on 1)", "–", "–"),
    ]
    report.write(found, tmp_path)


def test_a_report_on_some_arms_is_corrected_as_the_whole() -> None:
    results = study(-0.005, noise=(0.001, -0.001, 0.0005))
    for i in range(40):
        results += [result(f"other{i}", s, 3.0 + s / 10 + (-1) ** s * 0.01) for s in (1, 2, 3)]
    some = report.Report.of(results).only({"m", "baseline"})
    assert [c.verdict for c in some.comparisons] == ["no difference shown"] and len(some.arms) == 2


def test_what_leaks_or_diverges_is_no_question_for_the_losses() -> None:
    alone = compare(study(-0.1))[0]
    results = study(-0.1) + [result("leak", s, 1.0 + s / 10, causal=False) for s in (1, 2, 3)]
    results += [result("gone", s, None if s == 1 else 3.0) for s in (1, 2, 3)]
    found = {c.name: c for c in compare(results)}
    assert found["m"].p_holm == alone.p_holm and found["m"].detectable == alone.detectable
    assert [found[name].verdict for name in ("leak", "gone")] == ["leaks", "diverged"]
    assert math.isnan(found["leak"].p_holm) and math.isnan(found["gone"].p_holm)


# --- what a report does to a folder and a terminal


def test_a_report_takes_away_only_what_an_earlier_one_wrote(tmp_path: Path) -> None:
    mine = [tmp_path / "figures" / "mine.svg", tmp_path / "tensorboard" / "my" / "events.out.tfevents.1"]
    mine.append(tmp_path / "tensorboard" / "notes.txt")
    for file in mine:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    report.write(report.Report.of([r for r in study(-0.1, key="0123456789") if r.seed < 3]), tmp_path)
    before = set((tmp_path / "figures").iterdir()) | set((tmp_path / "tensorboard").iterdir())
    report.write(report.Report.of([dataclasses.replace(r, host="parallel") for r in study(-0.1)]), tmp_path)
    after = set((tmp_path / "figures").iterdir()) | set((tmp_path / "tensorboard").iterdir())
    assert all(file.read_text() == "mine" for file in mine)
    assert not [path for path in before & after if "sequential" in path.name and "baseline" not in path.name]


@pytest.mark.parametrize(("columns", "told"), [(80, False), (200, True)])
def test_a_verdict_can_be_read_on_any_terminal(
    columns: int, told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show([report.verdicts(report.Report.of(study(-0.1)).comparisons)])
    out = capsys.readouterr().out
    assert "-0.1000" in out and "better" in out and "…" in out  # of the interval
    assert ("could show" in out) == told and ("more columns where there is more room" in out) != told


def test_places_that_look_alike_are_told_apart() -> None:
    """The same method at another learning rate of its own: two tables, two rows beside an earlier report."""
    other = [
        dataclasses.replace(
            r, key=f"{r.key} other", arm=f"{r.arm} other", baselines=dict.fromkeys(r.baselines, "baseline other")
        )
        for r in study(0.1)
    ]
    found = report.Report.of(study(-0.1) + other)
    titles = [table.title for table in found.tables() if table.title.startswith("Verdicts")]
    assert len(set(titles)) == 2 and all(title.endswith(("arm baseline", "arm baseline other")) for title in titles)
    rows = report.changes(found, found).rows
    assert [row[3] == row[4] for row in rows] == [True, True] and rows[0][3] != rows[1][3]


def test_a_run_that_diverges_was_to_be_trained_as_long_as_the_others() -> None:
    whole = {"settings": {"train.steps": "10"}}
    results = [result("baseline", s, 3.0, **whole) for s in (1, 2)]
    results += [result("m", s, None, steps=5, tokens=50, **whole) for s in (1, 2)]
    assert {arm.spent.trained for arm in arms(results).values()} == {100}
