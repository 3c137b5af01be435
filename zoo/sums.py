"""Weighted sums over layers and positions that keep little for backward; part of the public interface."""

from zoo.kernels.short_convolution import silu_taps
from zoo.kernels.softmax_sum import softmax_sum
from zoo.kernels.sums import previous, several_taps, taps, weighted_sum

__all__ = ["previous", "several_taps", "silu_taps", "softmax_sum", "taps", "weighted_sum"]
