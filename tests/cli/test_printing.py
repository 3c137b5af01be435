"""What others wrote is read on a terminal and cannot act on it."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

import pytest
from helpers import tiny_training

from zoo.catalogue.core_settings import Entry, Group
from zoo.catalogue.settings_list import lines
from zoo.cli import plugins, printing
from zoo.plugins.registry import Registry
from zoo.runs.summary import print_summary
from zoo.testing import Report, Result
from zoo.training import trainer
from zoo.training.progress_bar import Bar
from zoo.training.progress_lines import Lines

NASTY = "a\x1b[2J\x9b31m\u202eb :smile: [red]"
HARMLESS = "a\\x1b[2J\\x9b31m\\u202eb :smile: [red]"


def test_text_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    printing.say(NASTY)
    printing.warn("zoo", NASTY)
    out, err = capsys.readouterr()
    assert (out, err) == (f"{HARMLESS}\n", f"zoo: {HARMLESS}\n")


def test_json_keeps_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    value = {NASTY: ["x\ny\t\ud800", "ü"]}
    printing.say_json(value)
    out = capsys.readouterr().out
    assert json.loads(out) == value
    assert "\x9b" not in out and "\u202e" not in out and "ü" in out and out.count("\n") > 3


def test_log_records() -> None:
    record = logging.LogRecord("zoo", logging.INFO, "x.py", 1, "read %s", (NASTY,), None)
    assert printing.PrintableFormatter("zoo: %(message)s").format(record) == f"zoo: read {HARMLESS}"


@pytest.mark.parametrize("kind", [Lines, Bar])
def test_notes_of_a_run(kind: type[Lines] | type[Bar], capsys: pytest.CaptureFixture[str]) -> None:
    kind(0, 10).say(NASTY)
    assert capsys.readouterr().err.strip() == HARMLESS


def test_the_summary_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = trainer.run(tiny_training.config(tmp_path), tmp_path / "run")
    print_summary(dataclasses.replace(summary, remark=NASTY), tmp_path / "run")
    out = capsys.readouterr().out
    assert f"remark         {HARMLESS}" in out and "\x1b" not in out


def test_the_report_of_a_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    result = Result("causal", "no output depends on later tokens", "failed", detail=NASTY, case=NASTY)
    report = Report("v1_m3", "residual", NASTY, (result,))
    monkeypatch.setattr("zoo.testing.check", lambda *_, **__: report)
    assert plugins.main(["check", "v1_m3"]) == 1
    out = capsys.readouterr().out
    assert out.count(HARMLESS) == 3 and "\x1b" not in out
    assert plugins.main(["check", "v1_m3", "--json"]) == 1
    out = capsys.readouterr().out
    assert json.loads(out)[0]["results"][0]["detail"] == NASTY and "\x9b" not in out


@pytest.mark.parametrize(("arguments", "code"), [(["check", "--all"], 1), (["matrix"], 0)])
def test_a_broken_method(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("zoo.catalogue.status.sound", lambda _: (Registry([]), [f"{NASTY} is broken"]))
    assert plugins.main(arguments) == code
    out, err = capsys.readouterr()
    assert f"{HARMLESS} is broken" in out + err and "\x1b" not in out + err


def test_settings_of_a_method() -> None:
    group = Group("m", NASTY, (Entry(key="m.n", kind="int", limits="", default="1", meaning=NASTY),))
    assert not [line for line in lines([group], 80) if "\x1b" in line or "\x9b" in line]
