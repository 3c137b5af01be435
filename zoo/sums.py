"""Weighted sums over layers and positions that keep little for backward; part of the public interface."""

from zoo.kernels.sums import previous, several_taps, taps, weighted_sum

__all__ = ["previous", "several_taps", "taps", "weighted_sum"]
