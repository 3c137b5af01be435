"""A run without methods as the Llama that it is: its sizes and weights as transformers has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from zoo.pretrained.names import Heads, to_theirs
from zoo.pretrained.sizes import config_of

if TYPE_CHECKING:
    from zoo.config.configuration import Config
    from zoo.model.language_model import LanguageModel


def is_llama(config: Config) -> bool:
    """Whether transformers computes what this model does with a class of its own."""
    return not config.plugins and not config.get("model.parallel") and config.get("model.positions") == "rotary"


def llama_config(config: Config, model: LanguageModel) -> dict[str, Any]:
    """The config.json of a model without methods."""
    layer: Any = model.layers[0].layer
    sizes = {"depth": layer.num_layers} | {name: getattr(layer, name) for name in ("width", "ffn_dim", "head_dim")}
    sizes |= {name: getattr(layer, name) for name in ("num_heads", "num_kv_heads", "norm_eps")}
    chosen = {name: config.get(f"model.{name}") for name in ("qk_norm", "rope_theta", "rope_scaling", "tied")}
    settings = {f"model.{name}": value for name, value in {**sizes, **chosen}.items()}
    return config_of(settings, model.embed.weight.size(0), model.max_seq_len)


def llama_weights(config: Config, model: LanguageModel) -> dict[str, Tensor]:
    """Its weights under the names of transformers."""
    weights = dict(model.state_dict())
    if config.get("model.parametrization") == "completep":
        _fold_scales(model, weights)
    layer: Any = model.layers[0].layer
    return to_theirs(weights, Heads(layer.num_heads, layer.num_kv_heads))


def _fold_scales(model: LanguageModel, weights: dict[str, Tensor]) -> None:
    """Put what CompleteP multiplies by into the weights: a Llama has no such factors."""
    weights["norm.gain"] = weights["norm.gain"] / model.scaling.width
    for index, block in enumerate(model.layers):
        layer: Any = block.layer
        start, of_queries = f"layers.{index}.", layer.head_dim**-0.5
        for name in (f"{start}attention.out", f"{start}ffn.down"):
            weights[name] = weights[name] / model.scaling.depth
        gain, qkv = f"{start}attention.q_norm.gain", f"{start}attention.qkv"
        if gain in weights:
            weights[gain] = weights[gain] * of_queries
        else:
            weights[qkv] = weights[qkv].clone()
            weights[qkv][: layer.num_heads * layer.head_dim] *= of_queries
