"""Import this, and the Auto classes of transformers load what `zoo-export` wrote of a run with methods."""

try:
    import transformers  # noqa: F401
except ImportError as error:
    raise ImportError("zoo.hub needs the package transformers: pip install 'transformer-zoo[hf]'") from error

from zoo.export.transformers_model import ZooConfig, ZooForCausalLM, register

__all__ = ["ZooConfig", "ZooForCausalLM"]

register()
