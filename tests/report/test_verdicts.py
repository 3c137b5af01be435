"""From made-up results to verdicts."""

from __future__ import annotations

import dataclasses
import math

import pytest
from helpers.made_up_results import result, study

from zoo.bench.ladder_notes import LadderArm
from zoo.bench.store import Result
from zoo.bench.suite_notes import NO_NOTES, SuiteNotes
from zoo.report.arm_results import arms
from zoo.report.cell_texts import caveats
from zoo.report.findings import Findings
from zoo.report.legend import introduction
from zoo.report.remarks import disagreements
from zoo.report.tables import tables, verdict_table
from zoo.report.trained import early_loss
from zoo.report.twins import twins
from zoo.report.undecided import undecided_methods
from zoo.report.verdict_words import DECIDED_BY_LOSS, VOID, WORDS
from zoo.report.verdicts import compare


@pytest.mark.parametrize(
    ("offset", "verdict"),
    [(-0.1, "better"), (0.1, "worse"), (0.0, "open"), (0.005, "open")],
)
def test_verdicts(offset: float, verdict: str) -> None:
    (found,) = compare(study(offset, noise=(0.01, -0.02, 0.01)))
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
    assert compare(results)[0].verdict == "open"
    results[0] = result("baseline", 1, None)
    assert compare(results)[0].verdict == "open"


def others(count: int) -> list[Result]:
    """Methods without a difference, whose runs lie apart as those of `study` do."""
    noise = (0.01, -0.01, 0.005)
    return [result(f"other{i}", s, 3.0 + s / 10 + noise[(s + i) % 3]) for i in range(count) for s in (1, 2, 3)]


def test_many_methods_are_corrected_together() -> None:
    """One of forty questions needs a larger difference, and has a variance from all of them."""
    study_of_one = study(-0.018, noise=(0.01, -0.01, 0.005))
    alone = compare(study_of_one)[0]
    assert alone.p_adjusted == alone.difference.p
    together = next(c for c in compare(study_of_one + others(40)) if c.name == "m")
    assert together.difference.degrees > alone.difference.degrees == pytest.approx(2)
    assert together.p_adjusted > 4 * together.difference.p and together.verdict == "open"
    assert together.own_level < 0.01 < alone.own_level == 0.05


def test_suites_are_judged_apart() -> None:
    results = study(-0.05, noise=(0.01, -0.01, 0.005))
    alone = compare(results)[0]
    mine = SuiteNotes({"m": "mine"}, {}, ())
    apart = next(c for c in compare(results + others(40), mine) if c.name == "m")
    assert (apart.difference, apart.p_adjusted, apart.suite) == (alone.difference, alone.p_adjusted, "mine")
    titles = [table.title for table in tables(Findings.of(results + others(2), mine))]
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


def test_twins_are_noise() -> None:
    results = study(0.0) + [result("n", s, 3.0 + s / 10) for s in (1, 2, 3)]
    (found,) = twins(results, SuiteNotes({}, {}, (("m", "n"),)))
    assert found.difference.mean == pytest.approx(0, abs=1e-9) and found.difference.n == 3


def test_losses_prefer_the_test_split() -> None:
    assert result("m", 1, 3.0, test_loss=2.0).loss == 2.0
    assert result("m", 1, 3.0, test_loss=None).loss == 3.0
    assert math.isnan(result("m", 1, None).loss)


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
    assert "3 (validation)" in verdict_table([found]).markdown()
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
    small, wide = compare(results, SuiteNotes({"m": "a", "large m": "a"}, {}, ()))
    assert (small.verdict, wide.verdict) == ("better", "worse")
    assert small.p_adjusted == small.difference.p and wide.p_adjusted == wide.difference.p
    titles = [table.title for table in tables(Findings.of(results))]
    assert sum("9,000 parameters" in title for title in titles) == 1


def test_a_baseline_that_was_asked_for_later_is_compared() -> None:
    later = [result("baseline wide", s, 2.0, arm="wide", match="parameters", parameters=1010) for s in (1, 2, 3)]
    noted = SuiteNotes({}, {"m": {"parameters": "wide"}}, ())
    none, wide = compare(study(-0.1) + later, noted)
    assert (none.match, wide.match, wide.verdict) == ("none", "parameters", "worse")
    assert wide.off_by == pytest.approx(0.01) and none.off_by == 0
    assert "+1.000%" in verdict_table([wide]).markdown()


def test_what_leaks_or_diverges_is_no_question_for_the_losses() -> None:
    alone = compare(study(-0.1))[0]
    results = study(-0.1) + [result("leak", s, 1.0 + s / 10, causal=False) for s in (1, 2, 3)]
    results += [result("gone", s, None if s == 1 else 3.0) for s in (1, 2, 3)]
    found = {c.name: c for c in compare(results)}
    assert found["m"].p_adjusted == alone.p_adjusted and found["m"].detectable == alone.detectable
    assert [found[name].verdict for name in ("leak", "gone")] == ["leaks", "diverged"]
    assert math.isnan(found["leak"].p_adjusted) and math.isnan(found["gone"].p_adjusted)


def test_a_run_that_diverges_was_to_be_trained_as_long_as_the_others() -> None:
    whole = {"settings": {"train.steps": "10"}}
    results = [result("baseline", s, 3.0, **whole) for s in (1, 2)]
    results += [result("m", s, None, steps=5, tokens=50, **whole) for s in (1, 2)]
    assert {arm.spent.trained for arm in arms(results).values()} == {100}


@pytest.mark.parametrize(("loss", "verdict"), [(5.9, "worse"), (5.999, "did not train"), (6.3, "did not train")])
def test_a_loss_that_is_not_clearly_below_the_unigram_entropy(loss: float, verdict: str) -> None:
    """6.0 in these runs, whose seeds lie 0.003 apart."""
    plain = [result("baseline", s, 3.0 + s / 1000) for s in (1, 2, 3)]
    (found,) = compare([*plain, *(result("m", s, loss + s * 0.003) for s in (1, 2, 3))])
    assert found.verdict == verdict


def test_a_loss_that_the_plain_block_had_at_a_tenth_of_its_tokens() -> None:
    curve = [(1, 5, 0.1, 5.5), (2, 20, 0.2, 4.5), (10, 100, 1.0, 3.0)]
    plain = [result("baseline", s, 3.0 + s / 1000, training=curve) for s in (1, 2, 3)]
    for loss, verdict in (
        (4.9, "worse"),
        (5.1, "did not train"),
    ):  # half way between 5 and 20 tokens on a log scale: 5.0
        (found,) = compare([*plain, *(result("m", s, loss + s / 1000) for s in (1, 2, 3))])
        assert found.verdict == verdict
    assert early_loss(arms(plain)["baseline"].finished) == pytest.approx(5.0)


def test_what_did_not_train_is_not_in_the_model() -> None:
    alone = next(c for c in compare(study(-0.05) + others(5)) if c.name == "m")
    results = study(-0.05) + others(5) + [result("dead", s, 6.3 + s) for s in (1, 2, 3)]
    found = {c.name: c for c in compare(results)}
    assert found["dead"].verdict == "did not train" and found["dead"].difference.mean == pytest.approx(5.1)
    assert (found["m"].difference, found["m"].p_adjusted) == (alone.difference, alone.p_adjusted)


def test_the_known_harm_of_a_ladder_is_judged_and_not_in_the_model() -> None:
    """Its seeds may differ by a nat, which says nothing of the others'."""
    harm = [result("harm", s, 3.6 + s / 5) for s in (1, 2, 3)]
    noted = LadderArm(
        ladder="l", name="l", host="sequential", margin=0.02, depth=2, parameters=1, tokens=1, label="harm", role="harm",
        arm="harm", factor=1.0, seeds=[1, 2, 3], charged=1.0,
    )  # fmt: skip
    results = study(-0.05) + others(5) + harm
    alone = next(c for c in compare(study(-0.05) + others(5)) if c.name == "m")
    found = {c.name: c for c in compare(results, NO_NOTES._replace(ladder_arms={("l", 2, "harm"): noted}))}
    assert found["harm"].verdict == "worse" and found["m"].difference == alone.difference
    assert found["m"].p_adjusted > alone.p_adjusted  # it is a question all the same
    assert next(c for c in compare(results) if c.name == "m").difference != alone.difference


def test_loss_and_accuracy_may_disagree() -> None:
    noise = (0.001, -0.001, 0.0005)
    right = [result("m", s, 3.2 + noise[s - 1], accuracy=0.12 + noise[s - 1] / 10) for s in (1, 2, 3)]
    plain = [result("baseline", s, 3.0 + noise[-s], accuracy=0.1 + noise[-s] / 10) for s in (1, 2, 3)]
    report = Findings.of(plain + right)
    (found,) = report.comparisons
    assert found.verdict == "worse" and found.accuracy.low > 0 and found.disagrees()
    assert "Loss and accuracy disagree" in [table.title for table in tables(report)]
    said = disagreements(report)
    assert said and "a higher loss and a better accuracy: m." in said.text
    agreeing = Findings.of(plain + [result("m", s, 3.2 + noise[s - 1], accuracy=0.08) for s in (1, 2, 3)])
    assert not agreeing.comparisons[0].disagrees() and disagreements(agreeing) is None


def test_a_learning_rate_is_chosen_on_a_seed_that_is_not_judged() -> None:
    tuning = [result(name, 0, 2.0, lr_factor=f) for name in ("m", "baseline") for f in (0.5, 1.0)]
    (found,) = compare([*study(-0.1), *tuning[1::2]])
    assert found.difference.n == found.difference.n_other == 3  # of seeds 1 to 3 alone
    chosen = [result("m", 0, 1.0, lr_factor=0.5), result("m", 1, 9.0, lr_factor=0.5), *tuning]
    assert arms(chosen)["m"].runs[0].valid_loss == 9.0 and "baseline" not in arms(chosen)  # which only has its rate
    old = study(-0.1) + [result(name, 1, 5.0, lr_factor=0.5) for name in ("m", "baseline")]
    (found,) = compare(old)
    assert "rate chosen on a test seed" in caveats(found) and not caveats(compare(study(-0.1))[0])


def test_an_early_look_asks_for_more() -> None:
    runs = study(-0.05, noise=(0.012, -0.012, 0.0))
    plain, planned = SuiteNotes({"m": "a"}, {}, ()), SuiteNotes({"m": "a"}, {}, (), looks={"a": (3, 5, 8)})
    assert compare(runs, plain)[0].verdict == "better"
    (found,) = compare(runs, planned)
    assert found.verdict == "open" and found.levels.different == pytest.approx(0.00137, abs=1e-5)
    assert found.detectable > compare(runs, plain)[0].detectable


def test_which_methods_go_on() -> None:
    """One is decided, one looks hopeless, one may still be shown."""
    notes = SuiteNotes(dict.fromkeys(("shown", "none", "maybe"), "a"), {}, (), looks={"a": (3, 5, 8)})
    noise = (0.01, -0.01, 0.004)
    runs = [result("baseline", s, 3.0 + noise[s - 1]) for s in (1, 2, 3)]
    for name, offset in (("shown", -1.0), ("none", 0.0005), ("maybe", 0.02)):
        runs += [result(name, s, 3.0 + offset + noise[(s + len(name)) % 3]) for s in (1, 2, 3)]
    verdicts = {c.name: c.verdict for c in compare(runs, notes)}
    assert verdicts == {"shown": "better", "none": "open", "maybe": "open"}
    assert undecided_methods(runs, notes, {"shown", "none", "maybe"}) == {"maybe"}
    assert undecided_methods(runs, notes, {"shown"}) == set()
    eight = [dataclasses.replace(r, seed=r.seed + k, key=f"{r.key} {k}") for r in runs for k in (0, 3, 6)]
    assert undecided_methods(eight, notes, {"maybe"}) == set()  # the last look is over


def test_every_word_of_a_verdict_is_explained() -> None:
    text = introduction(Findings.of(study(-0.1)))
    assert all(f"*{word}*: " in text for word in WORDS)
    assert set(VOID) | set(DECIDED_BY_LOSS) == set(WORDS)
