"""Recurrences over time as products of chunks, with a state in and out; part of the public interface."""

from zoo.kernels.channel_decay import channel_decay
from zoo.kernels.delta_rule import delta_rule
from zoo.kernels.diagonal_scan import linear_scan
from zoo.kernels.long_convolution import long_convolution
from zoo.kernels.scalar_decay import scalar_decay
from zoo.kernels.selective_scan import selective_scan

__all__ = ["channel_decay", "delta_rule", "linear_scan", "long_convolution", "scalar_decay", "selective_scan"]
