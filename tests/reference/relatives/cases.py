"""Small weights, sizes, tokens and parameters for the references."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..blocks import LayerWeights, Weights
from . import REFERENCES
from .host import Layer, Model, Params
from .starts import draw

VOCABULARY, MAX_LENGTH, EPS = 11, 16, 1e-5
HOSTS = ["sequential", "parallel"]

# a mixer where something else follows it, and every second layer left alone
PLACES = [{"site": "ffn"}, {"site": "attention_input", "residual": False}, {"every": 2}]

# settings that differ from the defaults, beside the defaults themselves
VARIANTS = {
    "rezero": [{"shared": False}, {"prenorm": True}],
    "highway": [{"coupled": False}, {"scalar": True}],
    "laurel_lr": [{"rank": 2}],
    "laurel_pa": [{"rank": 2}, {"low_rank_map": False}],
    "unet_skips": [{"sigmoid": True}],
    "backout": [{"layer": 0}],
    "denseformer": [{"dilation": 2}, {"dilation": 2, "period": 3}, {"period": 2}],
    "mudd": [{"rounded": True}],
    "grn_v3": [{"normed": True}],
    "dca": [{"kappa": 1}, {"kappa": 2, "normed": True}],
    "attnres_block": [{"size": 1}, {"size": 3}],
    "hc_static": [{"n": 2, "sum": True}],
    "hc_dynamic": [{"n": 2}, {"n": 1}, {"n": 3, "rms": True, "affine": True}],
    "mhc": [{"n": 2}, {"iterations": 3, "floor": 1e-6}, {"n": 2, "head": True}],
    "frac_dynamic": [{"n": 4, "affine": False}],
    "peri_ln": [{"embedding_norm": True}],
    "value_residual_learned": [{"layers": (3,)}],
    "lime": [{"zero": True}],
    "gated_attention": [{"doubled": True}],
    "differential": [{"norm": False}, {"values": "pair"}],
    "cosine_attention": [{"norm": False}],
    "sigmoid_attention": [{"bias": 0.0}],
    "canon_c": [{"residual": False, "taps": 2}],
    "canon": [{"sites": "BD"}],
    "token_shift": [{"sites": ("ffn",)}, {"ffn_power": 4}],
    "token_shift_lora": [{"rank": 2, "sites": ("attention_input",)}],
    "smear": [{"dims": 3}],
    "griffin": [*PLACES, {"width": 16, "blocks": 2, "ring": "paper"}],
    "rg_lru": [{"site": "attention", "blocks": 2}, {"residual": False}, {"every": 2}],
    "min_gru": [*PLACES, {"expansion": 2, "plain": True}, {"site": "ffn", "residual": False}],
    "mamba": [*PLACES, {"states": 3, "rank": 2}],
    "linear_attention": [*PLACES, {"norm": "rms"}, {"norm": None, "phi": "identity", "heads": 1}],
    "retention": [*PLACES, {"linspace": True, "heads": 1, "key_width": 2, "value_width": 5}],
    "gla": [*PLACES, {"norm": "rms", "conv": True, "heads": 1, "rank": 3}],
    "mamba2": [
        *({"head_width": 4, "states": 3} | place for place in PLACES),
        {"head_width": 8, "states": 2},
    ],
    "deltanet": [*PLACES, {"negative": True, "heads": 1}],
    "gated_deltanet": [*PLACES, {"gate": False, "heads": 2, "key_width": 3, "value_width": 5}],
    "cema": [{"site": "ffn", "modes": 3}, {"site": "attention"}, {"site": "ffn", "residual": False, "every": 2}],
    "mta": [
        {"conv_first": 0, "conv_every": 1, "rows": 3, "keys": 5},
        {"norm": False, "gate": False, "conv_first": 1, "head_group": 2, "rows": 2, "keys": 3},
    ],
}


def cases() -> list[tuple[str, dict]]:
    """Every reference with its defaults, and with the settings above."""
    return [(id, settings) for id in REFERENCES for settings in [{}, *VARIANTS.get(id, [])]]


class Setup(NamedTuple):
    """Weights of a host, the sizes of its layers, and tokens."""

    weights: Weights
    layers: list[Layer]
    tokens: Tensor


def normal(generator: torch.Generator, *shape: int, scale: float = 0.5, mean: float = 0.0) -> Tensor:
    return mean + scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def setup(
    host: str = "sequential", *, depth: int = 3, heads: int = 4, kv_heads: int = 2, length: int = 6, rope: bool = True
) -> Setup:
    generator = torch.Generator().manual_seed(0)
    width, head_dim, ffn_dim = 4 * heads, 4, 12
    layers, matrices = [], []
    for index in range(depth):
        sizes = (depth, width, ffn_dim, heads, kv_heads, head_dim, MAX_LENGTH)
        layers.append(Layer(index, *sizes, parallel=host == "parallel", norm_eps=EPS))
        shapes = [(heads * head_dim, width), (kv_heads * head_dim, width), (kv_heads * head_dim, width)]
        wq, wk, wv = (normal(generator, *shape) for shape in shapes)
        wo = normal(generator, width, heads * head_dim)
        gate, up, down = (normal(generator, *s) for s in [(ffn_dim, width), (ffn_dim, width), (width, ffn_dim)])
        gains = [normal(generator, width, scale=0.1, mean=1.0) for _ in range(2)]
        matrices.append(LayerWeights(gains[0], wq, wk, wv, wo, gains[1], gate, up, down))
    weights = Weights(
        embedding=normal(generator, VOCABULARY, width, scale=1.0),
        layers=matrices,
        final_norm=normal(generator, width, scale=0.1, mean=1.0),
        output=normal(generator, VOCABULARY, width),
        num_heads=heads,
        num_kv_heads=kv_heads,
        eps=EPS,
        rope_theta=100.0 if rope else None,
    )
    return Setup(weights, layers, torch.randint(VOCABULARY, (2, length), generator=generator))


def random_params(model: Model, layers: list[Layer], *, grad: bool = False) -> Params:
    generator = torch.Generator().manual_seed(1)
    params = []
    for layer in layers:
        params.append({name: normal(generator, *shape) for name, shape in model.shapes(layer).items()})
    return [{name: value.requires_grad_(grad) for name, value in own.items()} for own in params]


def start_params(model: Model, layers: list[Layer]) -> Params:
    generator = torch.Generator().manual_seed(2)
    params = []
    for layer in layers:
        shapes, start = model.shapes(layer), model.start(layer)
        if set(shapes) != set(start):
            raise ValueError(f"layer {layer.number}: {sorted(shapes)} have shapes, {sorted(start)} have starts")
        params.append({name: draw(start[name], shapes[name], generator) for name in shapes})
    return params


def run(model: Model, given: Setup, params: Params) -> Tensor:
    return model.logits(given.tokens, given.weights, params, given.layers)


def baseline(given: Setup) -> Tensor:
    return run(Model(), given, [{}] * len(given.layers))


def same(left: Tensor, right: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def differ(left: Tensor, right: Tensor) -> None:
    assert (left - right).abs().max() > 1e-6
