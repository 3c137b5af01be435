"""What was exported, and checkpoints of others, on tasks: the figures of the run that they were, without transformers."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.made_runs import made_run
from helpers.small_checkpoints import write_checkpoint, write_tokenizer

import zoo
from zoo.errors import ZooError
from zoo.evaluation.outcomes import FILE
from zoo.evaluation.tasks import open_task
from zoo.export.export import export_run
from zoo.export.open_export import open_export, open_subject
from zoo.generation.open_run import Run

ROWS: Mapping[str, list[dict[str, Any]]] = {
    "corpus": [{"text": "short"}, {"text": "ünï\ncode"}, {"text": "longer than what the model sees at once " * 3}],
    "pairs": [{"sentence_good": "one two", "sentence_bad": "two one"}, {"sentence_good": "x", "sentence_bad": "xy"}],
    "cloze": [{"text": "the end is near"}, {"text": "to be or not <|endoftext|>"}],
    "choices": [{"context": "Why?", "choices": ["so it is", "no"], "answer": 0}],
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tasks")
    for kind, rows in ROWS.items():
        (folder / f"{kind}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {kind: str(folder / f"{kind}.jsonl") for kind in ROWS}


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("recurrent")
    run = made_run(folder, ["wr_8_2_gains"], ["train.seed = 5"])
    export_run(run, folder / "out")
    return run, folder / "out"


@pytest.mark.parametrize(
    ("files", "bindings", "name"),
    [
        ([], ["model.tied = False", "model.num_kv_heads = 1"], "baseline"),
        (
            ["blocks/modern"],
            ["model.parametrization = 'completep'", "model.base_width = 16", "model.base_depth = 1"],
            "baseline",
        ),
        (["denseformer", "v4_m1"], ["model.positions = 'none'"], "denseformer+v4_m1"),
    ],
    ids=["Llama", "Qwen3", "Zoo"],
)
def test_figures_are_those_of_the_run(
    tmp_path: Path, tasks: dict[str, str], files: list[str], bindings: list[str], name: str
) -> None:
    """With a tokenizer of Hugging Face, whose names of special tokens are plain text inside a text."""
    write_tokenizer(tmp_path)
    run = made_run(tmp_path, files, [*bindings, "train.seed = 3"], str(tmp_path))
    export_run(run, tmp_path / "out")
    export = open_subject(tmp_path / "out")
    for kind, source in tasks.items():
        task = open_task(kind, source)
        ours, its = task.measure(run), task.measure(export)
        assert (its.name, its.seed, its.step) == (ours.name, ours.seed, ours.step) == (name, 3, 7)
        assert its.notes == ours.notes and its.run != ours.run
        for figure, measure in ours.measures.items():
            assert its.measures[figure].values == pytest.approx(measure.values, rel=1e-5, abs=1e-5), (kind, figure)
            assert its.measures[figure].weights == measure.weights
        assert zoo.compare(its, ours).mean == pytest.approx(0, abs=1e-5)


@torch.no_grad()
def test_a_checkpoint_of_others_is_asked_as_transformers_is(tmp_path: Path, tasks: dict[str, str]) -> None:
    """Its texts begin with the token that its config.json names, which is not the one that ends them."""
    theirs = write_checkpoint(tmp_path, shards=True, bos_token_id=7)
    export = open_subject(tmp_path)
    assert (export.name, export.seed, export.step, export.begin) == ("LlamaForCausalLM", 0, 0, 7)
    assert export.model.max_seq_len == 128 and export.tokenizer.eos == 0
    found = zoo.evaluate(str(tmp_path), "corpus", tasks["corpus"])
    expected = []
    for row in ROWS["corpus"]:
        tokens = torch.tensor([[7, *export.tokenizer.encode([row["text"]])[0].tolist(), 0]])
        expected.append(theirs(tokens, labels=tokens).loss.item() * (tokens.size(1) - 1))
    assert found.measures["loss"].values == pytest.approx(expected, rel=1e-5)


def test_a_key_follows_weights_and_tokenizer_but_not_the_place(recurrent: tuple[Run, Path], tmp_path: Path) -> None:
    first = open_export(recurrent[1])
    copy = Path(shutil.copytree(recurrent[1], tmp_path / "bytes"))  # a name that a tokenizer has too
    (copy / FILE).touch()
    assert open_export(copy).key == first.key
    write_tokenizer(copy, "other pieces")
    other = open_export(copy).key
    run = recurrent[0]._replace(model=deepcopy(recurrent[0].model))
    with torch.no_grad():
        run.model.norm.gain[0] += 0.5
    export_run(run, tmp_path / "later")
    assert len({first.key, other, open_export(tmp_path / "later").key}) == 3


def test_methods_of_another_version_are_noted(recurrent: tuple[Run, Path], tmp_path: Path) -> None:
    assert open_export(recurrent[1]).notes == ()
    copy = Path(shutil.copytree(recurrent[1], tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    config["methods"][0]["version"] = "0.0.1"
    (copy / "config.json").write_text(json.dumps(config))
    (note,) = open_export(copy).notes
    assert "the run was made with" in note and note.endswith(" 0.0.1")


def test_a_model_that_transformers_saved_again_is_opened(recurrent: tuple[Run, Path], tmp_path: Path) -> None:
    from zoo.hub import ZooForCausalLM

    ZooForCausalLM.from_pretrained(recurrent[1]).save_pretrained(tmp_path, max_shard_size="20KB")
    shutil.copy(recurrent[1] / "tokenizer.json", tmp_path)
    again, first = open_export(tmp_path), open_export(recurrent[1])
    assert (again.name, again.seed, again.step) == (first.name, 5, 7)
    tokens = torch.tensor([first.encode("A b c")])
    with torch.no_grad():
        assert torch.equal(again.model(tokens), first.model(tokens))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"settings": None}, "config.json has no settings of a model: export the run again"),
        ({"settings": {"model.depth": 2}}, "config.json has no settings of a model"),
        ({"methods": [{}]}, "config.json does not say which methods its model has"),
        ({"vocab_size": -1}, r"config.json: model.vocab_size = -1 must be from 1"),
        ({"max_position_embeddings": "48"}, "config.json: this version builds no model of these settings"),
        ({"vocab_size": 384}, "the weights in .* do not fit the model of its config.json: .*size mismatch"),
        (
            {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]},
            "/out is GPT2LMHeadModel: a plain block can take",
        ),
        ({"model_type": "llama", "architectures": {}, "hidden_size": 0}, "/out: hidden_size in its config.json is 0"),
    ],
)
def test_a_strange_config_is_a_sentence(
    recurrent: tuple[Run, Path], tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    copy = Path(shutil.copytree(recurrent[1], tmp_path / "out"))
    config = json.loads((copy / "config.json").read_text()) | change
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ZooError, match=sentence) as error:
        open_subject(copy)
    assert "start_from" not in str(error.value)


def test_a_folder_that_lacks_something_is_a_sentence(recurrent: tuple[Run, Path], tmp_path: Path) -> None:
    for missing, sentence in (
        (
            "config.json",
            "out is not the folder of a run, which has a config.gin, nor of a model of transformers, which",
        ),
        ("model.safetensors", "out has no model.safetensors"),
        ("tokenizer.json", "out has neither a tokenizer.json nor a tokenizer.model: put one there"),
    ):
        copy = Path(shutil.copytree(recurrent[1], tmp_path / missing / "out"))
        (copy / missing).unlink()
        with pytest.raises(ZooError) as error:
            open_subject(copy)
        assert sentence in str(error.value) and "start_from" not in str(error.value)
    (copy / "config.json").write_text("{")
    with pytest.raises(ZooError, match="config.json is damaged"):
        open_subject(copy)
    with pytest.raises(ZooError, match="there is no .*nowhere"):
        open_subject(tmp_path / "nowhere")
    write_checkpoint(tmp_path / "small", vocab_size=200)
    with pytest.raises(ZooError, match="has 300 tokens and its model 200: put the model's own there"):
        open_subject(tmp_path / "small")


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="the extra eval is not installed")
@torch.no_grad()
def test_the_harness_asks_an_export_as_its_run(recurrent: tuple[Run, Path]) -> None:
    from zoo.evaluation.harness import harness_model

    class Request:
        def __init__(self, *args: object) -> None:
            self.args = args

    ours, its = harness_model(recurrent[0]), harness_model(open_export(recurrent[1]))
    asked = [Request("one two", " three"), Request("", "seven")]
    for (one, _), (other, _) in zip(ours.loglikelihood(asked), its.loglikelihood(asked), strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    text = [Request("one two", {"until": ["\n"], "max_gen_toks": 5})]
    assert ours.generate_until(text) == its.generate_until(text)
