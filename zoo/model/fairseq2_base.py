"""fairseq2's base classes of the model, imported without the packages around them."""

from zoo.system.fairseq2_setup import load_alone

load_alone("fairseq2.models.clm")

from fairseq2.models.clm import CausalLM  # noqa: E402
from fairseq2.nn import StandardEmbedding  # noqa: E402

__all__ = ["CausalLM", "StandardEmbedding"]
