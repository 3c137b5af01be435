"""What a store notes of the suites that were judged in it."""

from __future__ import annotations

from pathlib import Path

from zoo.bench.store import FILE
from zoo.bench.suite_notes import NO_NOTES, note_suite, read_suite_notes


def test_a_store_remembers_its_suites(tmp_path: Path) -> None:
    assert read_suite_notes([tmp_path]) == NO_NOTES
    note_suite(tmp_path, "", {"m": {"none": "p"}, "z": {}}, [])
    note_suite(tmp_path, "b", {"m": {"flops": "f"}, "n": {}}, [("m", "n")])
    note_suite(tmp_path, "a", {"n": {"none": "p"}}, [])
    note_suite(tmp_path, "a", {"n": {"none": "q"}, "k": {}}, [("m", "n")])
    found = read_suite_notes([tmp_path])
    assert found.suites == {"m": "b", "n": "a", "k": "a", "z": ""}
    assert found.baselines == {"m": {"none": "p", "flops": "f"}, "n": {"none": "q"}, "k": {}, "z": {}}
    assert found.twins == (("m", "n"),)
    assert read_suite_notes([tmp_path / FILE]) == found
