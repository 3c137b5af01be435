from __future__ import annotations

from typing import Any

import pytest
import torch

from zoo.errors import SettingError
from zoo.model.positions import Rotary
from zoo.model.rope_scaling import RopeScaling, rope_scaling

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
WHOLE = {**LLAMA3, "original_max_position_embeddings": 64.0}


def test_linear_scaling_slows_positions_down() -> None:
    plain, slow = Rotary(8, 100.0), Rotary(8, 100.0, RopeScaling(2.0))
    cpu = torch.device("cpu")
    torch.testing.assert_close(slow.table(0, 9, cpu)[::2], plain.table(0, 5, cpu))


@pytest.mark.parametrize("setting", [{"rope_type": "linear", "factor": 3.0}, WHOLE])
def test_frequencies_are_those_of_transformers(setting: dict[str, Any]) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(hidden_size=64, num_attention_heads=2, rope_scaling=dict(setting))
    theirs, _ = ROPE_INIT_FUNCTIONS[setting["rope_type"]](config, torch.device("cpu"))
    scaled = rope_scaling(setting)
    assert scaled is not None
    plain = 10000.0 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)
    torch.testing.assert_close(scaled(plain).float(), theirs)
    assert not torch.equal(scaled(plain), plain)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"rope_type": "yarn", "factor": 2.0}, "must be {'rope_type': 'linear'"),
        (LLAMA3, "must be {'rope_type': 'linear'"),
        ({**WHOLE, "low_freq_factor": 4.0}, "low_freq_factor below high_freq_factor"),
        ({"rope_type": "linear", "factor": 0.0}, "numbers above 0"),
        ({"rope_type": "linear", "factor": "2"}, "numbers above 0"),
    ],
)
def test_other_scalings_are_refused(setting: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        rope_scaling(setting)
