from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.made_runs import made_run

import zoo.hub
from zoo.cli import export as export_command
from zoo.errors import ZooError
from zoo.export.export import export_run
from zoo.generation.generate import generate
from zoo.generation.open_run import Run
from zoo.generation.sampling import Sampling

PROMPTS = ("Fellow citizens", "A 1")
LLAMA3 = "{'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0,"
SCALED = f"model.rope_scaling = {LLAMA3} 'original_max_position_embeddings': 16.0}}"
COMPLETEP = ("model.parametrization = 'completep'", "model.base_width = 16", "model.base_depth = 1")


def loaded(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder)


def texts(run: Run) -> list[list[int]]:
    """What zoo-generate --greedy writes."""
    encoded = [run.encode(prompt) for prompt in PROMPTS]
    cache = not run.model.refuses
    made = generate(
        run.model, encoded, run.tokenizer.eos, Sampling(0.0, None, 1.0, 1), max_tokens=12, cache=cache,
        vocab_size=run.tokenizer.vocab_size,
    )  # fmt: skip
    return [text.tokens for text in made]


@pytest.mark.parametrize(
    ("files", "bindings", "architecture"),
    [
        ([], ["model.rope_theta = 500.0"], "LlamaForCausalLM"),
        ([], ["model.tied = False", "model.num_kv_heads = 1", SCALED], "LlamaForCausalLM"),
        ([], COMPLETEP, "LlamaForCausalLM"),
        (["blocks/modern"], COMPLETEP, "Qwen3ForCausalLM"),
        (["hosts/parallel"], [], "ZooForCausalLM"),
        (["wr_8_2_gains"], [], "ZooForCausalLM"),
        (["denseformer", "v4_m1"], ["model.positions = 'none'"], "ZooForCausalLM"),
        (["hybrids/two_of_three"], ["model.depth = 3", "temporal_mixing.wr_8_2.n = 3"], "ZooForCausalLM"),
        (["wr_9_log"], [], "ZooForCausalLM"),  # which cannot be decoded step by step
    ],
)
def test_transformers_computes_and_writes_the_same(
    tmp_path: Path, files: list[str], bindings: list[str], architecture: str
) -> None:
    run = made_run(tmp_path, files, bindings)
    exported = export_run(run, tmp_path / "out")
    assert exported == (architecture, ("a note",))
    theirs = loaded(tmp_path / "out")
    assert type(theirs).__name__ == architecture and not theirs.training
    assert run.model.num_parameters() == sum(p.numel() for p in theirs.parameters())
    tokens = torch.randint(256, (2, 40), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = run.model(tokens)
        assert expected.abs().max() > 1  # the comparison has something to compare
        torch.testing.assert_close(theirs(tokens).logits, expected, rtol=1e-5, atol=1e-5)
    for prompt, text in zip(PROMPTS, texts(run), strict=True):
        begun = torch.tensor([run.encode(prompt)])
        written = theirs.generate(begun, max_new_tokens=12)[0, begun.size(1) :].tolist()
        assert written[: len(text)] == text and max(written) < run.tokenizer.vocab_size, prompt


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("recurrent")
    run = made_run(folder, ["wr_8_2_gains"])
    export_run(run, folder / "out")
    return run, folder / "out"


def test_sampling_and_beams_work_with_the_state(recurrent: tuple[Run, Path]) -> None:
    run, folder = recurrent
    theirs, begun = loaded(folder), torch.tensor([run.encode("A")])
    for choice in ({"do_sample": True, "num_return_sequences": 2, "top_p": 0.9}, {"num_beams": 3}):
        made = []
        for use_cache in (True, False):
            torch.manual_seed(0)
            made.append(theirs.generate(begun, max_new_tokens=8, use_cache=use_cache, **choice))
        assert torch.equal(*made), choice


def test_what_the_page_says_works(recurrent: tuple[Run, Path], monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    run, folder = recurrent
    page = (Path(__file__).parents[2] / "docs/hub.md").read_text("utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(folder.parent)
    exec(compile(snippet.replace('"exported"', '"out"'), "docs/hub.md", "exec"), {})
    assert capsys.readouterr().out.startswith("The state of the union")


def test_labels_give_the_loss(recurrent: tuple[Run, Path]) -> None:
    run, folder = recurrent
    tokens = torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(0))
    theirs = loaded(folder).train()
    loss = theirs(tokens, labels=tokens).loss
    torch.testing.assert_close(loss, run.model.loss(tokens[:, :-1], tokens[:, 1:]))
    loss.backward()
    assert all(p.grad is not None for p in theirs.parameters())


def test_only_padding_at_the_end_is_taken(recurrent: tuple[Run, Path]) -> None:
    theirs = loaded(recurrent[1])
    tokens = torch.randint(256, (2, 6), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    with torch.no_grad():
        padded, whole = (theirs(tokens, attention_mask=m, use_cache=False).logits for m in (mask, None))
    assert torch.equal(padded, whole)
    with pytest.raises(ValueError, match="has no mask: texts of several lengths are padded at their end"):
        theirs(tokens, attention_mask=mask.flip(1), use_cache=False)
    with pytest.raises(ValueError, match="takes input_ids"):
        theirs(inputs_embeds=torch.zeros(1, 2, 32))


def test_a_model_can_be_saved_again(recurrent: tuple[Run, Path], tmp_path: Path) -> None:
    theirs = loaded(recurrent[1])
    theirs.save_pretrained(tmp_path)
    again = loaded(tmp_path)
    assert isinstance(again, zoo.hub.ZooForCausalLM)
    assert all(torch.equal(p, q) for p, q in zip(theirs.parameters(), again.parameters(), strict=True))


def test_weights_may_be_half_as_large(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    export_run(run, tmp_path / "whole")
    export_run(run, tmp_path / "half", "bfloat16")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half")]
    assert 1.8 < sizes[0] / sizes[1] < 2.1
    with torch.no_grad():
        tokens = torch.tensor([run.encode("A")])
        torch.testing.assert_close(
            loaded(tmp_path / "half")(tokens).logits.float(), run.model(tokens), rtol=0.1, atol=0.1
        )


def test_a_plain_run_goes_in_again(tmp_path: Path) -> None:
    """What is exported can be started from."""
    from zoo.config.load import load_config

    run = made_run(tmp_path, ["blocks/modern"])
    export_run(run, tmp_path / "out")
    config = load_config([], [f"model.start_from = {str(tmp_path / 'out')!r}"])
    again = config.build("model", vocab_size=run.tokenizer.padded_size, max_length=48).eval()
    tokens = torch.tensor([run.encode("A b c")])
    with torch.no_grad():
        assert torch.equal(again(tokens), run.model(tokens))


def test_a_missing_method_is_a_sentence(recurrent: tuple[Run, Path], tmp_path: Path) -> None:
    config = json.loads((recurrent[1] / "config.json").read_text())
    config["settings"]["model.temporal_mixing"] = "@temporal_mixing.of_a_stranger"
    config["methods"] = [
        {"slot": "temporal_mixing", "id": "of_a_stranger", "distribution": "strange-methods", "version": "1.2"}
    ]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        ZooError, match=r"no temporal_mixing method of_a_stranger.*of strange-methods 1.2: install that"
    ):
        zoo.hub.ZooForCausalLM(zoo.hub.ZooConfig.from_pretrained(tmp_path))


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("model.depth", "2\nmodel.width = 64", "is not one setting"),
        ("model.residual", "@train", "names no method"),
        ("model.of_late", "1", "this version builds no model of these settings"),
    ],
)
def test_a_strange_config_is_a_sentence(recurrent: tuple[Run, Path], key: str, value: str, sentence: str) -> None:
    settings = json.loads((recurrent[1] / "config.json").read_text())["settings"] | {key: value}
    with pytest.raises(ZooError, match=sentence):
        zoo.hub.ZooForCausalLM(zoo.hub.ZooConfig(settings, [], 320, 48))


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ZooError, match="is not empty: name a folder that is not there yet"):
        export_run(run, tmp_path)
    with pytest.raises(ZooError, match="is not empty"):
        export_run(run, tmp_path / "file")
    (tmp_path / "empty").mkdir()
    export_run(run, tmp_path / "empty")
    assert (tmp_path / "empty/config.json").exists() and not (tmp_path / "empty.part").exists()


def test_a_tokenizer_without_a_tokenizer_json_stays_as_it_is(tmp_path: Path, monkeypatch) -> None:
    from zoo.errors import DataError
    from zoo.export import export

    def refuse(*_: object) -> dict[str, str]:
        raise DataError("no such thing")

    monkeypatch.setattr(export, "tokenizer_files", refuse)
    exported = export_run(made_run(tmp_path), tmp_path / "out")
    assert exported.notes[1].startswith("no such thing: the folder has it as the zoo does, in tokenizer.model")
    assert (tmp_path / "out/tokenizer.model").exists() and not (tmp_path / "out/tokenizer.json").exists()


def test_without_transformers_there_is_a_sentence(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "zoo.hub")
    with pytest.raises(ImportError, match=r"pip install 'transformer-zoo\[hf\]'"):
        importlib.import_module("zoo.hub")


def test_the_command_says_what_it_wrote_for_people_and_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, ["wr_8_2_gains"])
    monkeypatch.setattr("zoo.generation.open_run.open_run", lambda folder, step: run)
    assert export_command.main(["a/run", str(tmp_path / "one")]) == 0
    told = capsys.readouterr()
    assert told.out == f"{tmp_path / 'one'}: a ZooForCausalLM, for AutoModelForCausalLM.from_pretrained\n"
    assert "a note" in told.err
    assert export_command.main(["a/run", str(tmp_path / "two"), "--dtype", "bfloat16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "folder": str(tmp_path / "two"),
        "run": "a/run",
        "step": run.step,
        "dtype": "bfloat16",
        "parameters": run.model.num_parameters(),
        "architecture": "ZooForCausalLM",
        "notes": ["a note"],
    }
