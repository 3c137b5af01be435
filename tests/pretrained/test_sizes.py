from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zoo.errors import SettingError
from zoo.pretrained.sizes import STATED, config_of, differences, read_sizes, sizes_of

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "vocab_size": 100,
}


def test_sizes_are_settings() -> None:
    sizes = sizes_of({**LLAMA, "num_key_value_heads": 2, "rope_theta": 5e5, "tie_word_embeddings": True}, "here")
    assert sizes.vocab_size == 100 and set(sizes.settings) == set(STATED)
    small = {key.removeprefix("model."): value for key, value in sizes.settings.items()}
    assert (small["depth"], small["width"], small["ffn_dim"], small["head_dim"]) == (3, 64, 96, 16)
    assert (small["num_heads"], small["num_kv_heads"], small["tied"], small["qk_norm"]) == (4, 2, True, False)
    assert (small["rope_theta"], small["rope_scaling"], small["norm_eps"]) == (5e5, None, 1e-6)


def test_what_a_config_leaves_out_is_as_in_transformers() -> None:
    settings = sizes_of(LLAMA, "here").settings
    assert settings["model.num_kv_heads"] == 4 and not settings["model.tied"]
    qwen = {**LLAMA, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    assert sizes_of(qwen, "here").settings["model.head_dim"] == 128 and sizes_of(qwen, "here").settings["model.qk_norm"]


def test_positions_may_be_scaled_in_the_older_and_the_newer_notation() -> None:
    linear = {"rope_type": "linear", "factor": 4.0}
    for stated in ({"type": "linear", "factor": 4.0}, linear):
        assert sizes_of({**LLAMA, "rope_scaling": stated}, "here").settings["model.rope_scaling"] == linear
    newer = sizes_of({**LLAMA, "rope_parameters": {**linear, "rope_theta": 7.0}}, "here").settings
    assert newer["model.rope_scaling"] == linear and newer["model.rope_theta"] == 7.0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "is GPT2LMHeadModel: a plain block can take"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "is LlamaForSequenceClassification"),
        ({"model_type": None}, "has a config.json without model_type"),
        ({"model_type": "zoo"}, "is a run of the zoo with methods"),
        ({"model_type": ["llama"]}, "a plain block can take"),
        ({"attention_bias": True}, r"biases in attention \(attention_bias\)"),
        ({"mlp_bias": True, "hidden_act": "gelu"}, "biases in the FFN .* and the activation gelu"),
        ({"model_type": "mistral", "architectures": None}, "a window"),
        ({"quantization_config": {"bits": 4}}, "quantised"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "scales its positions by 'yarn', and only linear and"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor in its config.json is None"),
        ({"rope_scaling": "linear"}, "its rope_scaling is 'linear'"),
        ({"hidden_size": "64"}, "hidden_size in its config.json is '64', and must be a number above 0"),
        ({"num_hidden_layers": 0}, "num_hidden_layers in its config.json is 0"),
        ({"rms_norm_eps": -1}, "rms_norm_eps in its config.json is -1"),
    ],
)
def test_what_no_plain_block_computes_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        sizes_of({**LLAMA, **change}, "here")


@pytest.mark.parametrize(("text", "sentence"), [(None, "cannot be read"), ("[]", "is damaged"), ("{", "is damaged")])
def test_a_config_that_cannot_be_read_is_a_sentence(tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(SettingError, match=sentence):
        read_sizes(str(tmp_path))


@pytest.mark.parametrize("qk_norm", [False, True])
def test_settings_become_a_config_and_settings_again(qk_norm: bool) -> None:
    scaling = {"rope_type": "linear", "factor": 2.0}
    settings = {**sizes_of(LLAMA, "here").settings, "model.qk_norm": qk_norm, "model.rope_scaling": scaling}
    config = json.loads(json.dumps(config_of(settings, 100, 32)))
    assert sizes_of(config, "there") == (100, 32, settings)


def test_an_exported_scaling_is_one_that_transformers_does_not_complain_about(caplog: pytest.LogCaptureFixture) -> None:
    from transformers import LlamaConfig
    from transformers.utils.logging import get_logger

    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    settings = {**sizes_of(LLAMA, "here").settings, "model.qk_norm": False}
    settings["model.rope_scaling"] = {**llama3, "original_max_position_embeddings": 16.0}
    get_logger("transformers").addHandler(caplog.handler)
    LlamaConfig(**config_of(settings, 100, 32))
    get_logger("transformers").removeHandler(caplog.handler)
    assert caplog.text == ""


def test_differences_name_the_settings() -> None:
    wrong = differences(sizes_of(LLAMA, "here"), {"model.depth": 4, "model.width": 64, "train.lr": 1.0})
    assert wrong == {"model.depth": "model.depth is 4 here and 3 there"}
