from __future__ import annotations

import dataclasses
from pathlib import Path

from helpers.made_runs import made_run
from helpers.pretend_bench import leave_run

from zoo.export.model_card import model_card
from zoo.runs.summary import read_summary


def test_a_card_says_what_it_is_and_how_to_load_it(tmp_path: Path) -> None:
    plain = model_card(made_run(tmp_path), "LlamaForCausalLM")
    assert plain.startswith("---\nlibrary_name: transformers\n") and "# baseline\n" in plain
    assert "`LlamaForCausalLM`: a plain transformer" in plain and "import zoo" not in plain
    assert "has not ended, so there are no final figures" in plain
    method = model_card(made_run(tmp_path, ["wr_8_2_gains"]), "ZooForCausalLM")
    assert 'tags: ["transformer-zoo", "wr_8_2_gains"]' in method
    assert "import zoo  # pip install 'transformer-zoo[hf]'; its methods are those of transformer-zoo 0.1.0" in method
    parallel = model_card(made_run(tmp_path, ["hosts/parallel"]), "ZooForCausalLM")
    assert "import zoo  # pip install 'transformer-zoo[hf]'\n" in parallel


def test_a_card_has_the_figures_and_nothing_of_the_machine(tmp_path: Path) -> None:
    run = tmp_path / "run"
    leave_run(run, 3.25, steps=4)
    summary = read_summary(run)
    assert summary is not None
    spoilt = dataclasses.replace(
        summary, corpus_name="/home/me/<b>secret | texts", alarm="it <i>leaks</i>", device="gpu"
    )
    (run / "summary.json").unlink()
    spoilt.write(run)
    card = model_card(made_run(run), "LlamaForCausalLM")
    assert "3.25" in card and "The figures are those of step 4." in card and "ALARM" in card
    assert "/home/me" not in card and str(tmp_path) not in card and "tensorboard" not in card and "gpu" not in card
    assert r"\<b>secret \| texts" in card and r"it \<i>leaks" in card  # no HTML, and no further column
