"""The block's arithmetic that a method may use; part of the public interface."""

from zoo.kernels.norm import normed_product, rms_norm, unit

__all__ = ["normed_product", "rms_norm", "unit"]
