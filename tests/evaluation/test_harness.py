"""Tasks of lm-eval on a run: its figures are those of the built-in kinds, and nothing is fetched."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from helpers.untrained_run import untrained_run

from zoo.errors import ZooError
from zoo.evaluation.tasks import open_task

ROWS = [
    {"question": "Why?", "choices": ["so it is", "no"], "answer": 0},
    {"question": "How much?", "choices": ["a", "bb", "ccc"], "answer": 2},
    {"question": "When?", "choices": ["now", "never"], "answer": 1},
]
CHOICES = """\
task: my_choices
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_bytes, aggregation: mean, higher_is_better: true}}
"""
TEXTS = """\
task: my_texts
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{choices[0]}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 5}}
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
"""
FETCHED = "task: my_fetched\ndataset_path: nobody/has-this\ntest_split: test\noutput_type: multiple_choice\n"


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.evaluation.harness import harness_tasks

    monkeypatch.setitem(__import__("sys").modules, "lm_eval.tasks", None)
    with pytest.raises(ZooError, match=r"pip install 'transformer-zoo\[eval\]'"):
        harness_tasks(["arc_easy"], None, None)


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="the extra eval is not installed")
@torch.no_grad()
def test_the_harness_measures_what_we_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    from zoo.evaluation.harness import harness_model, harness_tasks

    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "tasks").mkdir()
    for name, text in (("choices", CHOICES), ("texts", TEXTS), ("fetched", FETCHED)):
        (tmp_path / "tasks" / f"{name}.yaml").write_text(text.format(data=data))
    run = untrained_run("v4_m1", length=64)
    task, texts = harness_tasks(["my_choices", "my_texts"], tmp_path / "tasks", None)
    found, own = task.measure(run), open_task("choices", str(data)).measure(run)
    assert found.items == 3 and found.kind == "harness" and found.task == "my_choices"
    assert found.measures["acc_bytes"].values == own.measures["accuracy"].values
    assert harness_tasks(["my_choices"], tmp_path / "tasks", 2)[0].identity != task.identity
    written = texts.measure(run)
    assert set(written.measures["exact_match"].values) <= {0.0, 1.0}

    class Request:
        def __init__(self, *args: object) -> None:
            self.args = args

    model = harness_model(run)
    ((whole, greedy),) = model.loglikelihood([Request("", "so it is")])
    (rolling,) = model.loglikelihood_rolling([Request("so it is")])
    assert whole == pytest.approx(rolling, rel=1e-5) and isinstance(greedy, bool)

    for names, folder, complaint in (
        (["my_fetched"], tmp_path / "tasks", "needs the network"),
        (["my_choice"], tmp_path / "tasks", "there is no task my_choice in"),
        (["my_choices"], tmp_path / "nowhere", "is no folder of task files"),
    ):
        with pytest.raises(ZooError) as error:
            harness_tasks(names, folder, None)
        assert complaint in str(error.value)
