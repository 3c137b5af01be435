"""The loss by size and tokens, L = E + A·N^−α + B·D^−β: fitted to runs, and resampled over runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

HUBER = 1e-3  # of log residuals: beyond it they count by their size, no longer by its square
EXPONENTS = (0.02, 2.0)  # the least and the largest α and β
SHRINK = 0.45  # how much closer the next exponents lie
PASSES = 4  # of weighted least squares at every pair of exponents
RESAMPLES = 4_000
AT_ONCE = 400  # resamples in memory
TIE = 1e-3  # by which share the cost grows where ln α or ln β is 1 off the expected: it decides only where runs do not
LEAST = 1e-24  # a cost below this is rounding
SUPPORTS = [list(each) for n in (3, 2, 1) for each in itertools.combinations(range(3), n)]


class Search(NamedTuple):
    """Where exponents are looked for: ln α and ln β around a centre, on a grid that closes in."""

    centre: tuple[float, float]
    reach: float
    grid: int  # exponents tried per axis
    zooms: int


_LOW, _HIGH = np.log(EXPONENTS)
EVERYWHERE = Search(((_LOW + _HIGH) / 2, (_LOW + _HIGH) / 2), (_HIGH - _LOW) / 2, grid=17, zooms=9)


class Run(NamedTuple):
    """One run: its size, and the loss after each of its budgets of tokens."""

    size: float  # N
    points: tuple[tuple[float, float], ...]  # tokens, loss


class LossLaw(NamedTuple):
    """L = E + A·(N/N₀)^−α + B·(D/D₀)^−β, one entry per sample; N₀ and D₀ keep the numbers in range."""

    terms: Array  # (samples, 3): E, A, B
    exponents: Array  # (samples, 2): α, β
    scales: tuple[float, float]  # N₀, D₀
    cost: Array  # (samples,): the mean of Huber's function of the log residuals

    def loss(self, size: float, tokens: float) -> Array:
        """The loss at a size and a number of tokens."""
        alpha, beta = self.exponents[:, 0], self.exponents[:, 1]
        powers = np.stack(
            [np.ones_like(alpha), (size / self.scales[0]) ** -alpha, (tokens / self.scales[1]) ** -beta], axis=1
        )
        return (self.terms * powers).sum(axis=1)


def fit_law(
    sizes: Sequence[float],
    tokens: Sequence[float],
    losses: Array,
    search: Search = EVERYWHERE,
    expected: Array | None = None,
) -> LossLaw:
    """The law with the least Huber cost of log residuals; `losses` is (samples, points), each sample fitted alone.

    Variable projection: for given α and β the rest is linear, and non-negative least squares solves it; α and β come from
    a grid that closes in on the best. Runs of two sizes leave α open, as any E goes with one: of what fits equally well the
    nearest to `expected`, ln α and ln β of each sample (samples, 2), is taken, or to the centre of the search.
    """
    n, d = np.asarray(sizes, float), np.asarray(tokens, float)
    scales = float(np.exp(np.log(n).mean())), float(np.exp(np.log(d).mean()))
    logs = np.log(n / scales[0]), np.log(d / scales[1])
    samples = np.arange(len(losses))
    centre = np.tile(np.asarray(search.centre), (len(losses), 1))
    expected = centre if expected is None else expected
    best = LossLaw(np.zeros((len(losses), 3)), np.exp(centre), scales, np.full(len(losses), np.inf))
    for zoom in range(search.zooms):
        steps = np.linspace(-1, 1, search.grid) * search.reach * SHRINK**zoom
        offsets = np.array(list(itertools.product(steps, repeat=2)))
        exponents = np.exp(np.clip(centre[:, None] + offsets, *np.log(EXPONENTS)))  # (samples, tries, 2)
        tries = len(offsets)
        terms, cost = _at(exponents.reshape(-1, 2), logs, np.repeat(losses, tries, axis=0))
        choice = _in_all(cost.reshape(-1, tries), exponents, expected).argmin(axis=1)
        law = LossLaw(
            terms.reshape(-1, tries, 3)[samples, choice],
            exponents[samples, choice],
            scales,
            cost.reshape(-1, tries)[samples, choice],
        )
        best = _better(best, law, expected)
        centre = np.log(best.exponents)
    return best


def _in_all(cost: Array, exponents: Array, expected: Array) -> Array:
    """Costs (samples, tries), and a little for unexpected exponents (samples, tries, 2)."""
    far = ((np.log(exponents) - expected[:, None]) ** 2).sum(axis=2)
    return np.maximum(cost, LEAST) * (1 + TIE * far)


def _better(one: LossLaw, other: LossLaw, expected: Array) -> LossLaw:
    """The better of two laws, sample by sample."""
    costs = [_in_all(law.cost[:, None], law.exponents[:, None], expected)[:, 0] for law in (one, other)]
    wins = costs[1] < costs[0]
    return one._replace(
        terms=np.where(wins[:, None], other.terms, one.terms),
        exponents=np.where(wins[:, None], other.exponents, one.exponents),
        cost=np.where(wins, other.cost, one.cost),
    )


def _at(exponents: Array, logs: tuple[Array, Array], losses: Array) -> tuple[Array, Array]:
    """E, A and B at given exponents (samples, 2), and the cost of each sample."""
    samples, points = losses.shape
    powers = np.empty((samples, points, 3))
    powers[..., 0] = 1.0
    for i in (0, 1):
        powers[..., i + 1] = np.exp(-exponents[:, i, None] * logs[i])
    target, weights = losses, losses**-2.0
    for _ in range(PASSES):
        terms = _non_negative(powers, target, weights)
        fitted = np.maximum((powers @ terms[..., None])[..., 0], 1e-300)
        residuals = np.log(losses / fitted)
        # ln of the fit is linear near the fit, so that the next pass has the log residuals themselves to make small
        target = fitted * (1 + residuals)
        weights = np.minimum(1.0, HUBER / np.maximum(np.abs(residuals), 1e-300)) / fitted**2
    return terms, huber(residuals).mean(axis=1)


def huber(residuals: Array) -> Array:
    """Half the square up to HUBER, then the straight line that goes on from there."""
    size = np.abs(residuals)
    return np.where(size <= HUBER, size**2 / 2, HUBER * (size - HUBER / 2))


def _non_negative(powers: Array, target: Array, weights: Array) -> Array:
    """Weighted least squares with no negative coefficient: the best of all supports whose solution has none."""
    weighted = powers * weights[..., None]
    normal = np.swapaxes(powers, 1, 2) @ weighted  # (samples, 3, 3)
    right = (weighted * target[..., None]).sum(axis=1)  # (samples, 3)
    best, gain, open_ = np.zeros_like(right), np.zeros(len(right)), np.arange(len(right))
    for support in SUPPORTS:
        part = normal[open_][:, support][:, :, support]
        ridge = 1e-12 * np.trace(part, axis1=1, axis2=2)[:, None, None] * np.eye(len(support))
        solved = np.linalg.solve(part + ridge, right[open_][:, support][..., None])[..., 0]
        value = (solved * right[open_][:, support]).sum(axis=1)  # by how much the squares fall
        fits = (solved >= 0).all(axis=1)
        wins = fits & (value > gain[open_])
        rows = open_[wins]
        best[rows] = 0.0
        best[rows[:, None], support] = solved[wins]
        gain[rows] = value[wins]
        if len(support) == 3:
            open_ = open_[~fits]  # the unconstrained solution is the best there is
    return best


def law_of(runs: Sequence[Run]) -> LossLaw:
    """The law of these runs, one sample."""
    return fit_law(*_columns(runs))


def _columns(runs: Sequence[Run]) -> tuple[list[float], list[float], Array]:
    """Sizes, tokens and losses of every point of every run."""
    sizes = [run.size for run in runs for _ in run.points]
    tokens = [each for run in runs for each, _ in run.points]
    return sizes, tokens, np.array([[loss for run in runs for _, loss in run.points]])


def resampled_losses(
    runs: Sequence[Run], size: float, tokens: float, of_mean: int, resamples: int = RESAMPLES, seed: int = 0
) -> Array:
    """What the mean loss of `of_mean` new runs may be, by the law of these runs: a sample.

    The run is what is resampled: its log residuals, over all of its budgets, go together to a run with as many budgets.
    They are widened by √(n/(n − 5)) for the five numbers that were fitted, n runs; of fewer than six, by √6.
    """
    sizes, given, losses = _columns(runs)
    law = fit_law(sizes, given, losses)
    fitted = np.array([law.loss(n, d)[0] for n, d in zip(sizes, given, strict=True)])
    residuals = _by_run(runs, np.log(losses[0] / fitted))
    centre = np.log(law.exponents[0])
    near = Search((float(centre[0]), float(centre[1])), reach=1.0, grid=5, zooms=5)
    generator = np.random.default_rng(seed)
    sample = []
    for first in range(0, resamples, AT_ONCE):
        count = min(AT_ONCE, resamples - first)
        drawn = np.concatenate([_drawn(generator, residuals, each, count) for each in residuals], axis=1)
        # An exponent that the runs leave open is anything in reach: the sample is as wide as what is not known.
        expected = centre + generator.uniform(-near.reach, near.reach, (count, 2))
        again = fit_law(sizes, given, fitted * np.exp(drawn), near, expected)
        noise = np.mean([_drawn(generator, residuals, None, count)[:, -1] for _ in range(of_mean)], axis=0)
        sample.append(again.loss(size, tokens) * np.exp(noise))
    return np.concatenate(sample)


def _by_run(runs: Sequence[Run], residuals: Array) -> list[Array]:
    """The residuals of each run, centred over all runs and widened for what was fitted."""
    widening = np.sqrt(len(runs) / max(1, len(runs) - 5))
    wide = (residuals - residuals.mean()) * min(widening, np.sqrt(6))
    return list(np.split(wide, np.cumsum([len(run.points) for run in runs])[:-1]))


def _drawn(generator: np.random.Generator, residuals: Sequence[Array], like: Array | None, count: int) -> Array:
    """Residuals of runs drawn at random, with as many budgets as one; (count, budgets)."""
    donors = [each for each in residuals if like is None or len(each) == len(like)]
    chosen = generator.integers(0, len(donors), count)
    if like is None:
        return np.array([[donors[i][-1]] for i in chosen])
    return np.stack(donors)[chosen]
