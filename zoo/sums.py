"""Weighted sums over layers, streams and positions that keep little for backward; part of the public interface."""

from zoo.kernels.previous import previous, shared_with_previous
from zoo.kernels.shared_gradients import share_gradients
from zoo.kernels.short_convolution import silu_taps
from zoo.kernels.softmax_sum import softmax_sum
from zoo.kernels.stream_mix import mixed_streams
from zoo.kernels.sums import several_taps, taps, weighted_sum

__all__ = [
    "mixed_streams",
    "previous",
    "several_taps",
    "share_gradients",
    "shared_with_previous",
    "silu_taps",
    "softmax_sum",
    "taps",
    "weighted_sum",
]
