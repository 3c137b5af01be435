"""A naive reference of every catalogue method: the oracle of the tests, written from the catalogue alone."""

from . import residual, scores, temporal
from .blocks import LayerWeights, Method, Weights
from .host import logits

METHODS = {"residual": residual.IDS, "score": scores.IDS, "temporal": temporal.IDS}

__all__ = ["METHODS", "LayerWeights", "Method", "Weights", "logits", "residual", "scores", "temporal"]
