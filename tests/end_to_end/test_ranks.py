"""Two processes under torchrun: one run, the same figures, one end."""

from __future__ import annotations

import dataclasses
import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import tiny_training
from helpers.torchrun import run_ranks

from zoo.runs import checkpoint
from zoo.runs.metrics import read_rows

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """What the two ranks of scripts/ranked_training.py tell, and the folder they worked in."""
    base = tmp_path_factory.mktemp("ranks")
    tiny_training.config(base)  # writes the tokenizer that both read
    run_ranks(2, TESTS / "scripts/ranked_training.py", base, seconds=240)
    return base, json.loads((base / "found.json").read_text())


def test_muon_and_several_budgets_on_ranks_resume_in_the_same_bits(ran: tuple[Path, Any]) -> None:
    base, ranks = ran
    first, second = ranks
    assert first["muon"]["weights"] == second["muon"]["weights"] != ""
    assert first["muon interrupted"]["status"] == "interrupted"
    for rank in ranks:
        assert rank["muon resumed"] == rank["muon"]
    assert tiny_training.outcome(base / "muon broken") == tiny_training.outcome(base / "muon")


def test_both_ranks_end_with_the_same_weights_and_their_own_dropout(ran: tuple[Path, Any]) -> None:
    _, (first, second) = ran
    assert first["whole"]["weights"] == second["whole"]["weights"] != ""
    assert first["whole"]["random"] != second["whole"]["random"]
    assert first["whole"]["status"] == second["whole"]["status"] == "finished"


def test_it_computes_what_one_process_computes_on_both_batches(ran: tuple[Path, Any], tmp_path: Path) -> None:
    """Two ranks, a batch each, are one process that accumulates both."""
    torch.set_num_threads(1)
    base, _ = ran
    alone = tiny_training.config(tmp_path, steps=9, validate_every=4, accumulate=2)
    tiny_training.go(dataclasses.replace(alone, model=tiny_training.without_dropout), tmp_path / "alone")
    for kind in ("train", "valid"):
        together, single = read_rows(base / "plain", kind), read_rows(tmp_path / "alone", kind)
        assert [row["step"] for row in together] == [row["step"] for row in single]
        for figure in ("loss", "perplexity") + (("accuracy", "bits_per_byte") if kind == "valid" else ("tokens",)):
            assert [row[figure] for row in together] == pytest.approx([row[figure] for row in single], rel=1e-4), figure


def test_a_signal_on_one_rank_stops_both_at_the_same_step(ran: tuple[Path, Any]) -> None:
    _, found = ran
    for rank in found:
        assert rank["interrupted"]["status"] == "interrupted"
        assert (rank["interrupted"]["steps"], rank["interrupted"]["signal"]) == (5, signal.SIGTERM)


def test_going_on_ends_in_the_same_bits_on_every_rank(ran: tuple[Path, Any]) -> None:
    base, found = ran
    for rank in found:
        assert rank["resumed"] == rank["whole"]
    assert tiny_training.outcome(base / "broken") == tiny_training.outcome(base / "whole")


def test_what_is_not_finite_on_one_rank_is_skipped_by_both_and_found(ran: tuple[Path, Any]) -> None:
    _, found = ran
    for rank in found:
        assert (rank["spoilt"]["status"], rank["spoilt"]["skipped_steps"], rank["spoilt"]["steps"]) == (
            "diverged",
            3,
            5,
        )
        assert rank["spoilt"]["blew_up"] == "layer 2 output is NaN"


def test_what_the_first_rank_refuses_every_rank_refuses(ran: tuple[Path, Any]) -> None:
    _, found = ran
    for rank in found:
        assert rank["refused"].startswith("RunError: the run in") and "+ train.lr = 1.0" in rank["refused"]


def test_a_full_disk_ends_all_ranks_with_the_same_sentence(ran: tuple[Path, Any]) -> None:
    """Also when it is found out after the last step."""
    _, found = ran
    for name, step in (("full", 5), ("full at last", 9)):
        first, second = (rank[name] for rank in found)
        assert first.startswith("RunError") and f"stopped after step {step}: No space left on device" in first
        assert f"stopped after step {step}" in second


def test_rows_are_written_once(ran: tuple[Path, Any]) -> None:
    base, _ = ran
    assert [row["step"] for row in read_rows(base / "whole", "train")] == [2, 4, 6, 8, 9]
    kept = checkpoint.read(checkpoint.listed(base / "whole" / "checkpoints")[-1])
    assert len(kept["ranks"]) == 2 and kept["state"]["tokens"] == 9 * 2 * tiny_training.BATCH * tiny_training.LENGTH


def test_one_process_goes_on_with_a_run_of_two_in_steps_of_the_same_tokens(ran: tuple[Path, Any]) -> None:
    base, _ = ran
    rows = read_rows(base / "plain", "train")
    (base / "plain" / "summary.json").unlink()  # as if it had been interrupted
    checkpoint.listed(base / "plain" / "checkpoints")[-1].path.unlink()
    made = tiny_training.config(base, steps=9, validate_every=4)
    summary = tiny_training.go(dataclasses.replace(made, model=tiny_training.without_dropout), base / "plain")
    assert (summary.status, summary.steps, summary.world_size) == ("finished", 9, 1)
    again = read_rows(base / "plain", "train")
    assert [row["loss"] for row in again] == pytest.approx([row["loss"] for row in rows], rel=1e-5)
    assert again[-1]["tokens"] == rows[-1]["tokens"]
