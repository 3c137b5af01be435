"""What a ladder has still to run: by the rates that it chose, as a ladder that runs would choose them."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.pretend_ladder import LADDER, SETTINGS, LadderLauncher

from zoo.bench.arms import Job
from zoo.bench.ladder_jobs import kept_rate, planned_jobs
from zoo.bench.ladder_notes import read_ladder_arms
from zoo.bench.ladder_plan import LadderPlan, Member, Rung, plan_ladder
from zoo.bench.ladder_runner import run_ladder
from zoo.bench.missing import missing_runs
from zoo.bench.store import Store
from zoo.cli.bench import main

BEST = {"baseline": 1.0, "v1_m3": -2.0, "wr_mean": 1.0}  # log₂ of the best factors: none is the first or the middle one
RATES = ["suite.lrs = (0.5, 1.0, 2.0)", "suite.widenings = 3", "ladder.looks = (2, 3)"]


class Silent:
    """A judge that settles every method at the first look."""

    def settled(self, ladder: str) -> dict[str, str]:
        return {"v1_m3": "it helps"}

    def stopped(self, ladder: str) -> dict[str, str]:
        return {}

    def predict(self, ladder: str, rung: Rung, members: object) -> None:
        pass


@pytest.fixture
def ladder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("zoo.bench.freshness.corpus_fingerprint", lambda arm: "x")
    (tmp_path / "small.gin").write_text(LADDER)
    return str(tmp_path / "small.gin")


def climbed(ladder: str, store: Path, say: list[str]) -> LadderPlan:
    plan, launcher = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, *RATES]), LadderLauncher({}, best_rates=BEST)
    assert run_ladder(plan, Store(store), Silent(), launcher=launcher, say=say.append) == []
    return plan


def missing(plan: LadderPlan, store: Store, look: int) -> dict[tuple[int, str], list[Job]]:
    results = store.read()
    planned = planned_jobs(plan.hosts[0], plan.suite, results, look)
    jobs = {(each.rung.number, each.member.label): missing_runs(each.jobs, results, again=False) for each in planned}
    return {key: left for key, left in jobs.items() if left}


def test_what_was_run_is_planned_at_the_rates_that_were_chosen(ladder: str, tmp_path: Path) -> None:
    store, said = Store(tmp_path / "bench"), list[str]()
    plan = climbed(ladder, store.folder, said)
    noted = {(arm.depth, arm.label): arm for arm in read_ladder_arms([store.folder]).values()}
    assert {noted[depth, "v1_m3"].factor for depth in (1, 2, 3)} == {0.25}  # from a grid that was widened to 0.125 … 4
    assert noted[1, "plain"].factor == noted[1, "plain, other seeds"].factor == 2.0
    for each in planned_jobs(plan.hosts[0], plan.suite, store.read(), look=2):
        assert {job.lr_factor for job in each.judged} == {noted[each.rung.size.depth, each.member.label].factor}
        assert {job.lr_factor for job in each.tuning} in (set(), {0.125, 0.25, 0.5, 1.0, 2.0, 4.0})
    assert missing(plan, store, look=2) == {}
    more = missing(plan, store, look=3)  # should the method need the look that it was settled before
    assert {key: [job.seed for job in jobs] for key, jobs in more.items()} == {(1, "v1_m3"): [3], (2, "v1_m3"): [3]}

    said.clear()
    climbed(ladder, store.folder, said)
    assert not any("to train" in text for text in said)


def test_an_empty_store_is_planned_at_the_middle_rate(ladder: str) -> None:
    plan = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, *RATES])
    planned = {(each.rung.number, each.member.label): each for each in planned_jobs(plan.hosts[0], plan.suite, {}, 2)}
    assert {job.lr_factor for each in planned.values() for job in each.judged} == {1.0}
    assert [job.lr_factor for job in planned[1, "plain"].tuning] == [0.5, 1.0, 2.0]
    assert not planned[1, "plain × 2"].tuning and not planned[3, "plain"].tuning  # its rate is that of the rungs below
    assert [len(planned[rung, "v1_m3"].judged) for rung in (1, 2, 3)] == [2, 2, 2]


def test_the_plan_of_a_ladder_that_was_run_has_nothing_to_run(
    ladder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from zoo.bench import forecast

    monkeypatch.setattr(forecast, "pace", lambda arm, threads: forecast.Pace(start=10.0, step=1.0, low=0.5, high=2.0))
    climbed(ladder, tmp_path / "bench", [])
    command = ["--ladder", ladder, "--gin", "v1_m3", "--store", str(tmp_path / "bench"), "--plan", "--set"]
    assert main([*command, *SETTINGS, *RATES]) == 0
    lines = capsys.readouterr().out.partition("## Runs")[2].splitlines()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith(("| 1", "| 2", "| 3"))
    ]
    left = {(row[0], row[1]): row[8] for row in rows}
    assert len(rows) == 3 * 8
    assert set(left.values()) == {"0"}


def test_rungs_that_disagree_make_the_next_one_try_all_rates() -> None:
    for role in ("plain", "gain", "method"):
        assert kept_rate(role, []) is None and kept_rate(role, [2.0]) is None
        assert kept_rate(role, [1.0, 1.0]) == 1.0 and kept_rate(role, [1.0, 1.4]) == 1.4
        assert kept_rate(role, [1.0, 2.0]) is None and kept_rate(role, [1.0, 2.0, 2.0]) == 2.0


def test_the_harmful_control_tries_no_rates_above_the_second_rung() -> None:
    assert kept_rate("harm", []) is None and kept_rate("harm", [2.0]) is None
    assert kept_rate("harm", [2.0, 0.5]) == 0.5 and kept_rate("harm", [2.0, 0.5, 0.5]) == 0.5


def test_the_rate_of_the_rung_below_stands_for_one_that_is_not_known(ladder: str, tmp_path: Path) -> None:
    """As the second rung has not been run, and the third keeps what it comes to."""
    store = Store(tmp_path / "bench")
    one = plan_ladder(ladder, ["v1_m3"], [*SETTINGS, *RATES])
    first = one._replace(hosts=((one.hosts[0][0],),))
    launcher = LadderLauncher({}, best_rates=BEST)
    run_ladder(first, store, Silent(), launcher=launcher, say=lambda text: None)
    planned = planned_jobs(one.hosts[0], one.suite, store.read(), 2)
    methods: list[tuple[Member, list[Job]]] = [(p.member, p.judged) for p in planned if p.member.label == "v1_m3"]
    assert [{job.lr_factor for job in jobs} for _, jobs in methods] == [{0.25}] * 3


def test_what_looks_have_settled_is_not_planned_further(
    ladder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A method that hurts at the smallest rungs: no more seeds there, and nothing above; another one goes on."""
    from zoo.bench import forecast
    from zoo.report.ladder_judge import StoreJudge

    monkeypatch.setattr(forecast, "pace", lambda arm, threads: forecast.Pace(start=10.0, step=1.0, low=0.5, high=2.0))
    values = [*SETTINGS, "ladder.looks = (2, 5)"]
    plan, store = plan_ladder(ladder, [], values, ["v1_m3", "v1_m4"]), Store(tmp_path / "bench")
    small = plan._replace(hosts=(plan.hosts[0][:2],))
    run_ladder(
        small,
        store,
        StoreJudge(store, print),
        launcher=LadderLauncher({"v1_m3": 0.5, "v1_m4": 1.3}),
        say=lambda text: None,
    )
    capsys.readouterr()
    command = ["--ladder", ladder, "--methods", "v1_m3,v1_m4", "--store", str(store.folder), "--plan", "--set", *values]
    assert main(command) == 0
    out = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.partition("## Runs")[2].splitlines()]
    left = {(row[0], row[1]): row[8] for row in rows if len(row) > 8}
    assert [left[rung, "v1_m3"] for rung in "123"] == ["0", "0", "0"]
    assert [left[rung, "v1_m4"] for rung in "123"] == ["0", "0", "2"]
    assert "v1_m3, sequential host: it hurts at the smallest rungs: no further run" in out
    assert "v1_m4, sequential host: it helps at the smallest rungs: no further seed at the two smallest rungs" in out
