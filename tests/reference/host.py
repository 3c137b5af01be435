"""The two hosts as one naive forward pass with three slots."""

from torch import Tensor

from . import residual as residual_methods, scores as score_methods, temporal as temporal_methods
from .blocks import Method, Weights, attend, causal_softmax, layer_params, products, rms_norm, swiglu


def logits(
    tokens: Tensor,
    weights: Weights,
    *,
    host: str,
    residual: Method | None = None,
    score: Method | None = None,
    temporal: Method | None = None,
) -> Tensor:
    """(B, T) tokens to (B, T, V) logits; a slot that is None is the plain Llama's."""
    if host not in ("sequential", "parallel"):
        raise ValueError(f"unknown host {host!r}")
    site = temporal.settings.get("site", "ffn") if temporal else None
    if temporal and site not in temporal_methods.SITES:
        raise ValueError(f"unknown site {site!r}")
    for method in (residual, score, temporal):
        if method and method.params and len(method.params) != len(weights.layers):
            raise ValueError(f"{method.id}: {len(method.params)} params for {len(weights.layers)} layers")

    eps = weights.eps
    all_products, all_probabilities = [], []  # P_i and A_i
    a, f = [], []

    def mix(i: int, u: Tensor) -> Tensor:
        params = layer_params(temporal, i)
        return temporal_methods.mix(temporal.id, u, params, temporal.settings, eps=eps)

    def attention_input(i: int, x: Tensor) -> Tensor:
        normed = rms_norm(x, eps, weights.layers[i - 1].norm1)
        return mix(i, normed) if site in ("attention_input", "attention") else normed

    def ffn(i: int, x: Tensor) -> Tensor:
        normed = rms_norm(x, eps, weights.layers[i - 1].norm2)
        return swiglu(mix(i, normed) if site == "ffn" else normed, weights.layers[i - 1])

    def attention(i: int, x: Tensor) -> Tensor:
        """M_i(x), with the probabilities A_i that layer i has used; a_i = M_i(x_i)."""
        u = attention_input(i, x)
        if site == "attention":
            return u  # the mix stands in place of attention
        second = score_methods.second_order(score, i)
        return attend(all_probabilities[i - 1], u, weights.layers[i - 1], weights, second)

    def rerun_block(i: int, x: Tensor) -> Tensor:
        """R_i(x)."""
        return ffn(i, x + attention(i, x))

    x = embedding = weights.embedding[tokens]
    for m in range(1, len(weights.layers) + 1):
        layer = weights.layers[m - 1]
        if site != "attention":
            all_products.append(products(attention_input(m, x), layer, weights))
            head_width = layer.wq.shape[0] // weights.num_heads
            scores = score_methods.scores(score, m, all_products, x, head_width, eps)
            all_probabilities.append(causal_softmax(scores))
        a.append(attention(m, x))
        here = residual_methods.Site(
            m=m,
            host=host,
            embedding=embedding,
            x=x,
            normed=rms_norm(x, eps, layer.norm1),
            a=list(a),
            f=list(f),
            rerun_attention=attention,
            rerun_block=rerun_block,
        )
        y = residual_methods.attention_site(residual, here)
        f.append(ffn(m, y if host == "sequential" else x))
        x = residual_methods.ffn_site(residual, here._replace(f=list(f)), y)
    if site == "output":
        x = mix(len(weights.layers), x)
    return rms_norm(x, eps, weights.final_norm) @ weights.output.T
