"""The records and the plain pieces of a Llama block, written out naively."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class LayerWeights(NamedTuple):
    """One block's weights; every matrix is (out, in). What a method leaves unbuilt is None."""

    norm1: Tensor  # (D,)
    wq: Tensor  # (H*d, D)
    wk: Tensor  # (Hkv*d, D)
    wv: Tensor  # (Hkv*d, D)
    wo: Tensor  # (D, H*d)
    norm2: Tensor  # (D,)
    gate: Tensor  # (F, D)
    up: Tensor  # (F, D)
    down: Tensor  # (D, F)


class Weights(NamedTuple):
    """A whole model's weights and the numbers that its forward pass needs."""

    embedding: Tensor  # (V, D)
    layers: list[LayerWeights]
    final_norm: Tensor  # (D,)
    output: Tensor  # (V, D)
    num_heads: int
    num_kv_heads: int
    eps: float
    rope_theta: float | None  # None: no positions


class Method(NamedTuple):
    """A catalogue id with its learned tensors (params[m - 1] are layer m's) and its settings."""

    id: str
    params: list[dict[str, Tensor]]
    settings: dict = {}


def layer_params(method: Method, m: int) -> dict[str, Tensor]:
    """Layer m's tensors, m from 1; a method without parameters may have an empty list."""
    return method.params[m - 1] if method.params else {}


def rms_norm(x: Tensor, eps: float, gain: Tensor | None = None) -> Tensor:
    """x / sqrt(mean(x²) + eps) * gain."""
    normed = x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + eps)
    return normed if gain is None else normed * gain


def heads(x: Tensor, count: int) -> list[Tensor]:
    """(B, T, count*d) as a list of `count` tensors (B, T, d)."""
    d = x.shape[-1] // count
    return [x[:, :, h * d : (h + 1) * d] for h in range(count)]


def rope(x: Tensor, theta: float | None) -> Tensor:
    """Rotate dims (2j, 2j+1) of x (B, T, d) by t * theta^(-2j/d), t from 0; without theta, leave x as it is."""
    if theta is None:
        return x
    d = x.shape[-1]
    t = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
    columns = []
    for j in range(d // 2):
        angle = t * theta ** (-2 * j / d)
        even, odd = x[:, :, 2 * j], x[:, :, 2 * j + 1]
        columns.append(even * torch.cos(angle) - odd * torch.sin(angle))
        columns.append(even * torch.sin(angle) + odd * torch.cos(angle))
    return torch.stack(columns, dim=-1)


def products(normed: Tensor, layer: LayerWeights, weights: Weights) -> Tensor:
    """P = Q Kᵀ per query head, after RoPE, unmasked and unscaled: (B, H, T, T)."""
    q = [rope(head, weights.rope_theta) for head in heads(normed @ layer.wq.T, weights.num_heads)]
    k = [rope(head, weights.rope_theta) for head in heads(normed @ layer.wk.T, weights.num_kv_heads)]
    group = weights.num_heads // weights.num_kv_heads
    return torch.stack([q[h] @ k[h // group].transpose(1, 2) for h in range(weights.num_heads)], dim=1)


def causal_softmax(scores: Tensor) -> Tensor:
    """softmax over the keys s <= t of scores (B, H, T, T)."""
    length = scores.shape[-1]
    future = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
    return torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)


def attend(
    probabilities: Tensor, normed: Tensor, layer: LayerWeights, weights: Weights, second: Tensor | None = None
) -> Tensor:
    """concat_h(A^h V^h(normed)) W_O with A (B, H, T, T); with `second` (H,), (1−g) A V + g A² V in head h, g = second[h]."""
    v = heads(normed @ layer.wv.T, weights.num_kv_heads)
    group = weights.num_heads // weights.num_kv_heads
    mixed = []
    for h in range(weights.num_heads):
        pattern = probabilities[:, h]
        if second is not None:
            pattern = (1 - second[h]) * pattern + second[h] * (pattern @ pattern)
        mixed.append(pattern @ v[h // group])
    return torch.cat(mixed, dim=-1) @ layer.wo.T


def swiglu(x: Tensor, layer: LayerWeights) -> Tensor:
    """down(silu(gate x) * up x)."""
    gate = x @ layer.gate.T
    return (gate * torch.sigmoid(gate) * (x @ layer.up.T)) @ layer.down.T
