"""The parameters of our mixers under the names of their references, differentiably; a reference's matrices are (in, out)."""

from __future__ import annotations

from collections.abc import Callable

from helpers.random_models import extension_of
from torch import Tensor, nn

from zoo.model.block import Block

Named = dict[str, Tensor]


def cut(matrix: Tensor, *named: tuple[str, int]) -> Named:
    """The parts of a joined matrix (out, in), transposed."""
    parts = matrix.split([size for _, size in named])
    return {name: part.T for (name, _), part in zip(named, parts, strict=True)}


def recurrence_of(own: nn.Module, dense: bool) -> Named:
    block = own.w.shape[1]
    w_r, w_i = own.w.split(block, dim=-1)
    if dense:
        w_r, w_i = w_r[0], w_i[0]
    return {"w_r": w_r, "w_i": w_i, "b_r": own.b[0], "b_i": own.b[1], "lambda": own.lam}


def griffin(own: nn.Module) -> Named:
    size = own.w_in.shape[0] // 2
    named = cut(own.w_in, ("w_y", size), ("w_x", size)) | recurrence_of(own.recurrence, dense=False)
    named |= {"b_y": own.b_in[:size], "b_x": own.b_in[size:], "conv": own.conv.T, "b_c": own.b_conv}
    return named | {"w_o": own.w_out.T, "b_o": own.b_out}


def gain_of(own: nn.Module) -> Named:
    return {} if own.gain is None else {"gain": own.gain}


def rg_lru(own: nn.Module) -> Named:
    return recurrence_of(own.recurrence, dense=own.recurrence.w.shape[0] == 1) | gain_of(own)


def min_gru(own: nn.Module) -> Named:
    size = own.w_in.shape[0] // 2
    out = {} if own.w_out is None else {"w_o": own.w_out.T}
    return cut(own.w_in, ("w_z", size), ("w_h", size)) | out


def mamba(own: nn.Module) -> Named:
    matrices = {name: getattr(own, name).T for name in ("w_in", "w_x", "w_delta", "w_out")}
    return matrices | {"conv": own.conv.T, "b_c": own.b_conv, "b_delta": own.b_delta, "a_log": own.a_log, "d": own.d}


def linear_attention(own: nn.Module) -> Named:
    size = own.w_in.shape[0] // 3
    return cut(own.w_in, ("w_q", size), ("w_k", size), ("w_v", size)) | {"w_o": own.w_out.T}


def retention(own: nn.Module) -> Named:
    named = cut(own.w_in, *zip(("w_q", "w_k", "w_v", "w_g"), own.sizes, strict=True)) | {"w_o": own.w_out.T}
    for name in ("w_q", "w_k"):  # ours turns the channels j and j + K/2 of a head, the reference 2j and 2j + 1
        halves = named[name].unflatten(-1, (own.heads, 2, -1))
        named[name] = halves.transpose(-2, -1).flatten(-3)
    return named


def gla(own: nn.Module) -> Named:
    named = cut(own.w_in, *zip(("w_q", "w_k", "w_v", "w_r", "w_1"), own.sizes, strict=True))
    named |= {"b_r": own.b_gate, "w_2": own.w_decay.T, "b": own.b_decay, "w_o": own.w_out.T}
    named |= gain_of(own)
    if own.conv is not None:
        named |= cut(own.conv.T, *zip(("conv_q", "conv_k", "conv_v"), own.sizes, strict=False))
        named |= {name: named[name].T for name in ("conv_q", "conv_k", "conv_v")}
    return named


def mamba2(own: nn.Module) -> Named:
    named = {"w_in": own.w_in.T, "conv": own.conv.T, "b_c": own.b_conv, "w_out": own.w_out.T}
    return named | {name: getattr(own, name) for name in ("b_delta", "a_log", "d", "gain")}


def deltanet(own: nn.Module) -> Named:
    keys = own.heads * own.key_width
    values = own.w_out.shape[1]
    sizes = [
        ("w_q", keys),
        ("w_k", keys),
        ("w_v", values),
        ("w_g", own.sizes[1]),
        ("w_beta", own.heads),
        ("w_a", own.sizes[3]),
    ]
    named = cut(own.w_in, *(each for each in sizes if each[1]))
    taps = own.conv.T.split([keys, keys, values])
    named |= dict(zip(("conv_q", "conv_k", "conv_v"), taps, strict=True)) | {"gain": own.gain, "w_o": own.w_out.T}
    return named if own.a_log is None else named | {"a_log": own.a_log, "b_delta": own.b_delta}


def cema(own: nn.Module) -> Named:
    named = {name: getattr(own, name) for name in ("alpha", "delta", "theta", "omega")}
    return named | {"gamma_re": own.gamma[0], "gamma_im": own.gamma[1]} | gain_of(own)


ADAPTERS: dict[str, Callable[[nn.Module], Named]] = {
    each.__name__: each
    for each in (griffin, rg_lru, min_gru, mamba, linear_attention, retention, gla, mamba2, deltanet, cema)
} | {"gated_deltanet": deltanet}


def adapter(id: str) -> Callable[[Block], Named]:
    return lambda block: ADAPTERS[id](extension_of(block, "temporal_mixing"))
