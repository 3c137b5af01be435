"""What one sees while it trains: the first lines, lines without a terminal, and the bar at any width."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
from helpers import tiny_training
from rich.console import Console

from zoo.runs.summary import rows
from zoo.training import progress as shown, trainer
from zoo.training.progress_bar import Bar
from zoo.training.progress_lines import Lines, Quiet


class Clock:
    """A clock that only a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def trained(clock: Clock, steps: int, seconds: float, first: float = 1.0, start: int = 0) -> list[tuple[int, float]]:
    """Steps and times at which a run of so many steps says a line, with so many seconds a step."""
    told = []

    class Told(Lines):
        def say(self, text: str) -> None:
            told.append((int(text.split()[1].split("/")[0].replace(",", "")), clock.now - began))

    began = clock.now
    with Told(start, steps) as lines:
        for step in range(start + 1, steps + 1):
            clock.now += first if step == start + 1 else seconds
            lines.step(step, 2.5, 1000.0)
    return told


# --- without a terminal


def test_a_short_run_says_its_first_step_and_then_only_its_validations(clock: Clock) -> None:
    assert trained(clock, 400, 0.05) == [(1, 1.0)]


def test_a_run_of_minutes_says_a_line_every_half_minute_or_twentieth(clock: Clock) -> None:
    fast = trained(clock, 400, 0.5)  # 5 % take 10 s: a line every 30 s
    assert [step for step, _ in fast] == [1, 61, 121, 181, 241, 301, 361]
    slow = trained(clock, 400, 3.0)  # 5 % take 60 s
    assert [step for step, _ in slow][:4] == [1, 21, 41, 61] and len(slow) <= 21


def test_a_long_run_is_never_silent_for_much_more_than_five_minutes(clock: Clock) -> None:
    told = [at for _, at in trained(clock, 2000, 40.0)]  # 5 % take more than an hour
    assert max(later - at for at, later in zip(told, told[1:], strict=False)) <= 340


def test_a_resumed_run_says_its_own_first_step(clock: Clock) -> None:
    assert trained(clock, 400, 0.05, start=200) == [(201, 1.0)]


def test_a_line_has_step_loss_speed_and_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Lines(0, 1000) as lines:
        clock.now += 60  # compiling
        lines.step(1, 7.5, 12.0)
        for step in range(2, 102):
            clock.now += 1
            lines.step(step, 6.25, 20480.4)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "step 1/1,000  loss 7.5000  12 tokens/s  about 16:39:00 left"
    assert told[1] == "step 51/1,000  loss 6.2500  20,480 tokens/s  about 15:49 left"  # without the first step


def test_a_long_validation_is_told(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Lines(0, 1000) as lines:
        for part in range(1, 11):
            clock.now += 10
            lines.busy("validating", part / 10)
        lines.busy("saving")
    assert capsys.readouterr().err.splitlines() == ["validating 30%", "validating 60%", "validating 90%"]


def test_a_run_says_first_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = trainer.run(tiny_training.config(tmp_path), tmp_path / "run")  # type: ignore[arg-type]
    first, second, *rest = capsys.readouterr().err.splitlines()
    assert first == f"baseline: {found.parameters:,} parameters, cpu, float32; folder {tmp_path / 'run'}"
    assert second == "counting: 110 tokens to train on, 110 to validate on; 12 steps of 32 tokens"
    assert rest[0] == "this corpus only counts" and rest[1].startswith("step 1/12  loss ")
    assert [line.split()[1] for line in rest[2:]] == ["4/12", "8/12", "12/12"]  # validations


def test_the_table_names_corpus_and_device_where_the_summary_does(tmp_path: Path) -> None:
    found = tiny_training.go(tiny_training.config(tmp_path), tmp_path / "run")
    table = dict(rows(found, tmp_path))
    assert table["corpus"] == "counting" and table["device"] == "cpu, float32"
    two = dict(rows(dataclasses.replace(found, world_size=2), tmp_path))
    assert two["device"] == "cpu × 2, float32"
    old = dict(rows(dataclasses.replace(found, corpus_name="", device="", precision=""), tmp_path))
    assert not {"corpus", "device"} & old.keys()


def test_the_others_say_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert type(shown.progress(0, 10, show=False)) is Quiet
    tiny_training.go(tiny_training.config(tmp_path), tmp_path / "run")
    assert capsys.readouterr() == ("", "")


# --- the bar


def drawn(bar: Bar, width: int) -> str:
    """The line, as a terminal of this width shows it."""
    console: Any = Console(file=io.StringIO(), width=width)
    for column in bar._bar.columns:
        column._renderable_cache = {}
        if hasattr(column, "_console"):
            column._console = console
    console.print(bar._bar.make_tasks_table(bar._bar.tasks))
    return str(console.file.getvalue()).rstrip("\n")


@pytest.mark.parametrize("steps", [300, 1000, 1_000_000])
@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 120])
def test_the_step_counter_is_whole_at_any_width(steps: int, width: int) -> None:
    bar = Bar(0, steps)
    bar.training()
    lines = [drawn(bar, width)]
    bar.step(steps // 3, 5.319, 15332.0)
    lines.append(drawn(bar, width))
    bar.busy("validating", 0.45)
    lines.append(drawn(bar, width))
    for line, step in zip(lines, (0, steps // 3, steps // 3), strict=True):
        assert line.split()[0] == f"{step}/{steps}" and "\n" not in line and "…" not in line
    if width >= 40:
        assert "first step" in lines[0] and "loss 5.319" in lines[1] and "validating 45%" in lines[2]
    if width >= 60:
        assert "15,332 tokens/s" in lines[1]


def test_what_keeps_a_run_busy_is_shown_with_its_time_until_it_trains_again(clock: Clock) -> None:
    bar = Bar(0, 300)
    bar.training()
    clock.now += 75
    assert bar.state == "first step 1:15"
    bar.step(1, 5.0, 100.0)
    assert (bar.state, bar.speed) == ("loss 5.000", "100 tokens/s")
    bar.busy("saving")
    clock.now += 5
    assert (bar.state, bar.speed) == ("saving 0:05", "")
    bar.busy("validating", 0.5)
    assert bar.state == "validating 50%"
    bar.training()
    assert bar.state == "loss 5.000"


def test_validation_and_saving_are_told_as_they_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    class Watched(Quiet):
        def step(self, step: int, loss: float, tokens_per_second: float) -> None:
            told.append(step)

        def busy(self, with_what: str, share: float | None = None) -> None:
            told.append((with_what, share))

        def training(self) -> None:
            told.append("training")

    monkeypatch.setattr("zoo.training.setup.progress", lambda *_: Watched())
    trainer.run(tiny_training.config(tmp_path, steps=4), tmp_path / "run")  # type: ignore[arg-type]
    assert told[:6] == ["training", 1, "training", 2, "training", 3]
    assert told[6:9] == [("saving", None), "training", 4]
    validating = told[9:-1]
    assert [what for what, _ in validating] == ["validating"] * 5 and told[-1] == ("saving", None)
    shares = [share for _, share in validating]
    assert shares == sorted(shares) and 0 < shares[0] < 0.5 and shares[-1] == 1
