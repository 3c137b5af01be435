"""What a reader must know beside the verdicts: sentences on the first screens, marks beside rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import pytest
from helpers.made_up_ladder import MadeUp, made_up_ladder
from helpers.made_up_results import result, study

from zoo.bench.store import Result
from zoo.bench.suite_notes import NO_NOTES
from zoo.report.archive_page import archive_page
from zoo.report.conditions import conditions
from zoo.report.findings import Findings
from zoo.report.html_report import html_report
from zoo.report.legend import legend
from zoo.report.method_pages import method_pages
from zoo.report.overview import MARKS, Remark, answers, marks_text, names_text, overview_table, trust
from zoo.report.pages import markdown
from zoo.report.remarks import one_optimizer_only, remarks
from zoo.report.results_page import results_page
from zoo.report.standings import standings


def first_screens(report: Findings) -> list[str]:
    """Every page's text before its long tables."""
    rows = standings(report)
    pages = results_page(report, rows, [], {}, []), markdown(report), html_report(report)
    ends = ("## How sure", "## Verdicts", "<h2>All tables")
    return [page.partition(end)[0] for page, end in zip(pages, ends, strict=True)]


def test_loss_and_accuracy_that_disagree_are_on_every_first_screen() -> None:
    runs = [dataclasses.replace(run, accuracy=0.1 + (run.name == "m") / 10 + run.seed / 1e6) for run in study(0.1)]
    report = Findings.of(runs)
    said = "Loss and accuracy disagree, both beyond their 95 % intervals: a higher loss and a better accuracy: m."
    short = "loss and accuracy disagree: m"
    assert remarks(report) == [Remark(short, said)]
    rows = standings(report)
    whole = results_page(report, rows, [], {}, []), markdown(report), html_report(report)
    for page in (*whole, archive_page(report, "RESULTS.md")):
        assert page.count(said) == page.count(short) == 1 and page.index(short) < page.index("How sure") < page.index(
            said
        )
    assert remarks(Findings.of(study(0.1))) == []


# --- optimisers


def under(optimizer: str, results: Iterable[Result]) -> list[Result]:
    """These results as if this optimiser had trained them, in arms of their own."""
    return [
        dataclasses.replace(
            run,
            key=f"{run.key} {optimizer}",
            arm=f"{run.arm} {optimizer}",
            baselines={kind: f"{arm} {optimizer}" for kind, arm in run.baselines.items()},
            settings={"train.optimizer": repr(optimizer)},
        )
        for run in results
    ]


def test_a_gain_that_dies_under_another_optimizer_is_said() -> None:
    report = Findings.of([*under("adamw", study(-0.1)), *under("muon", study(0.0))])
    said = (
        "A gain that depends on the optimiser, at the same sizes:"
        " m (sequential host: better under adamw, the same under muon)."
    )
    short = "a gain that depends on the optimiser: m"
    assert one_optimizer_only(report) == Remark(short, said)
    rows = standings(report)
    for page in (results_page(report, rows, [], {}, []), markdown(report), html_report(report)):
        assert page.count(said) == page.count(short) == 1
    table = overview_table(standings(report))
    assert {(row[1], row[-1]) for row in table.rows} == {
        ("better", "sequential, adamw"),
        ("the same", "sequential, muon"),
    }


@pytest.mark.parametrize("optimizers", [("adamw", "muon"), ("one", "another")])
def test_a_gain_under_every_optimizer_is_not_said(optimizers: tuple[str, str]) -> None:
    assert one_optimizer_only(Findings.of([run for each in optimizers for run in under(each, study(-0.1))])) is None


def test_other_sizes_hosts_and_unknown_optimizers_are_not_compared() -> None:
    longer = [dataclasses.replace(run, tokens=200) for run in study(0.0)]
    assert one_optimizer_only(Findings.of([*under("adamw", study(-0.1)), *under("muon", longer)])) is None
    parallel = [dataclasses.replace(run, host="parallel") for run in study(0.0)]
    assert one_optimizer_only(Findings.of([*under("adamw", study(-0.1)), *under("muon", parallel)])) is None
    assert one_optimizer_only(Findings.of([*study(-0.1), *under("muon", study(0.0))])) is None


def ladder_under(optimizer: str, made: MadeUp) -> MadeUp:
    """A made-up ladder as if this optimiser had trained it."""
    arms = {
        (f"{key} {optimizer}", depth, label): dataclasses.replace(
            arm, ladder=f"{key} {optimizer}", arm=f"{arm.arm} {optimizer}"
        )
        for (key, depth, label), arm in made.notes.ladder_arms.items()
    }
    return MadeUp(under(optimizer, made.results), NO_NOTES._replace(ladder_arms=arms))


def test_two_ladders_of_one_name_are_told_apart_by_their_optimizers() -> None:
    one = ladder_under("adamw", made_up_ladder({"v1_m4": 1.2, "v1_m3": 1.2}))
    other = ladder_under("muon", made_up_ladder({"v1_m4": 0.85, "v1_m3": 1.2}))
    notes = NO_NOTES._replace(ladder_arms={**one.notes.ladder_arms, **other.notes.ladder_arms})
    report = Findings.of([*one.results, *other.results], notes)
    said = one_optimizer_only(report)
    assert said and said.text.endswith(": v1_m4 (sequential host: helps, not in time under adamw, hurts under muon).")
    page = next(page for page in method_pages(report, standings(report)) if page.name == "v1_m4")
    assert [part.heading for part in page.parts[:2]] == [
        "Sequential host, adamw, ladder small: helps, not in time",
        "Sequential host, muon, ladder small: hurts",
    ]
    curves = [chart.series[1].ys[-1] for part in page.parts[:2] for chart in part.charts if chart.name == "curves"]
    assert len(curves) == 2 and curves[0] < curves[1], "the curves of one ladder stand under the other"


# --- learning rates


def with_rates(ours: Sequence[float], plain: Sequence[float], best: float = 1.0) -> Findings:
    """A study in which these multiples of the learning rate were tried on the tuning seed; of the method's this is the best."""
    tuning = [
        result(name, 0, 3.0 + abs(factor - (best if name == "m" else 1.0)) / 100, lr_factor=factor)
        for name, factors in (("m", ours), ("baseline", plain))
        for factor in factors
    ]
    judged = [dataclasses.replace(run, lr_factor=best if run.name == "m" else 1.0) for run in study(-0.1)]
    return Findings.of([*tuning, *judged])


@pytest.mark.parametrize(
    ("ours", "plain", "best", "marks"),
    [
        ((0.5, 1.0, 2.0), (0.5, 1.0, 2.0), 1.0, ""),
        ((0.5, 1.0, 2.0), (0.5, 1.0, 2.0), 0.5, " †"),
        ((0.5, 1.0, 2.0), (0.5, 1.0, 2.0), 2.0, " †"),
        ((0.5, 1.0, 2.0), (0.25, 0.5, 1.0, 2.0), 1.0, " ‡"),
        ((0.5, 1.0), (0.5, 1.0, 2.0), 0.5, " †‡"),
        ((0.25, 0.5, 1.0, 2.0), (0.5, 1.0, 2.0), 1.0, ""),
        ((1.0,), (1.0,), 1.0, ""),
    ],
)
def test_learning_rates_that_say_little_are_marked(
    ours: Sequence[float], plain: Sequence[float], best: float, marks: str
) -> None:
    report = with_rates(ours, plain, best)
    (row,) = standings(report)
    assert overview_table([row]).rows[0][1] == f"better{marks}"
    explained = marks_text([row])
    assert [mark in explained for mark in MARKS] == [mark in marks for mark in MARKS]
    (page,) = method_pages(report, [row])
    said = " ".join(line for part in page.parts if part.heading == "Learning rates" for line in part.paragraphs)
    assert ("one beyond may be better" in said, "fewer rates" in said) == ("†" in marks, "‡" in marks)
    assert all((page.count(explained) == 1) == bool(marks) for page in first_screens(report) if explained)
    assert (f'class="mark" title="{MARKS["†"]}">†</abbr>' in html_report(report)) == ("†" in marks)


def test_a_page_names_the_rates() -> None:
    report = with_rates((0.5, 1.0), (0.5, 1.0, 2.0), 0.5)
    (page,) = method_pages(report, standings(report))
    (part,) = (part for part in page.parts if part.heading == "Learning rates")
    assert part.paragraphs == (
        "† sequential host, 1 k parameters: its best rate, × 0.5, is the lowest of those tried (× 0.5 × 1); one beyond may be"
        " better.",
        "‡ sequential host, 1 k parameters: fewer rates were tried for it (× 0.5 × 1) than for the plain block (× 0.5 × 1 × 2).",
    )
    assert MARKS.items() <= dict(legend(report)).items()


# --- sizes


def growing_ladder(small: float, large: float) -> Findings:
    """A ladder on which κ of v1_m3 is one at the two smaller sizes and another at the largest."""
    made, other = (made_up_ladder({"v1_m3": kappa, "v1_m4": 1.0}) for kappa in (small, large))
    at_top = {run.key: run for run in other.results if run.arm == "sequential 4 v1_m3"}
    return Findings.of([at_top.get(run.key, run) for run in made.results], made.notes)


def test_a_kappa_that_grows_with_compute_is_said() -> None:
    report = growing_ladder(0.7, 1.1)
    (row,) = (row for row in report.ladders[0].rows if row.label == "v1_m3")
    ((short, said),) = remarks(report)
    assert short == "κ grows with compute: v1_m3"
    kappas = " → ".join(f"{math.exp(at.compute.log.value):.2f}" for at in row.rungs)
    assert row.verdict == "hurts" and said.endswith(
        f"from the smallest size to the largest: v1_m3 ({kappas}, sequential host)."
    )
    assert remarks(growing_ladder(1.1, 1.3)) == []  # it helps anyway
    assert remarks(growing_ladder(0.7, 0.7)) == remarks(growing_ladder(1.0, 0.7)) == []


# --- what κ rests on, and what it is made of


def test_it_is_said_what_kappa_rests_on() -> None:
    made = made_up_ladder({"v1_m4": 1.15, "v1_m3": 1.0})
    three = trust(made.findings.ladders)
    assert "a quadratic through the plain block's losses at 3 sizes" in three and "of the test split" in three
    assert three.startswith("A ladder trains the plain block and every method at several sizes, its rungs")
    assert "No verdict is corrected for 2 methods" in three and "95 % intervals of one method at a time" in three
    arms = {key: arm for key, arm in made.notes.ladder_arms.items() if key[1] < 4}
    untested = [dataclasses.replace(run, test_loss=None) for run in made.results]
    two = trust(Findings.of(untested, made.notes._replace(ladder_arms=arms)).ladders)
    assert "a straight line through two sizes, by which an e-fold of compute is worth 0.2" in two
    assert "Losses are those of the validation split" in two
    assert "corrected" not in trust(made_up_ladder({"v1_m4": 1.15}).findings.ladders)


def test_it_is_said_which_rungs_kappa_data_is_of() -> None:
    (ladder,) = made_up_ladder({"v1_m4": 1.15}).findings.ladders
    small, *others = ladder.rungs
    one = ladder._replace(rungs=(small._replace(data_slope=0.3), *others))
    assert "κ_data is of rung 1 alone, where the plain block was run with other budgets" in trust([one])
    whole = ladder._replace(rungs=tuple(rung._replace(data_slope=0.3) for rung in ladder.rungs))
    assert "κ_data is of" not in trust([ladder]) + trust([whole])


def test_a_method_that_hurts_at_a_lower_loss_is_said_to() -> None:
    made = made_up_ladder({"v1_m4": 1.1, "v1_m3": 0.8})
    # Four tenths more FLOPs per token than the plain block: 1.1 becomes 0.78.
    arms = {
        key: dataclasses.replace(arm, charged=1.4 * arm.charged) if arm.label == "v1_m4" else arm
        for key, arm in made.notes.ladder_arms.items()
    }
    report = Findings.of(made.results, made.notes._replace(ladder_arms=arms))
    rows = {row.name: row for row in standings(report) if row.role == "method"}
    assert rows["v1_m4"].verdict == rows["v1_m3"].verdict == "hurts"
    assert rows["v1_m4"].by_its_flops and not rows["v1_m3"].by_its_flops
    (hurting,) = answers(list(rows.values()))
    assert "v1_m4 (0.78, by its FLOPs)" in names_text(hurting.standings) and "v1_m3 (0.80)" in names_text(
        hurting.standings
    )
    cells = {row[0]: row[1] for row in overview_table(list(rows.values())).rows}
    assert cells == {"v1_m3": "hurts", "v1_m4": "hurts (by its FLOPs: its loss is 0.019 lower)"}
    assert html_report(report).count("<small> by its FLOPs: its loss is 0.0") == 1
    page = next(page for page in method_pages(report, standings(report)) if page.name == "v1_m4")
    assert "below 1; by its FLOPs" in page.parts[0].paragraphs[0]


# --- how many runs


def test_runs_that_chose_rates_and_replaced_ones_are_counted_apart() -> None:
    tuning = [
        result(name, 0, 3.0 + f / 100, lr_factor=f, seconds=1800.0) for name in ("baseline", "m") for f in (0.5, 1.0)
    ]
    alone = [result("never judged", 0, 3.0, seconds=1800.0)]
    judged = [dataclasses.replace(run, lr_factor=0.5, seconds=600.0) for run in study(0.0)]
    said = "6 runs that are judged and 5 that chose learning rates, 3.5 hours of training; plain models of"
    assert conditions(Findings.of([*tuning, *alone, *judged])).startswith(said)
    older = [result("m", s, 3.0, key=f"old {s}", corpus="older") for s in (1, 2)]
    assert "6 runs that are judged, 5 that chose learning rates and 2 that newer ones replace" in conditions(
        Findings.of([*older, *tuning, *alone, *judged])
    )
    assert conditions(Findings.of(study(0.0))).startswith("6 runs that are judged, 0.0 hours")
