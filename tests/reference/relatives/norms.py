"""Where the norms stand: peri_ln, post_norm, olmo_norm, residual_dual, deepnorm.

N' is an RMSNorm with the host's ε and a gain from 1. The final norm stays in all of them. In the parallel host a norm of the
stream (post_norm, residual_dual, deepnorm) stands once, after both branches.
"""

from torch import Tensor

from ..blocks import rms_norm
from .host import SITES, Model, is_last
from .starts import full


class Normed(Model):
    """Gains of norms, one per site."""

    def gain_names(self, layer) -> list[str]:
        return [f"gain_{site}" for site in SITES]

    def shapes(self, layer):
        return dict.fromkeys(self.gain_names(layer), (layer.width,))

    def start(self, layer):
        return {name: full(1.0, layer.width) for name in self.gain_names(layer)}

    def by_gain(self, m: int, name: str, x: Tensor) -> Tensor:
        return rms_norm(x, self.eps, self.own(m)[f"gain_{name}"])


class PeriLn(Normed):
    """x' = x + N'(F(N x)). Parallel: x + N'_a(a) + N'_f(f). `embedding_norm`: x_1 is normed, its gain is in layer 1's."""

    settings = {"embedding_norm": False}

    def gain_names(self, layer):
        first = ["gain_embedding"] if self.embedding_norm and layer.number == 1 else []
        return first + super().gain_names(layer)

    def embedded(self, x):
        return self.by_gain(1, "embedding", x) if self.embedding_norm else x

    def block(self, m, x):
        y = x + self.by_gain(m, "attention", self.attention(m, x))
        return y + self.by_gain(m, "ffn", self.ffn(m, x if self.parallel else y))


class OlmoNorm(PeriLn):
    """x' = x + N'(F(x)): no norm before the branch."""

    settings = {}
    prenorm = False
    embedding_norm = False


class PostNorm(Normed):
    """x' = N'(α x + F(x)) at both sites, α = 1. Parallel: x' = N'_f(α x + a + f), with the FFN's gain only."""

    prenorm = False

    def alpha(self) -> float:
        return 1.0

    def gain_names(self, layer):
        return ["gain_ffn"] if layer.parallel else super().gain_names(layer)

    def block(self, m, x):
        if self.parallel:
            return self.by_gain(m, "ffn", self.alpha() * x + self.attention(m, x) + self.ffn(m, x))
        y = self.by_gain(m, "attention", self.alpha() * x + self.attention(m, x))
        return self.by_gain(m, "ffn", self.alpha() * y + self.ffn(m, y))


class DeepNorm(PostNorm):
    """post_norm with α = (2L)^¼; the host's W_V, W_O, gate, up and down start (8L)^¼ times smaller (`start_divisor`)."""

    def alpha(self) -> float:
        return (2 * self.depth) ** 0.25

    @staticmethod
    def start_divisor(depth: int) -> float:
        return (8 * depth) ** 0.25


class ResidualDual(PostNorm):
    """x ← N'(x + F(x)), r ← r + F(x), r_0 = x_1; x + N''(r) goes to the final norm; N'' is in the last layer's parameters."""

    def gain_names(self, layer):
        return super().gain_names(layer) + (["gain_output"] if is_last(layer) else [])

    def stack(self, x):
        total = x
        for m in self.numbers():
            a = self.attention(m, x)
            if self.parallel:
                f = self.ffn(m, x)
                x = self.by_gain(m, "ffn", x + a + f)
            else:
                y = self.by_gain(m, "attention", x + a)
                f = self.ffn(m, y)
                x = self.by_gain(m, "ffn", y + f)
            total = total + a + f
        return x + self.by_gain(self.depth, "output", total)
