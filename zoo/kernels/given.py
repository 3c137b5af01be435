"""What a recurrence is given: shapes that belong together, at least one token, log-decays whose sums have differences."""

from __future__ import annotations

from torch import Tensor

STRONGEST = 1e3  # e^{−1000} is 0 in every type


def bounded(g: Tensor) -> Tensor:
    """Log-decays from −1000: what is stronger, or infinite, would take the digits of all others in its chunk along."""
    return g.clamp(min=-STRONGEST)


def check_shapes(**given: tuple[Tensor | None, tuple[int, ...]]) -> None:
    """Refuse what has another shape than the one beside it; None is not given."""
    for name, (x, wanted) in given.items():
        if x is not None and tuple(x.shape) != wanted:
            raise ValueError(f"{name} is of shape {tuple(x.shape)}; it must be {wanted}, to go with the others")


def check_matrix_state(
    q: Tensor, k: Tensor, v: Tensor, start: Tensor | None, *, shared: bool = False, **per_head: Tensor | None
) -> None:
    """Refuse q, k (B, T, Hk, K), v (B, T, H, V), S (B, H, K, V) and numbers (B, T, H) that do not fit; H = Hk unless `shared`."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise ValueError(f"{name} has {x.dim()} dimensions; it must have 4: batch, tokens, heads, width")
    batch, length, heads, width = k.shape
    check_tokens(length)
    if v.size(2) % heads or not shared and v.size(2) != heads:
        wanted = f"a multiple of the {heads} heads of keys" if shared else f"{heads}, as keys have"
        raise ValueError(f"v has {v.size(2)} heads; it must have {wanted}")
    check_shapes(
        q=(q, (batch, length, heads, width)),
        v=(v, (batch, length, *v.shape[2:])),
        start=(start, (batch, v.size(2), width, v.size(3))),
        **{name: (x, (batch, length, v.size(2))) for name, x in per_head.items()},
    )


def check_tokens(length: int) -> None:
    if length < 1:
        raise ValueError("a sequence has at least one token, and this one has none")
