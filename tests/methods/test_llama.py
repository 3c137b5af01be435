"""The plain defaults compute exactly what a Llama block computes."""

from __future__ import annotations

import pytest
import torch
from helpers.random_models import VOCAB, random_model, tokens

from zoo.model.build import model
from zoo.model.language_model import LanguageModel


def pairs_to_halves(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rotary pairs stand side by side here, and half a head apart in transformers."""
    d = weight.size(0) // heads
    return weight.view(heads, d // 2, 2, -1).transpose(1, 2).reshape_as(weight)


def llama_with_weights_of(built: LanguageModel, tied: bool):
    from transformers import LlamaConfig, LlamaForCausalLM

    layer = built.layers[0].layer
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=layer.width,
        intermediate_size=layer.ffn_dim,
        num_hidden_layers=layer.num_layers,
        num_attention_heads=layer.num_heads,
        num_key_value_heads=layer.num_kv_heads,
        rms_norm_eps=layer.norm_eps,
        rope_theta=10000.0,
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    llama = LlamaForCausalLM(config).eval()
    weights = {"model.embed_tokens.weight": built.embed.weight, "model.norm.weight": built.norm.gain}
    weights["lm_head.weight"] = built.output_weight()
    for i, block in enumerate(built.layers):
        q, k, v = block.attention.qkv.split([n * layer.head_dim for n in block.attention.heads])
        gate, up = block.ffn.gate_up.chunk(2)
        weights |= {
            f"model.layers.{i}.input_layernorm.weight": block.attention_norm.gain,
            f"model.layers.{i}.self_attn.q_proj.weight": pairs_to_halves(q, layer.num_heads),
            f"model.layers.{i}.self_attn.k_proj.weight": pairs_to_halves(k, layer.num_kv_heads),
            f"model.layers.{i}.self_attn.v_proj.weight": v,
            f"model.layers.{i}.self_attn.o_proj.weight": block.attention.out,
            f"model.layers.{i}.post_attention_layernorm.weight": block.ffn_norm.gain,
            f"model.layers.{i}.mlp.gate_proj.weight": gate,
            f"model.layers.{i}.mlp.up_proj.weight": up,
            f"model.layers.{i}.mlp.down_proj.weight": block.ffn.down,
        }
    llama.load_state_dict(weights)
    return llama


@pytest.mark.parametrize(("kv_heads", "tied"), [(4, True), (4, False), (2, False), (1, True)])
def test_logits_equal_transformers_llama(kv_heads: int, tied: bool) -> None:
    built = random_model(dtype=torch.float32, depth=3, num_kv_heads=kv_heads, tied=tied)
    llama = llama_with_weights_of(built, tied)
    inputs = tokens(2, 16)
    with torch.no_grad():
        ours, theirs = built(inputs), llama(inputs).logits
    assert theirs.abs().max() > 1  # the comparison has something to compare
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    loss = torch.nn.functional.cross_entropy(theirs[:, :-1].flatten(0, 1), inputs[:, 1:].flatten())
    torch.testing.assert_close(built.loss(inputs[:, :-1], inputs[:, 1:]), loss, rtol=1e-5, atol=1e-5)


def test_the_start_follows_the_width() -> None:
    """At the width of GPT-2 its usual 0.02, and wider spread where fewer inputs are summed."""
    for width, std in ((768, 0.02), (192, 0.04), (48, 0.08)):
        built = model(64, 8, depth=1, width=width, head_dim=16)
        assert built.layers[0].ffn.gate_up.std().item() == pytest.approx(std, rel=0.05)
    assert model(64, 8, depth=1, width=48, head_dim=16, init_std=0.3).embed.weight.std().item() > 0.25
