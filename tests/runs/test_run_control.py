"""What may be changed when a run resumes: settings that exist, and do not change what it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.tiny_training import config, go, outcome

from zoo.catalogue import settings_list
from zoo.errors import RunError
from zoo.runs.run_control import RUN_CONTROL


class Interrupted(Exception):
    pass


def interrupt(number: int) -> None:
    """Fail before the eighth batch: the last checkpoint is that of step 6."""
    if number == 8:
        raise Interrupted


def test_the_settings_exist_and_say_that_they_may_be_changed() -> None:
    meanings = {entry.key: entry.meaning for group in settings_list.core() for entry in group.entries}
    assert RUN_CONTROL == ("records.writers", "train.keep_checkpoints", "train.rank_timeout")
    assert {key for key, meaning in meanings.items() if "may be changed when a run resumes" in meaning} == {
        *RUN_CONTROL
    }


@pytest.mark.parametrize(
    ("began", "resumed"),
    [
        ({}, {"rank_timeout": 30.0}),
        ({"rank_timeout": 30.0, "keep_checkpoints": 1}, {"rank_timeout": 60.0, "keep_checkpoints": 3}),
    ],
)
def test_a_run_resumes_with_other_run_control_to_the_same_bits(
    tmp_path: Path, began: dict[str, Any], resumed: dict[str, Any]
) -> None:
    go(config(tmp_path), tmp_path / "whole")
    with pytest.raises(Interrupted):
        go(config(tmp_path, interrupt, **began), tmp_path / "run")
    assert go(config(tmp_path, **resumed), tmp_path / "run").status == "finished"
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_setting_that_changes_what_is_computed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        go(config(tmp_path, interrupt), tmp_path / "run")
    with pytest.raises(RunError, match=r"another configuration.*\n  - train.lr = 0.05\n  \+ train.lr = 0.1\n"):
        go(config(tmp_path, lr=0.1, rank_timeout=30.0), tmp_path / "run")
