"""Multi-token attention: maps are convolved over neighbouring queries and keys, and mixed over heads (arXiv 2504.00927).

    Z = H1 Conv_θ1(Mask_0 S),  A = softmax(Mask_−∞ Z),  A' = H2 Mask_0 Conv_θ2(Mask_0 A)
    O ← g ⊙ RMSNorm_d(A' V),   O ← σ(O·w + b) O

A row of A' is made of the logits of 2(c_q − 1) rows before it, so a block of rows is made with these in front of it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from zoo_plugins.maps import over_heads, rows_of

from zoo.extension import AttentionInputs, Layer, ScoreMixing, hint, preset
from zoo.functional import rms_norm
from zoo.history import History
from zoo.scores import Dense, Scores, past_only
from zoo.state import State, with_past

ZOO_API = (1, 2)


class MultiTokenAttention(ScoreMixing):
    """A' = H2 Conv(softmax(H1 Conv(S))), then a norm and a gate per head: several tokens together decide what is attended to."""

    def __init__(
        self,
        layer: Layer,
        query_window: int = 6,
        key_window: int = 11,
        head_group: int = 16,
        conv_first: int = 2,
        conv_every: int = 4,
        norm: bool = True,
        gate: bool = True,
    ) -> None:
        super().__init__()
        _check(query_window, key_window, head_group, conv_first, conv_every)
        heads, convolves = layer.num_heads, layer.index >= conv_first and (layer.index - conv_first) % conv_every == 0
        self.before = query_window - 1 if convolves else 0  # rows that a convolution looks back
        self.theta_1 = _kernel(heads, query_window, key_window) if convolves else None
        self.theta_2 = _kernel(heads, query_window, key_window) if convolves else None
        self.h_1 = hint(nn.Parameter(torch.eye(heads)), decay=False)
        groups = [min(head_group, heads - first) for first in range(0, heads, head_group)]
        self.h_2 = nn.ParameterList([hint(nn.Parameter(torch.eye(size)), decay=False) for size in groups])
        self.g = hint(nn.Parameter(torch.ones(layer.head_dim)), decay=False) if norm else None
        self.w = nn.Parameter(_truncated(layer.head_dim, layer.width**-0.5)) if gate else None
        bound = layer.head_dim**-0.5
        self.b = hint(nn.Parameter(torch.empty(()).uniform_(-bound, bound)), decay=False) if gate else None
        self.eps = layer.norm_eps
        if not norm and not gate:
            self.starts_as = "baseline"

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        rows, keys = q.size(2), k.size(2)
        if self.before:  # the queries of tokens before the first are 0, and so are their logits
            q = with_past(state, self, q.transpose(1, 2), 2 * self.before).transpose(1, 2)

        def block(first: int, last: int, seen: int) -> Tensor:
            scores = rows_of(q, k, first, last + 2 * self.before, seen)
            if self.theta_1 is not None:
                scores = convolved(self.theta_1, past_only(scores, 0.0))
            early = max(0, self.before - (keys - rows + first))  # rows before the first token: they attend to nothing
            maps = past_only(over_heads(self.h_1, scores[:, :, early:])).softmax(dim=-1)
            if self.theta_2 is not None:
                maps = convolved(self.theta_2, F.pad(maps, (0, 0, early, 0)))
            return over_heads(torch.block_diag(*self.h_2), maps)  # the future is hidden by attending

        return Dense(block, rows, keys, weights=True)

    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        if self.g is not None:
            heads = rms_norm(heads, self.g, self.eps)
        if self.w is None or self.b is None:
            return heads
        gate = torch.sigmoid(heads @ self.w + self.b)  # (B, H, T)
        self.watch("gate", gate)
        return heads * gate.unsqueeze(-1)

    def probes(self) -> dict[str, Tensor]:
        kernels = {"own_logit": self.theta_1, "own_weight": self.theta_2}
        centres = {name: k[:, -1, k.size(2) // 2].mean() for name, k in kernels.items() if k is not None}
        return {"own_head_logits": self.h_1.diagonal().mean(), **centres}


def convolved(theta: Tensor, maps: Tensor) -> Tensor:
    """Σ_{r,c} θ[h, r, c] · maps at row i − (c_q − 1) + r and key j − (c_k − 1)/2 + c: c_q − 1 rows fewer than `maps` has."""
    kernel = theta.repeat_interleave(maps.size(1) // theta.size(0), dim=0).unsqueeze(1).to(maps.dtype)
    return F.conv2d(maps, kernel, padding=(0, theta.size(2) // 2), groups=maps.size(1))


def _kernel(heads: int, rows: int, keys: int) -> nn.Parameter:
    """1 at the row and the key themselves, else 0."""
    kernel = torch.zeros(heads, rows, keys)
    kernel[:, -1, keys // 2] = 1.0
    return hint(nn.Parameter(kernel), decay=False)


def _truncated(size: int, std: float) -> Tensor:
    return nn.init.trunc_normal_(torch.empty(size), 0.0, std, -3 * std, 3 * std)


def _check(query_window: int, key_window: int, head_group: int, conv_first: int, conv_every: int) -> None:
    for name, value in (("query_window", query_window), ("head_group", head_group), ("conv_every", conv_every)):
        if value < 1:
            raise ValueError(f"{name} = {value}: take at least 1")
    if key_window < 1 or key_window % 2 == 0:
        raise ValueError(f"key_window = {key_window}: the window is around a key, take an odd number")
    if conv_first < 0:
        raise ValueError(f"conv_first = {conv_first}: layers count from 0")


mta = preset(MultiTokenAttention)
