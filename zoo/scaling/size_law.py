"""Sizes, batches and rates by rule from one dial, the depth (OLMo-core's law)."""

from __future__ import annotations

from typing import NamedTuple

REFERENCE = 108e6  # parameters without embeddings of the model that the law is anchored at
REFERENCE_BATCH = 2048 * 160  # tokens
REFERENCE_RATE = 0.0047 / 2
LARGE_BATCH = 524_288  # tokens, from which on the second moment forgets faster


class Recipe(NamedTuple):
    """What the law says of one size."""

    depth: int
    width: int
    parameters: int  # without embeddings
    tokens: int
    batch: int  # tokens
    rate: float
    warmup: float  # tokens
    beta2: float

    @property
    def steps(self) -> int:
        """Tokens in batches."""
        return max(1, round(self.tokens / self.batch))


def block_parameters(depth: int, aspect: int) -> int:
    """N = 12 w² d with w = a·d: the parameters of the blocks, without embeddings."""
    return 12 * (aspect * depth) ** 2 * depth


def recipe(depth: int, aspect: int, tokens_per_parameter: float, length: int) -> Recipe:
    """What the law says of a depth; the batch is a whole number of rows of this length, at least one."""
    parameters = block_parameters(depth, aspect)
    scale = parameters / REFERENCE
    batch = length * max(1, round(REFERENCE_BATCH * scale ** (2 / 3) / length))
    return Recipe(
        depth=depth,
        width=aspect * depth,
        parameters=parameters,
        tokens=round(tokens_per_parameter * parameters),
        batch=batch,
        rate=REFERENCE_RATE * scale ** (-1 / 3),
        warmup=float(parameters),
        beta2=0.99 if batch < LARGE_BATCH else 0.95,
    )
