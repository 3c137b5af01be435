"""What the first steps of a run show of its methods."""

import pytest
import torch

import zoo
from zoo.training.early_checks import Early


@pytest.mark.parametrize("methods", ["mamba2", ("mamba2", None)], ids=["all layers", "every other layer"])
def test_layers_without_attention_are_looked_at_as_well(methods):
    model = zoo.build(temporal_mixing=methods, vocab_size=64, max_length=16, depth=2, width=32)
    early = Early(model, 0, 1)
    assert early.methods == ["mamba2"] and early.silent
    tokens = torch.randint(64, (2, 17))
    model.loss(tokens[:, :-1], tokens[:, 1:]).backward()
    assert early.after_backward(1) == []


def test_a_parameter_without_a_gradient_is_named():
    model = zoo.build("wr_8_2_gains", vocab_size=64, max_length=16, depth=2, width=32)
    (message,) = Early(model, 0, 1).after_backward(1)
    assert "parameters of wr_8_2_gains never received a gradient in the first 1 steps" in message
