"""What a store keeps, whatever happens to its files, and how stores are merged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.made_up_results import result

from zoo.bench.store import FILE, Store, best_factor, merged
from zoo.errors import ZooError
from zoo.report.arm_results import arms
from zoo.system import json_rows


def test_the_best_learning_rate_is_chosen_on_the_first_seed() -> None:
    runs = [result("m", 1, 3.0, lr_factor=f) for f in (0.5, 2.0)] + [result("m", 1, 2.5, lr_factor=1.0)]
    runs.append(result("m", 1, None, lr_factor=4.0))
    assert best_factor(runs) == 1.0
    assert [run.lr_factor for run in arms(runs + [result("m", 2, 2.6)])["m"].runs] == [1.0, 1.0]


def test_store_appends_and_survives_a_torn_line(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(result("m", 1, 3.0))
    with (tmp_path / FILE).open("a") as file:
        file.write('3.5\n{"key": "half')
    store.append(result("m", 2, 3.5))
    store.append(result("m", 1, 3.0, test_loss=2.9))
    read = store.read()
    assert len(read) == 2 and read["m-1-1.0"].test_loss == 2.9
    assert len((tmp_path / FILE).read_text().splitlines()) == 5  # nothing was rewritten


def test_merged_stores_count_a_run_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Store(tmp_path / name).append(result("m", 1, 3.0))
    Store(tmp_path / "b").append(result("m", 2, 3.0))
    assert len(merged([tmp_path / "a", tmp_path / "b"])) == 2
    with pytest.raises(ZooError, match="results.jsonl"):
        merged([tmp_path])


def test_merged_stores_have_a_run_as_it_was_left_last(tmp_path: Path) -> None:
    early, late = {"ended": "2026-01-01T00:00:00+00:00"}, {"ended": "2026-02-01T00:00:00+00:00"}
    Store(tmp_path / "a").append(result("m", 1, 3.0, stamps=late))
    Store(tmp_path / "a").append(result("m", 2, 3.0, stamps=late))
    Store(tmp_path / "b").append(result("m", 1, 3.0, stamps=late, test_loss=None, tested=False))  # a copy from before
    Store(tmp_path / "b").append(result("m", 2, 9.0, stamps=early))
    assert [run.test_loss for run in merged([tmp_path / "a", tmp_path / "b"])] == [3.0, 3.0]
    assert sorted(run.test_loss for run in merged([tmp_path / "b", tmp_path / "a"])) == [3.0, 3.0]


def test_results_are_plain_json(tmp_path: Path) -> None:
    Store(tmp_path).append(result("m", 1, 3.0))
    row = json.loads((tmp_path / FILE).read_text())
    assert row["name"] == "m" and row["curve"][1] == [10, 100, 1.0, 3.0]


def test_the_budgets_of_a_run_are_kept_and_older_lines_have_none(tmp_path: Path) -> None:
    budgets = [{"multiple": 0.5, "step": 5, "tokens": 50, "loss": 4.0, "accuracy": 0.1, "bits_per_byte": None}]
    store = Store(tmp_path)
    store.append(result("m", 1, 3.0, budgets=budgets))
    store.append(result("m", 2, 3.0))
    rows = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    del rows[1]["budgets"]
    (tmp_path / FILE).write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [each.budgets for each in store.read().values()] == [budgets, []]


def test_a_store_reads_what_was_added_and_all_of_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    original = json_rows.parsed
    monkeypatch.setattr(json_rows, "parsed", lambda line: (parsed.append(line), original(line))[1])
    store = Store(tmp_path)
    assert store.read() == {}
    store.append(result("m", 1, 3.0))
    first = store.read()
    first.clear()  # the caller's own
    store.append(result("m", 2, 3.5))
    assert list(store.read()) == ["m-1-1.0", "m-2-1.0"] and len(parsed) == 2
    line = (tmp_path / FILE).read_bytes().splitlines()[0].replace(b"m-1-1.0", b"m-3-1.0")
    with (tmp_path / FILE).open("ab") as file:
        file.write(line[:50])
    assert len(store.read()) == 2  # half a line, so far
    with (tmp_path / FILE).open("ab") as file:
        file.write(line[50:] + b"\n")
    assert len(store.read()) == 3
    (tmp_path / FILE).write_bytes(line + b"\n")
    assert list(store.read()) == ["m-3-1.0"]
    (tmp_path / FILE).unlink()
    assert store.read() == {}
