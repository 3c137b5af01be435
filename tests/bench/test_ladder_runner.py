"""Ladders whose runs only pretend: in which order, nothing twice, going on, growing, looking, predicting."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.pretend_ladder import LADDER, SETTINGS, LadderLauncher

from zoo.bench.ladder_jobs import at_look, planned_jobs
from zoo.bench.ladder_notes import LadderArm, note_arms, read_ladder_arms, read_predictions
from zoo.bench.ladder_plan import OWN_RATE, LadderPlan, Member, Rung, plan_ladder
from zoo.bench.ladder_runner import run_ladder
from zoo.bench.launch import TRAIN, Failure, Task
from zoo.bench.missing import missing_runs
from zoo.bench.store import Store

LOOKS = ["ladder.looks = (2, 3)"]


@pytest.fixture
def ladder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("zoo.bench.freshness.corpus_fingerprint", lambda arm: "x")
    (tmp_path / "small.gin").write_text(LADDER)
    return str(tmp_path / "small.gin")


class Judge:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self, settled: Mapping[str, str] = {}, stopped: Mapping[str, str] = {}) -> None:
        self.answers, self.out = settled, stopped
        self.asked: list[str] = []
        self.runs_before_prediction = -1
        self.launcher: LadderLauncher | None = None

    def settled(self, ladder: str) -> Mapping[str, str]:
        self.asked.append("settled")
        return self.answers

    def stopped(self, ladder: str) -> Mapping[str, str]:
        return self.out

    def predict(self, ladder: str, rung: Rung, members: Sequence[Member]) -> None:
        assert self.launcher is not None
        self.asked.append(f"predict {rung.number}")
        self.runs_before_prediction = len(trained(self.launcher))


def trained(launcher: LadderLauncher) -> list[str]:
    return [title for title in launcher.titles if title != "the test split"]


def climb(plan: LadderPlan, store: Path, judge: Judge | None = None) -> tuple[LadderLauncher, Judge]:
    launcher, judge = LadderLauncher({}), judge or Judge()
    judge.launcher = launcher
    assert run_ladder(plan, Store(store), judge, launcher=launcher, say=lambda text: None) == []
    assert launcher.stopped
    return launcher, judge


def test_nothing_is_run_twice_and_methods_and_rungs_can_be_added(ladder: str, tmp_path: Path) -> None:
    two = [*SETTINGS, "ladder.depths = (1, 2)", "ladder.seeds = (3, 3)"]
    first, judge = climb(plan_ladder(ladder, [], two), tmp_path / "bench")
    # plain, other seeds, more tokens, gain, harm with three seeds, and two budgets with two, at two rungs
    assert len(trained(first)) == 2 * (5 * 3 + 2 * 2)
    again, _ = climb(plan_ladder(ladder, [], two), tmp_path / "bench")
    assert trained(again) == []
    third, judge = climb(plan_ladder(ladder, [], SETTINGS), tmp_path / "bench")
    assert len(trained(third)) == 5 * 2 + 2 * 2  # the new rung alone
    assert judge.asked == ["predict 3"] and judge.runs_before_prediction == 0
    method, _ = climb(plan_ladder(ladder, ["v1_m3"], SETTINGS), tmp_path / "bench")
    assert [title.partition(" ")[0] for title in trained(method)] == ["v1_m3"] * (3 + 3 + 2)
    noted = read_ladder_arms([tmp_path / "bench"])
    assert len({key for key, _, _ in noted}) == 1 and {depth for _, depth, _ in noted} == {1, 2, 3}
    assert noted[next(iter(noted))[0], 3, "v1_m3"].seeds == [1, 2]


def test_an_interrupted_ladder_goes_on(ladder: str, tmp_path: Path) -> None:
    plan, launcher, judge = plan_ladder(ladder, [], SETTINGS), LadderLauncher({}), Judge()
    judge.launcher = launcher
    perform = launcher.perform

    def interrupted(task):  # type: ignore[no-untyped-def]
        if len(launcher.titles) == 20:
            raise KeyboardInterrupt
        return perform(task)

    launcher.perform = interrupted
    with pytest.raises(KeyboardInterrupt):
        run_ladder(plan, Store(tmp_path / "bench"), judge, launcher=launcher, say=lambda text: None)
    rest, _ = climb(plan, tmp_path / "bench")
    whole, _ = climb(plan, tmp_path / "other")
    assert len(trained(launcher)) + len(trained(rest)) == len(trained(whole))
    assert len(set(trained(rest)) & set(trained(launcher))) < len(trained(rest))


def test_rates_are_chosen_at_the_two_smallest_rungs(ladder: str, tmp_path: Path) -> None:
    """A pretended run does not depend on its rate, but for noise: three rates there, and one at the top if they agree."""
    plan = plan_ladder(ladder, [], [*SETTINGS, "suite.lrs = (0.5, 1.0, 2.0)"])
    climb(plan, tmp_path / "bench")
    said: list[str] = []
    launcher, judge = LadderLauncher({}), Judge()
    judge.launcher = launcher
    run_ladder(plan, Store(tmp_path / "bench"), judge, launcher=launcher, say=said.append)
    assert trained(launcher) == [] and not any("to train" in text or "the test split" in text for text in said)
    results = Store(tmp_path / "bench").read().values()
    for rung in plan.rungs:
        tried = {r.lr_factor for r in results if r.arm == rung.plain.arm.id and r.seed == 0}
        assert len(tried) == 3 or (rung.number == 3 and len(tried) in (0, 3))
    noted = read_ladder_arms([tmp_path / "bench"])
    assert not any(0 in arm.seeds for arm in noted.values())  # what chose the rate is not judged by
    for (_, depth, label), arm in noted.items():
        plain = next(a for a in noted.values() if a.depth == depth and a.role == "plain")
        assert label not in ("plain, other seeds", "plain × 2") or arm.factor == plain.factor


def test_looks_add_seeds_where_a_method_is_open(ladder: str, tmp_path: Path) -> None:
    plan = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, *LOOKS], ["v1_m4"])
    _, judge = climb(plan, tmp_path / "bench", Judge(settled={"v1_m3": "it helps"}, stopped={"v1_m4": "hopeless"}))
    assert judge.asked == ["settled", "settled", "predict 3"]
    noted = {(depth, label): arm for (_, depth, label), arm in read_ladder_arms([tmp_path / "bench"]).items()}
    assert noted[1, "v1_m3"].seeds == [1, 2] and noted[1, "v1_m4"].seeds == [1, 2, 3]
    assert (3, "v1_m3") in noted and (3, "v1_m4") not in noted


def test_methods_of_other_commands_are_not_spoken_of(ladder: str, tmp_path: Path) -> None:
    """The store may know them from before: this command runs nothing of them."""
    plan, said = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, *LOOKS]), list[str]()
    reasons = {"v1_m3": "it hurts", "wr_1": "it helps"}
    launcher, judge = LadderLauncher({}), Judge(settled=reasons, stopped=reasons)
    judge.launcher = launcher
    run_ladder(plan, Store(tmp_path / "bench"), judge, launcher=launcher, say=said.append)
    assert "v1_m3: it hurts, after 2 seeds" in said and "v1_m3 goes no further up: it hurts" in said
    assert not any("wr_1" in text for text in said)


def test_looks_end_where_every_method_is_settled(ladder: str, tmp_path: Path) -> None:
    """The plain block needs no more seeds either: with a look at 5 it would have had 5."""
    plan = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, "ladder.looks = (2, 5)"])
    _, judge = climb(plan, tmp_path / "bench", Judge(settled={"v1_m3": "it helps"}))
    assert judge.asked == ["settled", "predict 3"]
    noted = {(depth, label): arm for (_, depth, label), arm in read_ladder_arms([tmp_path / "bench"]).items()}
    assert noted[1, "plain"].seeds == [1, 2, 3] and noted[1, "v1_m3"].seeds == [1, 2]


def test_the_plain_block_has_never_fewer_seeds_than_a_look(ladder: str) -> None:
    members = {member.role: member for member in plan_ladder(ladder, ["v1_m3"], SETTINGS).rungs[0].members}
    assert at_look(members["plain"], 5).seeds == (1, 2, 3, 4, 5) and at_look(members["plain"], 2).seeds == (1, 2, 3)
    assert at_look(members["method"], 2).seeds == (1, 2) and at_look(members["harm"], 5).seeds == (1, 2, 3)
    assert at_look(members["method"], 0) == members["method"]


def test_a_failure_ends_its_arm_alone(ladder: str, tmp_path: Path) -> None:
    plan, launcher, judge = plan_ladder(ladder, ["v1_m3"], SETTINGS), LadderLauncher({}), Judge()
    judge.launcher = launcher
    perform = launcher.perform
    launcher.perform = lambda task: Failure("1", "no") if task.title.startswith("v1_m3") else perform(task)
    failures = run_ladder(plan, Store(tmp_path / "bench"), judge, launcher=launcher, say=lambda text: None)
    assert len(failures) == 3 and all(failure.startswith("v1_m3") for failure in failures)
    assert {result.name for result in Store(tmp_path / "bench").read().values()} == {
        "baseline",
        "wr_mean",
        "skip_scalar_0",
    }


def test_damaged_notes_cost_their_line_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ladders.jsonl").write_text('{"ladder": 3}\nnot JSON\n[]\n')
    (tmp_path / "predictions.jsonl").write_text('{"ladder": "x", "depth": "two"}\n{')
    warnings: list[str] = []
    assert read_ladder_arms([tmp_path], warnings.append) == {} and read_predictions([tmp_path], warnings.append) == {}
    assert any("line 2" in text for text in warnings)


def test_the_rates_of_a_rung_are_widened_for_all_of_its_arms_but_not_for_the_harmful_one(
    ladder: str, tmp_path: Path
) -> None:
    """The gain does best at five times its rate, the harmful arm at an eighth: nobody is tried at that."""
    best = {"wr_mean": 2.3, "skip_scalar_0": -3.0}
    launcher, judge = LadderLauncher({}, best_rates=best), Judge()
    judge.launcher = launcher
    plan = plan_ladder(ladder, [], [*SETTINGS, "suite.lrs = (0.5, 1.0, 2.0)", "suite.widenings = 3"])
    store = Store(tmp_path / "bench")
    assert run_ladder(plan, store, judge, launcher=launcher, say=lambda text: None) == []
    results = store.read().values()
    for rung in plan.rungs[:2]:
        for member in (each for each in rung.members if each.role in OWN_RATE):
            tried = {r.lr_factor for r in results if r.arm == member.arm.id and r.seed == 0}
            assert tried == {0.5, 1.0, 2.0, 4.0, 8.0}
    noted = read_ladder_arms([tmp_path / "bench"])
    assert {arm.factor for arm in noted.values() if arm.label == "wr_mean"} == {4.0}
    assert {arm.factor for arm in noted.values() if arm.label == "skip_scalar_0"} == {0.5}


def test_the_plain_block_is_run_at_every_rate_that_ties_to_the_end(ladder: str, tmp_path: Path) -> None:
    """Half and twice the rate are 0.01 nats off, which ties."""
    ties = ["suite.lrs = (0.5, 1.0, 2.0)", "suite.tie_seeds = 1", "suite.tie = 0.005"]
    plan = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, *ties])
    store = Store(tmp_path / "bench")
    launcher, judge = LadderLauncher({}, best_rates={}), Judge()
    judge.launcher = launcher
    assert run_ladder(plan, store, judge, launcher=launcher, say=lambda text: None) == []
    noted = {(depth, label): arm for (_, depth, label), arm in read_ladder_arms([store.folder]).items()}
    assert noted[1, "plain"].factor == 1.0 and noted[1, "plain"].ties == noted[2, "plain"].ties == [0.5, 2.0]
    assert noted[3, "plain"].ties == noted[1, "v1_m3"].ties == []
    judged = {(run.arm, run.seed, run.lr_factor) for run in store.read().values() if 0 < run.seed < 100}
    beside = {
        (rung.plain.arm.id, seed, factor) for rung in plan.rungs[:2] for seed in (1, 2, 3) for factor in (0.5, 2.0)
    }
    assert {run for run in judged if run[2] != 1.0} == beside
    results = store.read()
    planned = planned_jobs(plan.rungs, plan.suite, results, 0)
    assert missing_runs([job for each in planned for job in each.jobs], results, again=False) == []
    again = LadderLauncher({}, best_rates={})
    assert run_ladder(plan, store, judge, launcher=again, say=lambda text: None) == [] and trained(again) == []


def test_a_note_keeps_the_seeds_that_were_run(tmp_path: Path) -> None:
    """A later command with fewer seeds or looks does not make the store forget them; at another rate they are others."""
    arm = LadderArm(
        ladder="a", name="a", host="sequential", margin=0.02, depth=1, parameters=1, tokens=1, label="plain", role="plain",
        arm="x", factor=1.0, seeds=[1, 2, 3, 4, 5], charged=1.0,
    )  # fmt: skip
    note_arms(tmp_path, [arm])
    note_arms(tmp_path, [replace(arm, seeds=[1, 2, 3])])
    assert read_ladder_arms([tmp_path]) == {("a", 1, "plain"): arm}
    note_arms(tmp_path, [replace(arm, seeds=[1, 2, 3], factor=0.5)])
    assert read_ladder_arms([tmp_path])["a", 1, "plain"].seeds == [1, 2, 3]


def test_an_arm_at_another_rate_is_noted_once_its_runs_are_there(tmp_path: Path) -> None:
    """Until then a report would have neither its earlier runs nor those to come."""
    arm = LadderArm(
        ladder="a", name="a", host="sequential", margin=0.02, depth=1, parameters=1, tokens=1, label="m", role="method",
        arm="x", factor=1.0, seeds=[1, 2, 3], charged=1.0,
    )  # fmt: skip
    note_arms(tmp_path, [arm], runs=set())
    assert read_ladder_arms([tmp_path])["a", 1, "m"] == arm
    for other in (replace(arm, factor=0.5), replace(arm, arm="y")):
        note_arms(tmp_path, [other], runs={("x", 1, 1.0), ("x", 0, 0.5), ("x", 1, 0.5), ("x", 2, 0.5)})
        assert read_ladder_arms([tmp_path])["a", 1, "m"] == arm
    note_arms(tmp_path, [replace(arm, factor=0.5)], runs={("x", seed, 0.5) for seed in (1, 2, 3)})
    assert read_ladder_arms([tmp_path])["a", 1, "m"].factor == 0.5


def test_arms_of_the_plain_block_change_their_rate_together(tmp_path: Path) -> None:
    """Its control under other seeds at another rate would show the rate, not the noise."""
    plain = LadderArm(
        ladder="a", name="a", host="sequential", margin=0.02, depth=1, parameters=1, tokens=1, label="plain", role="plain",
        arm="x", factor=1.0, seeds=[1, 2], charged=1.0,
    )  # fmt: skip
    method = replace(plain, label="m", role="method", arm="y")
    before = [plain, replace(plain, label="plain, other seeds", role="other seeds", seeds=[101, 102]), method]
    note_arms(tmp_path, before, runs=set())
    after = [replace(arm, factor=0.5) for arm in before]
    runs = {(arm.arm, seed, 0.5) for arm in after for seed in arm.seeds}
    note_arms(tmp_path, after, runs - {("x", 102, 0.5)})
    assert [arm.factor for arm in read_ladder_arms([tmp_path]).values()] == [1.0, 1.0, 0.5]
    note_arms(tmp_path, after, runs)
    assert [arm.factor for arm in read_ladder_arms([tmp_path]).values()] == [0.5, 0.5, 0.5]


def test_a_ladder_that_breaks_at_a_new_rate_keeps_what_it_had(ladder: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "bench")
    climb(plan_ladder(ladder, ["v1_m3"], SETTINGS), store.folder)
    before = read_ladder_arms([store.folder])
    launcher, judge = LadderLauncher({}, best_rates={"v1_m3": 0.0}), Judge()
    judge.launcher = launcher
    perform = launcher.perform

    def broken(task: Task) -> Failure | None:
        if "seed 0" not in task.title:
            raise KeyboardInterrupt
        return perform(task)

    launcher.perform = broken
    plan = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, "suite.lrs = (0.25, 0.5)"])
    with pytest.raises(KeyboardInterrupt):
        run_ladder(plan, store, judge, launcher=launcher, say=lambda text: None)
    assert read_ladder_arms([store.folder]) == before
    launcher.perform = perform
    assert run_ladder(plan, store, judge, launcher=launcher, say=lambda text: None) == []
    factors = {arm.factor for arm in read_ladder_arms([store.folder]).values()}
    assert factors <= {0.25, 0.5} and len(read_ladder_arms([store.folder])) == len(before)


def test_what_is_decided_rests_on_one_split(ladder: str, tmp_path: Path) -> None:
    """Runs that were lost before their test are trained again before a prediction, and in any case before the end."""

    class Launcher(LadderLauncher):
        tests = True

        def pretend_run(self, task: Task) -> Failure | None:  # type: ignore[override]
            if task.module == TRAIN:
                super().pretend_run(task)
                return None
            self.titles.append(task.title)
            for folder in task.arguments if self.tests else ():
                (Path(folder) / "test.json").write_text('{"loss": 3.0}')
            return None if self.tests else Failure("1", "")

    class Asking(Judge):
        untested = -1

        def predict(self, ladder: str, rung: Rung, members: Sequence[Member]) -> None:
            self.untested = sum(not run.tested for run in store.read().values() if run.seed)

    store, launcher, judge = Store(tmp_path / "bench"), Launcher({}), Asking()
    launcher.tests = False
    two = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, "ladder.depths = (1, 2)", "ladder.seeds = (3, 3)"])
    assert run_ladder(two, store, judge, launcher=launcher, say=lambda text: None)
    shutil.rmtree(store.folder / "runs")
    again, said = Launcher({}), list[str]()
    assert run_ladder(two, store, judge, launcher=again, say=said.append) == []
    assert any("the folders are gone" in text for text in said)
    assert all(run.tested for run in store.read().values() if run.seed)

    more = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, "ladder.depths = (1, 2)", "ladder.seeds = (3, 3)"], ["v1_m4"])
    for plan in (more, plan_ladder(ladder, ["v1_m3"], SETTINGS)):  # the prediction of a second and of a third rung
        lost = next(run for run in store.read().values() if run.seed == 1)
        store.append(replace(lost, test_loss=None, tested=False))
        shutil.rmtree(store.folder / "runs")
        judge.untested = -1
        assert run_ladder(plan, store, judge, launcher=Launcher({}), say=lambda text: None) == []
        assert judge.untested == 0


@pytest.mark.parametrize("ties", ['["a"]', "[0.0]", "[1]", "3"])
def test_a_note_with_ties_that_are_no_rates_is_left_out(tmp_path: Path, ties: str) -> None:
    line = (
        '{"ladder": "a", "name": "a", "host": "sequential", "margin": 0.02, "depth": 1, "parameters": 1, "tokens": 1,'
        ' "label": "l", "role": "plain", "arm": "x", "factor": 1.0, "seeds": [1], "charged": 1.0, "ties": TIES}\n'
    )
    (tmp_path / "ladders.jsonl").write_text(line.replace("TIES", "[0.5]") + line.replace("TIES", ties))
    warnings: list[str] = []
    (arm,) = read_ladder_arms([tmp_path], warnings.append).values()
    assert arm.ties == [0.5] and len(warnings) == 1
