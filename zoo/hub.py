"""The classes of transformers that `zoo-export` writes a run with methods for; `import zoo` alone makes them known to it."""

try:
    import transformers  # noqa: F401
except ImportError as error:
    raise ImportError("zoo.hub needs the package transformers: pip install 'transformer-zoo[hf]'") from error

from zoo.export.transformers_config import ZooConfig, register_config
from zoo.export.transformers_model import ZooForCausalLM, register_model

__all__ = ["ZooConfig", "ZooForCausalLM"]

register_config()
register_model()
