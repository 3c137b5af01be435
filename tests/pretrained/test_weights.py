from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.small_checkpoints import write_checkpoint

from zoo.config.load import load_config
from zoo.errors import ZooError
from zoo.model.language_model import LanguageModel

TOKENS = torch.randint(300, (2, 24), generator=torch.Generator().manual_seed(0))
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def started(folder: Path, *files: str, rows: int = 320, **given: Any) -> LanguageModel:
    """A model that starts from a checkpoint, with methods."""
    config = load_config(files, [f"model.start_from = {str(folder)!r}"])
    built: LanguageModel = config.build("model", vocab_size=rows, max_length=64, **given)
    return built.eval()


def apart(built: LanguageModel, theirs: Any) -> float:
    with torch.no_grad():
        expected = theirs(TOKENS).logits
        assert expected.abs().max() > 1  # the comparison has something to compare
        return float((built(TOKENS) - expected).abs().max())


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("Llama", {}),
        ("Llama", {"num_key_value_heads": 4, "tie_word_embeddings": True, "shards": True}),
        (
            "Llama",
            {"head_dim": 16, "rope_theta": 5e5, "rope_scaling": {**LLAMA3, "original_max_position_embeddings": 16}},
        ),
        (
            "Llama",
            {"num_key_value_heads": 1, "rope_scaling": {"rope_type": "linear", "factor": 3.0}, "rms_norm_eps": 1e-3},
        ),
        ("Mistral", {"sliding_window": None}),
        ("Qwen3", {"head_dim": 8}),
    ],
)
def test_logits_are_those_of_transformers(tmp_path: Path, kind: str, config: dict[str, Any]) -> None:
    theirs = write_checkpoint(tmp_path, kind, **config)
    assert apart(started(tmp_path), theirs) < 1e-5


def test_a_method_keeps_its_own_start(tmp_path: Path) -> None:
    theirs = write_checkpoint(tmp_path)
    for method in ("denseformer", "hc_static", "layer_scale"):  # the last one starts as something else
        built = started(tmp_path, method)
        own = {id(p) for extension in built.extensions() for p in extension.parameters()}
        fresh = started(tmp_path, method, start_from=None)
        assert own and all(
            torch.equal(p, q) for p, q in zip(built.parameters(), fresh.parameters(), strict=True) if id(p) in own
        )
        assert (apart(built, theirs) < 1e-5) == (method != "layer_scale"), method


def test_weights_whose_place_a_method_takes_are_left_out(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    (note,) = started(tmp_path, "post_norm").notes
    assert "have no place beside this method: model.layers.0.input_layernorm.weight and 3 more" in note
    assert started(tmp_path).notes == ()


def test_the_tokenizer_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    with pytest.raises(ZooError, match="has a vocabulary of 320 and this model one of 512: leave data.tokenizer"):
        started(tmp_path, rows=512)


def test_other_sizes_are_refused_by_name(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    with pytest.raises(ZooError, match="model.rope_theta is 3.0 here and 10000.0 there"):
        started(tmp_path, rope_theta=3.0)
    with pytest.raises(ZooError, match="model.parallel is True here"):
        started(tmp_path, parallel=True)


def test_files_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 64}))
    with pytest.raises(
        ZooError, match=r"mlp.gate_proj.weight is \(48, 32\), and this model needs \(64, 32\).* and 1 more"
    ):
        started(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ZooError, match="lacks model.layers.2.input_layernorm.weight, .* and 4 more"):
        started(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(ZooError, match="model.safetensors cannot be read"):
        started(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ZooError, match="has no model.safetensors and no model.safetensors.index.json"):
        started(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../1.safetensors"}}')
    with pytest.raises(ZooError, match="has no 1.safetensors, which model.safetensors.index.json names"):
        started(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": 3}')
    with pytest.raises(ZooError, match="index.json is damaged"):
        started(tmp_path)


def test_a_script_builds_one_by_its_methods(tmp_path: Path) -> None:
    import zoo

    theirs = write_checkpoint(tmp_path)
    built = zoo.build("denseformer", vocab_size=320, max_length=64, start_from=str(tmp_path)).eval()
    assert apart(built, theirs) < 1e-5
    with pytest.raises(ZooError, match="model.depth is 3 here and 2 there"):
        zoo.build(vocab_size=320, start_from=str(tmp_path), depth=3)
