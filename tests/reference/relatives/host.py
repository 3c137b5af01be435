"""The plain Llama in both hosts, piece by piece; a reference overrides the pieces that its entry in the catalogue changes.

Layers count from 1 (m). The host's matrices are (out, in), as in `reference.blocks`; every matrix of a method is (in, out)
and is used as `x @ w`. All parameters of a layer are one dict of tensors; what stands once per model is in the first layer's
dict (at the embedding) or in the last layer's (at the output).
"""

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ..blocks import LayerWeights, Weights, causal_softmax, heads, rms_norm, rope

Shapes = dict[str, tuple[int, ...]]
Params = list[dict[str, Tensor]]
SITES = ("attention", "ffn")


class Layer(NamedTuple):
    """The sizes of one layer, under the names of `zoo.extension.Layer`, which serves as well."""

    index: int  # from 0
    num_layers: int
    width: int
    ffn_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_length: int
    parallel: bool
    norm_eps: float
    init_std: float = 0.02

    @property
    def number(self) -> int:
        """m, from 1."""
        return self.index + 1


def is_last(layer: Layer) -> bool:
    return layer.number == layer.num_layers


class Model:
    """The plain Llama. `settings` are the names that a reference takes, with their defaults."""

    settings: dict = {}

    def __init__(self, **settings: object) -> None:
        unknown = set(settings) - set(self.settings)
        if unknown:
            raise ValueError(f"{type(self).__name__}: unknown settings {sorted(unknown)}")
        for name, value in (self.settings | settings).items():
            setattr(self, name, value)

    # What a layer learns.

    def shapes(self, layer: Layer) -> Shapes:
        """Every parameter of a layer."""
        return {}

    def start(self, layer: Layer) -> dict:
        """Every parameter's start: a tensor where it is exact, else a distribution of `starts`."""
        return {}

    # The whole pass.

    def logits(self, tokens: Tensor, weights: Weights, params: Params, layers: list[Layer]) -> Tensor:
        """(B, T) tokens to (B, T, V) logits."""
        hidden = self.hidden(tokens, weights, params, layers)
        return rms_norm(hidden, weights.eps, weights.final_norm) @ weights.output.T

    def hidden(self, tokens: Tensor, weights: Weights, params: Params, layers: list[Layer]) -> Tensor:
        """(B, T, D): what the final norm is given."""
        for layer, given in zip(layers, params, strict=True):
            wanted = {name: tuple(shape) for name, shape in self.shapes(layer).items()}
            there = {name: tuple(value.shape) for name, value in given.items()}
            if there != wanted:
                raise ValueError(f"{type(self).__name__}, layer {layer.number}: {wanted} expected, {there} given")
        bound = copy.copy(self)
        bound.weights, bound.params, bound.sizes = weights, params, layers
        bound.depth, bound.parallel, bound.eps = len(layers), layers[0].parallel, weights.eps
        bound.memory = {}  # what layers leave for later ones in this pass
        return bound.stack(bound.embedded(weights.embedding[tokens]))

    def embedded(self, x: Tensor) -> Tensor:
        """x_1 from the rows of the table."""
        return x

    def stack(self, x: Tensor) -> Tensor:
        for m in self.numbers():
            x = self.block(m, x)
        return x

    def block(self, m: int, x: Tensor) -> Tensor:
        a = self.attention(m, x)
        if self.parallel:
            return x + a + self.ffn(m, x)
        y = x + a
        return y + self.ffn(m, y)

    def numbers(self) -> range:
        return range(1, self.depth + 1)

    def own(self, m: int) -> dict[str, Tensor]:
        """Layer m's parameters."""
        return self.params[m - 1]

    def host(self, m: int) -> LayerWeights:
        return self.weights.layers[m - 1]

    def unit(self, x: Tensor) -> Tensor:
        """x̂ = x / rms(x), with the host's ε and no gain."""
        return rms_norm(x, self.eps)

    # Attention.

    prenorm = True  # False: sublayers are given what the stream holds, not its norm

    def pre_normed(self, x: Tensor, gain: Tensor) -> Tensor:
        return rms_norm(x, self.eps, gain) if self.prenorm else x

    def attention(self, m: int, query: Tensor, key: Tensor | None = None, value: Tensor | None = None) -> Tensor:
        """a_m with its norm; query, key and value may be made of different inputs, and share the norm's gain."""
        key, value = query if key is None else key, query if value is None else value
        gain = self.host(m).norm1 if self.prenorm else None
        return self.mixer(m, *(self.pre_normed(x, gain) for x in (query, key, value)))

    def mixer(self, m: int, u: Tensor, u_key: Tensor, u_value: Tensor) -> Tensor:
        """Attention proper, of normed inputs; what stands in attention's place overrides this."""
        own, host, layer = self.weights, self.host(m), self.sizes[m - 1]
        u_query, u_key, u_value = self.attention_inputs(m, u, u_key, u_value)
        q, k, v = self.projected(m, u_query @ host.wq.T, u_key @ host.wk.T, u_value @ host.wv.T, u)
        q = [rope(head, own.rope_theta) for head in heads(q, q.shape[-1] // layer.head_dim)]
        k = [rope(head, own.rope_theta) for head in heads(k, own.num_kv_heads)]
        out = self.attended(m, q, k, heads(v, own.num_kv_heads), u)
        return torch.cat(out, dim=-1) @ host.wo.T

    def attention_inputs(self, m: int, u: Tensor, u_key: Tensor, u_value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What W_Q, W_K and W_V are given."""
        return u, u_key, u_value

    def projected(self, m: int, q: Tensor, k: Tensor, v: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q (B, T, H*d), k, v (B, T, Hkv*d) before positions; u is the normed input."""
        return q, k, v

    def attended(self, m: int, q: list[Tensor], k: list[Tensor], v: list[Tensor], u: Tensor) -> list[Tensor]:
        """H outputs (B, T, d) of H queries, Hkv keys and Hkv values after positions."""
        maps = self.maps(m, self.scores(m, q, k, u))
        return [maps[:, h] @ v[self.key_head(h)] for h in range(maps.shape[1])]

    def key_head(self, h: int) -> int:
        """The key and value head that query head h reads."""
        return h * self.weights.num_kv_heads // self.weights.num_heads

    def scores(self, m: int, q: list[Tensor], k: list[Tensor], u: Tensor) -> Tensor:
        """S (B, H, T, T), scaled and unmasked."""
        scale = self.sizes[m - 1].head_dim ** -0.5
        return torch.stack([q[h] @ k[self.key_head(h)].mT * scale for h in range(len(q))], dim=1)

    def maps(self, m: int, scores: Tensor) -> Tensor:
        """A (B, H, T, T): what values are summed with."""
        return causal_softmax(scores)

    # The FFN.

    def ffn(self, m: int, x: Tensor) -> Tensor:
        """f_m with its norm."""
        host = self.host(m)
        u = self.ffn_input(m, self.pre_normed(x, host.norm2 if self.prenorm else None))
        gate, up = self.ffn_inner(m, u @ host.gate.T, u @ host.up.T)
        return (gate * torch.sigmoid(gate) * up) @ host.down.T

    def ffn_input(self, m: int, u: Tensor) -> Tensor:
        return u

    def ffn_inner(self, m: int, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        return gate, up


class Reference(NamedTuple):
    """A row of the table: how a method's naive model is built, and what it computes with its starting values."""

    id: str
    slot: str  # residual, head_mixing, score_mixing or temporal_mixing
    build: Callable[..., Model]  # of settings by keyword
    starts_as: str | None = None  # "baseline", or the id of another reference
