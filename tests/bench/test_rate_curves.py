"""Curves of the loss against the learning rate: their minimum, grids that are widened for all arms, rates that tie."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
from helpers.made_up_results import result
from helpers.pretend_bench import PretendLauncher, folder_of, leave_run

from zoo.bench.launch import TRAIN, Task
from zoo.bench.rate_curves import RateCurve, RatePoint, parabola_minimum, rate_curve, rate_curves
from zoo.bench.store import FURTHER_TUNING, Store, best_factor
from zoo.bench.suite import Suite
from zoo.bench.tied_rates import tied_runs
from zoo.cli.bench import main
from zoo.errors import ConfigError
from zoo.report.figures import loss_against_rate


def curve(**losses: float) -> RateCurve:
    points = [RatePoint(float(key[1:].replace("_", ".")), 0.0, loss) for key, loss in losses.items()]
    return RateCurve("arm", "m", "method", "sequential", 1, tuple(points))


def test_the_minimum_is_that_of_the_parabola_in_the_logarithm() -> None:
    points = [RatePoint(factor, 0.0, loss) for factor, loss in ((0.5, 3.1), (1.0, 3.0), (3.0, 3.4))]
    factor, loss = parabola_minimum(points) or (0, 0)
    a, b, c = numpy.polyfit(numpy.log2([0.5, 1.0, 3.0]), [3.1, 3.0, 3.4], 2)  # another implementation
    assert math.log2(factor) == pytest.approx(-b / (2 * a))
    assert loss == pytest.approx(c - b * b / (4 * a))
    assert parabola_minimum(points[:2]) is None
    assert parabola_minimum([RatePoint(f, 0.0, y) for f, y in ((0.5, 3.0), (1.0, 3.2), (2.0, 3.3))]) is None


@pytest.mark.parametrize(
    ("losses", "inside", "above"),
    [
        ({"x0_5": 3.1, "x1": 3.0, "x2": 3.1}, True, False),
        ({"x0_5": 3.0, "x1": 3.01, "x2": 3.5}, True, False),  # the parabola's minimum is between ½ and 1
        ({"x0_5": 3.0, "x1": 3.2, "x2": 3.5}, False, False),
        ({"x0_5": 3.5, "x1": 3.2, "x2": 3.0}, False, True),
        ({"x0_5": 3.1, "x1": 3.0, "x2": math.inf}, True, False),  # it diverges beyond
        ({"x0_5": 3.1, "x1": math.inf, "x2": math.inf}, False, False),
        ({"x0_5": math.inf, "x1": math.inf, "x2": math.inf}, False, False),
        ({"x1": 3.0}, False, False),
    ],
)
def test_a_minimum_is_inside_or_beyond_one_side(losses: dict[str, float], inside: bool, above: bool) -> None:
    minimum = curve(**losses).minimum
    assert (minimum.inside, minimum.above) == (inside, above)


def test_a_curve_is_of_the_seed_that_was_tried_most() -> None:
    runs = [result("m", seed, 3.0 + seed + factor, lr_factor=factor) for seed, factor in ((1, 2.0), (7, 0.5), (7, 1.0))]
    runs.append(result("m", 7, None, lr_factor=2.0))
    made = rate_curve(runs)
    assert made and made.seed == 7
    assert [(p.factor, p.loss) for p in made.points] == [(0.5, 10.5), (1.0, 11.0), (2.0, math.inf)]
    assert rate_curve([]) is None and rate_curves([result("m", 1, 3.0)]) == []


def losses_by_rate(task: Task, best: dict[str, float]) -> float:
    """A parabola in log₂ of the rate, lowest at the arm's own."""
    text = Path(task.arguments[task.arguments.index("--gin") + 1]).read_text()
    rate = float(re.search(r"train\.lr = (\S+)", text)[1])  # type: ignore[index]
    name = "v1_m3" if "v1_m3" in text else "baseline"
    return 3.0 + 0.1 * (math.log2(rate / 1e-3) - best[name]) ** 2


def prepared(launcher: PretendLauncher, best: dict[str, float]) -> None:
    plain = launcher.pretend

    def perform(task: Task) -> None:
        if task.module == TRAIN:
            launcher.titles.append(task.title)
            leave_run(folder_of(task), losses_by_rate(task, best), steps=4)
        else:
            plain(task)

    launcher.perform = perform


def command(tmp_path: Path, settings: list[str]) -> list[str]:
    own = ["suite.lrs = (0.5, 1.0, 2.0)", "suite.widenings = 3", 'suite.baselines = ("none",)', "train.lr = 1e-3"]
    return ["--gin", "v1_m3", "--seeds", "2", "--store", str(tmp_path / "bench"), "--set", *settings, *own]


def rates(store: Path, name: str) -> list[float]:
    (made,) = [c for c in rate_curves(Store(store).read().values()) if c.name == name]
    return [point.factor for point in made.points]


def test_the_grid_is_widened_for_every_arm_until_the_minimum_is_inside(
    settings: list[str], tmp_path: Path, launcher: PretendLauncher, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared(launcher, {"v1_m3": 2.3, "baseline": 0.0})
    assert main(command(tmp_path, settings)) == 0
    out = capsys.readouterr().out
    assert "all are also tried at lr × 4" in out and "at lr × 8" in out and "× 16" not in out
    for name in ("v1_m3", "baseline"):
        assert rates(tmp_path / "bench", name) == [0.5, 1.0, 2.0, 4.0, 8.0]
    (method,) = [c for c in rate_curves(Store(tmp_path / "bench").read().values()) if c.name == "v1_m3"]
    assert method.minimum.inside and math.log2(method.minimum.factor) == pytest.approx(2.3)
    second = {r.lr_factor for r in Store(tmp_path / "bench").read().values() if r.seed == 2 and r.name == "v1_m3"}
    assert second == {4.0}
    before = len(launcher.titles)
    assert main(command(tmp_path, settings)) == 0 and len(launcher.titles) == before  # nothing is run twice


def test_an_interrupted_bench_goes_on_with_the_same_grid(
    settings: list[str], tmp_path: Path, launcher: PretendLauncher
) -> None:
    prepared(launcher, {"v1_m3": 2.3, "baseline": 0.0})
    whole, count = launcher.perform, 0

    def stopping(task: Task) -> None:
        nonlocal count
        count += 1
        if count == 9:  # in the second widening
            raise KeyboardInterrupt
        whole(task)

    launcher.perform = stopping  # type: ignore[assignment]
    assert main(command(tmp_path, settings)) == 130
    launcher.perform = whole
    assert main(command(tmp_path, settings)) == 0
    assert rates(tmp_path / "bench", "v1_m3") == rates(tmp_path / "bench", "baseline") == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert len({title for title in launcher.titles if "seed" in title}) == len(
        [title for title in launcher.titles if "seed" in title]
    )


def test_widening_ends_and_says_so(
    settings: list[str], tmp_path: Path, launcher: PretendLauncher, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared(launcher, {"v1_m3": -9.0, "baseline": 0.0})
    assert main(command(tmp_path, settings)) == 0
    assert "v1_m3 (method, sequential): the best rate is at the edge of those tried" in capsys.readouterr().out
    assert min(rates(tmp_path / "bench", "baseline")) == 1 / 16


@pytest.mark.parametrize(("lrs", "widenings"), [((1.0,), 1), ((0.5, 1.0), 2), ((0.5, 1.0, 2.0), -1)])
def test_a_grid_that_cannot_be_widened_is_refused(lrs: tuple[float, ...], widenings: int) -> None:
    with pytest.raises(ConfigError, match=r"suite\.widenings"):
        Suite(lrs=lrs, widenings=widenings)


def test_the_curves_are_drawn_with_their_minima() -> None:
    made = rate_curves(
        [result("m", 1, loss, lr_factor=f) for f, loss in ((0.5, 3.1), (1.0, 3.0), (2.0, 3.1))]
        + [result("baseline", 1, loss, lr_factor=f) for f, loss in ((0.5, 3.0), (1.0, 3.2), (2.0, None))]
    )
    axes = loss_against_rate(made, "Rates").axes[0]
    shown = {line.get_label(): list(line.get_xdata()) for line in axes.lines}
    assert shown["m"] == [0.0005, 0.001, 0.002] and shown["baseline (none)"] == [0.0005, 0.001]
    rings = [line for line in axes.lines if str(line.get_label()).startswith("_")]
    assert [float(line.get_xdata()[0]) for line in rings] == pytest.approx([0.001])


# --- rates that tie


def with_noise(launcher: PretendLauncher, noise: dict[tuple[str, float, int], float]) -> None:
    """Losses by method, rate and seed: 3, more away from a rate of × 1, and the noise."""
    plain = launcher.pretend

    def perform(task: Task) -> None:
        if task.module != TRAIN:
            return plain(task)
        launcher.titles.append(task.title)
        text = Path(task.arguments[task.arguments.index("--gin") + 1]).read_text()
        factor = float(re.search(r"train\.lr = (\S+)", text)[1]) / 1e-3  # type: ignore[index]
        seed = int(re.search(r"train\.seed = (\d+)", text)[1])  # type: ignore[index]
        name = "v1_m3" if "v1_m3" in text else "baseline"
        loss = 3.0 + 0.1 * math.log2(factor) ** 2 + noise.get((name, round(factor, 6), seed), 0.0)
        leave_run(folder_of(task), loss, steps=4)

    launcher.perform = perform  # type: ignore[assignment]


def chosen(store: Path) -> dict[str, set[float]]:
    """The rates at which the seeds of every arm were run that are judged."""
    rates: dict[str, set[float]] = {}
    for run in Store(store).read().values():
        if 0 < run.seed < FURTHER_TUNING:
            rates.setdefault(run.name, set()).add(run.lr_factor)
    return rates


def further(store: Path) -> set[tuple[str, float, int]]:
    runs = Store(store).read().values()
    return {(run.name, run.lr_factor, run.seed - FURTHER_TUNING) for run in runs if run.seed > FURTHER_TUNING}


def test_rates_that_tie_are_tried_on_further_seeds_until_they_do_not(
    settings: list[str], tmp_path: Path, launcher: PretendLauncher, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plain block's × 1 was lucky on the tuning seed: one further seed tells. The method's rates do not tie."""
    lucky = {("baseline", 0.5, 0): -0.099, ("baseline", 1.0, 10_001): 0.1, ("baseline", 0.5, 10_001): -0.1}
    with_noise(launcher, lucky)
    ask = command(tmp_path, [*settings, "suite.tie_seeds = 2"])
    assert main(ask) == 0
    assert "rates that tie are tried on a further seed: baseline × 0.5, 1\n" in capsys.readouterr().out
    assert further(tmp_path / "bench") == {("baseline", 0.5, 1), ("baseline", 1.0, 1)}
    assert chosen(tmp_path / "bench") == {"baseline": {0.5}, "v1_m3": {1.0}}
    (curve_,) = [c for c in rate_curves(Store(tmp_path / "bench").read().values()) if c.name == "baseline"]
    # The means have moved the minimum to the edge of the grid, so another rate is tried.
    assert [(point.factor, point.seeds) for point in curve_.points] == [(0.25, 1), (0.5, 2), (1.0, 2), (2.0, 1)]
    assert curve_.points[2].loss == pytest.approx(3.05) and curve_.seed == 0
    before = len(launcher.titles)
    assert main(ask) == 0 and len(launcher.titles) == before  # nothing is run twice


def test_a_tie_that_stays_one_ends_with_the_seeds(
    settings: list[str], tmp_path: Path, launcher: PretendLauncher
) -> None:
    with_noise(launcher, {("baseline", 0.5, seed): -0.099 for seed in (0, 10_001, 10_002, 10_003)})
    assert main(command(tmp_path, [*settings, "suite.tie_seeds = 2"])) == 0
    assert {seed for _, _, seed in further(tmp_path / "bench")} == {1, 2}
    assert chosen(tmp_path / "bench")["baseline"] == {1.0}


@pytest.mark.parametrize(("loss", "further_runs"), [(3.0, 3), (None, 0)])
def test_an_arm_that_diverges_at_every_rate_has_no_tie(
    loss: float | None, further_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal losses tie; no loss at all is none to choose by."""
    monkeypatch.setattr("zoo.bench.tied_rates.outdated", lambda run, job: [])
    runs = [result("m", 0, loss, lr_factor=factor) for factor in (0.5, 1.0, 2.0)]
    arm: Any = SimpleNamespace(id=runs[0].arm)
    assert len(tied_runs(arm, Suite(lrs=(0.5, 1.0, 2.0), tie_seeds=2), runs)) == further_runs


def test_without_further_seeds_nothing_decides_a_tie(
    settings: list[str], tmp_path: Path, launcher: PretendLauncher
) -> None:
    with_noise(launcher, {("baseline", 0.5, 0): -0.099})
    assert main(command(tmp_path, settings)) == 0
    assert further(tmp_path / "bench") == set() and chosen(tmp_path / "bench")["baseline"] == {1.0}


def test_a_run_that_fails_does_not_hold_a_tie_up(
    settings: list[str], tmp_path: Path, launcher: PretendLauncher
) -> None:
    from zoo.bench.launch import Failure

    with_noise(launcher, {("baseline", 0.5, 0): -0.099})
    whole = launcher.perform
    launcher.perform = lambda task: Failure("1", "no") if "seed 10001" in task.title else whole(task)  # type: ignore[assignment]
    assert main(command(tmp_path, [*settings, "suite.tie_seeds = 2"])) == 1
    assert further(tmp_path / "bench") == set()


def test_the_rate_is_that_of_the_lowest_mean() -> None:
    runs = [
        result("m", seed, loss, lr_factor=f)
        for f, of in ((0.5, (3.2, 3.0)), (1.0, (3.0, 3.3)))
        for seed, loss in zip((0, 10_001), of, strict=True)
    ]
    assert best_factor(runs) == 0.5
    assert best_factor([*runs, result("m", 1, 1.0, lr_factor=1.0)]) == 0.5  # a judged seed decides nothing
    assert best_factor([*runs, result("m", 10_002, None, lr_factor=0.5)]) == 1.0  # it diverged


@pytest.mark.parametrize("own", [{"tie_seeds": -1}, {"tie": 0.0}, {"tie": 1.5}])
def test_ties_that_cannot_be(own: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"suite\.tie"):
        Suite(**own)  # type: ignore[arg-type]
