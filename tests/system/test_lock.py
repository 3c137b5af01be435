"""A lock is held by one at a time, and is free again when its holder closes it."""

from __future__ import annotations

import os
from pathlib import Path

from zoo.system.lock import open_lock, try_lock


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    with open_lock(tmp_path / "lock") as one, open_lock(tmp_path / "lock") as other:
        assert try_lock(one) and not try_lock(other)
    with open_lock(tmp_path / "lock") as later:
        assert try_lock(later)


def test_a_pipe_in_its_place_is_opened_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lock")
    with open_lock(tmp_path / "lock") as lock:
        assert try_lock(lock)
