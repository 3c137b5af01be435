"""Parameters of the published residual methods under the names of their references."""

from __future__ import annotations

from collections.abc import Callable

import torch
from helpers.against_relatives import Adapter
from helpers.random_models import extension_of
from torch import Tensor, nn

from zoo.extension import ATTENTION, FFN, Extension
from zoo.model.language_model import LanguageModel

SITES = (ATTENTION, FFN)
Names = dict[str, Tensor]


def own(extension: Extension) -> Names:
    """Under the names that they have, a dot of which is an underscore."""
    return {name.replace(".", "_"): p for name, p in extension.named_parameters()}


def _there(**values: Tensor | None) -> Names:
    return {name: value for name, value in values.items() if value is not None}


def _by_site(parts: nn.Module, names: Callable[[nn.Module], Names]) -> Names:
    return {f"{name}_{site}": value for site in SITES for name, value in names(parts[site]).items()}


def _rezero(e: Extension) -> Names:
    return {"alpha": e.alpha.reshape(()) if e.alpha.numel() == 1 else e.alpha}


def _x0(e: Extension) -> Names:
    return {"lambda": e.skip, "mu": e.mu}


def _backout(e: Extension) -> Names:
    return {} if e.value is None else {"lambda": e.value}


def _low_rank(e: Extension) -> Names:
    maps = _by_site(e.h, lambda h: {"p": h.p, "u": h.u}) if e.h else {}
    return maps | {f"gamma_{site}": gamma for site, gamma in e.gamma.items()}


def _grn(e: Extension) -> Names:
    prefixes = ("q_", "k_", "v_") if len(e.inputs) == 3 else ("",)
    parts = dict(zip(prefixes, e.inputs, strict=True)) | ({} if e.output is None else {"output_": e.output})
    named = {}
    for prefix, part in parts.items():
        named |= {f"{prefix}b": part.b.mT if part.b.dim() == 2 else part.b}
        named |= {} if part.w is None else {f"{prefix}w": part.w[:, 0]}
    return named


def _tables(t: nn.Module) -> Names:
    named = {"a_m": t.a_m, "a_r": t.a_r, "b": t.b}
    if t.dynamic:
        w_r, w_b = t.w_write.split([t.b.numel(), 1], dim=1)
        named |= {"w_m": t.w_read, "w_r": w_r, "w_b": w_b, "s_alpha": t.s_alpha, "s_beta": t.s_beta}
    return named | _there(norm_gain=t.gain, norm_bias=t.bias)


def _maps(m: nn.Module) -> Names:
    return {
        "phi": torch.cat([m.phi_read, m.phi_write], dim=1),
        "b": torch.cat([m.b_read, m.b_write]),
        "alpha": m.alpha,
    }


def _mhc(e: Extension) -> Names:
    head = {} if e.head is None else {f"{name}_head": value for name, value in e.head.items()}
    return _by_site(e.maps, _maps) | head


def _norms(e: Extension) -> Names:
    named = {f"gain_{site}": gain for site, gain in e.gain.items()}
    return named | _there(
        gain_embedding=getattr(e, "embedding_gain", None), gain_output=getattr(e, "output_gain", None)
    )


def _hyper(e: Extension) -> Names:
    return _by_site(e.tables, _tables)


OF_ONE = {
    "rezero": _rezero,
    "x0_lambda": _x0,
    "x0_lambda_nanochat": _x0,
    "backout": _backout,
    "laurel_lr": _low_rank,
    "laurel_pa": _low_rank,
    "mhc": _mhc,
    "two_hop": lambda e: {},
    **dict.fromkeys(["grn_v1", "grn_v2", "grn_v3", "dca"], _grn),
    **dict.fromkeys(["hc_static", "hc_dynamic", "frac_static", "frac_dynamic"], _hyper),
    **dict.fromkeys(["peri_ln", "post_norm", "olmo_norm", "residual_dual", "deepnorm"], _norms),
}


def adapter(id: str, built: LanguageModel) -> Adapter:
    """A block of `built` to the parameters that its reference expects of the layer."""
    extensions = [extension_of(block, "residual") for block in built.layers]

    def of(block: nn.Module) -> Names:
        if id == "denseformer":  # the reference has a sum where it is left, we have it where it is read
            return _there(alpha=[*(e.alpha for e in extensions[1:]), extensions[-1].alpha_output][block.layer.index])
        return OF_ONE.get(id, own)(extensions[block.layer.index])

    return of
