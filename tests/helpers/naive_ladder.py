"""The formulas of a ladder written out slowly, straight from their definitions: an oracle for `zoo.scaling`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gauss's elimination with pivots, in plain Python."""
    n = len(right)
    rows = [[*matrix[i], right[i]] for i in range(n)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(n):
            if k != i:
                factor = rows[k][i] / rows[i][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def quadratic(xs: Sequence[float], ys: Sequence[float], errors: Sequence[float]) -> Callable[[float], float]:
    """The weighted quadratic through points: the normal equations, term by term."""
    weights = [1 / e**2 for e in errors]
    matrix = [[sum(w * x ** (i + j) for w, x in zip(weights, xs, strict=True)) for j in range(3)] for i in range(3)]
    right = [sum(w * y * x**i for w, x, y in zip(weights, xs, ys, strict=True)) for i in range(3)]
    a, b, c = solve(matrix, right)
    return lambda x: a + b * x + c * x * x


def slope(curve: Callable[[float], float], x: float) -> float:
    """−ℓ′(x) by a central difference."""
    return -(curve(x + 1e-4) - curve(x - 1e-4)) / 2e-4


def line(xs: Sequence[float], ys: Sequence[float], errors: Sequence[float]) -> tuple[float, float, float, float, float]:
    """The weighted mean and the weighted least-squares slope: mean, its error, trend, its error, the centre."""
    weights = [1 / e**2 for e in errors]
    total = sum(weights)
    mean = sum(w * y for w, y in zip(weights, ys, strict=True)) / total
    centre = sum(w * x for w, x in zip(weights, xs, strict=True)) / total
    spread = sum(w * (x - centre) ** 2 for w, x in zip(weights, xs, strict=True))
    trend = sum(w * (x - centre) * y for w, x, y in zip(weights, xs, ys, strict=True)) / spread
    return mean, 1 / math.sqrt(total), trend, 1 / math.sqrt(spread), centre


def law_cost(parameters: Sequence[float], points: Sequence[tuple[float, float, float]]) -> float:
    """The mean of Huber's function (1e-3) of the log residuals of E + A N^−α + B D^−β."""
    e, a, b, alpha, beta = parameters
    total = 0.0
    for n, d, loss in points:
        residual = abs(math.log(loss) - math.log(e + a * n**-alpha + b * d**-beta))
        total += residual**2 / 2 if residual <= 1e-3 else 1e-3 * (residual - 5e-4)
    return total / len(points)
