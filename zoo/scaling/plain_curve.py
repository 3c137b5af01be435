"""The loss of the plain block against the logarithm of what it was given: a weighted quadratic, and its slope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Curve(NamedTuple):
    """ℓ(x) = a + b·(x − centre) + c·(x − centre)², x the logarithm of compute, or of tokens."""

    centre: float
    coefficients: tuple[float, float, float]
    covariance: np.ndarray  # of the coefficients, given the weights

    def loss(self, x: float) -> float:
        """ℓ(x)."""
        a, b, c = self.coefficients
        return a + b * (x - self.centre) + c * (x - self.centre) ** 2

    def slope(self, x: float) -> float:
        """−ℓ′(x): what an e-fold of compute is worth, in nats per token."""
        _, b, c = self.coefficients
        return -(b + 2 * c * (x - self.centre))

    def slope_error(self, x: float) -> float:
        """The standard error of the slope."""
        part = np.array([0.0, 1.0, 2 * (x - self.centre)])
        return math.sqrt(max(0.0, float(part @ self.covariance @ part)))


def plain_curve(xs: Sequence[float], losses: Sequence[float], errors: Sequence[float]) -> Curve:
    """The quadratic through mean losses with these standard errors; a line through two of them.

    Errors of which one is not known count as equal ones.
    """
    x, y = np.asarray(xs, float), np.asarray(losses, float)
    if len(set(xs)) < 2:
        raise ValueError("a curve needs two different points")
    e = np.asarray(errors, float)
    weights = 1 / e**2 if np.isfinite(e).all() and (e > 0).all() else np.ones_like(x)
    centre = float(np.average(x, weights=weights))
    degree = min(2, len(set(xs)) - 1)
    powers = np.vander(x - centre, degree + 1, increasing=True)
    normal = powers.T @ (weights[:, None] * powers)
    covariance = np.zeros((3, 3))
    covariance[: degree + 1, : degree + 1] = np.linalg.inv(normal)
    root = np.sqrt(weights)
    solved = np.linalg.lstsq(root[:, None] * powers, root * y, rcond=None)[0]
    a, b, c = (*map(float, solved), *[0.0] * (2 - degree))
    return Curve(centre, (a, b, c), covariance)
