"""How predictable a text is without any model: by a general compressor, and by the frequencies of its tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


def compressed_bits(text: bytes) -> float:
    """Bits per byte that a general compressor needs for a text."""
    import lzma

    return 8 * len(lzma.compress(text)) / max(1, len(text))


def unigram_entropy(trained_on: np.ndarray, frequencies: np.ndarray) -> float:
    """Nats per token if each came with its frequency in the training tokens (add-one): what a model must beat."""
    import numpy as np

    counts = trained_on + 1
    return float(-(frequencies @ np.log(counts / counts.sum())) / frequencies.sum())
