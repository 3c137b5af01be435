"""The zoo: change one thing about a transformer block and learn honestly whether it helps.

`import zoo` offers the names of `__all__`, each imported when it is first used: docs/python.md.
"""

from typing import TYPE_CHECKING

from zoo.autoload import watch as _watch

# What a plugin is written against. The second number grows when something is added, the first when something may break.
API_VERSION = (1, 2)

# Where each name of the Python interface is. Known by name: importing it would cost every `--help` a second.
_NAMES = {
    "Model": "zoo.model.language_model:LanguageModel",
    "Run": "zoo.generation.open_run:Run",
    "Summary": "zoo.runs.summary:Summary",
    "ZooError": "zoo.errors:ZooError",
    "build": "zoo.api.models:build",
    "method": "zoo.api.models:method",
    "methods": "zoo.api.models:methods",
    "fit": "zoo.api.fitting:fit",
    "train": "zoo.api.runs:train",
    "load": "zoo.api.runs:load",
    "generate": "zoo.api.runs:generate",
    "evaluate": "zoo.api.runs:evaluate",
    "results": "zoo.api.comparisons:results",
    "compare": "zoo.api.comparisons:compare",
}
__all__ = ["API_VERSION", "__version__", *_NAMES]

_watch()

if TYPE_CHECKING:
    from zoo.api.comparisons import compare as compare, results as results
    from zoo.api.fitting import fit as fit
    from zoo.api.models import build as build, method as method, methods as methods
    from zoo.api.runs import evaluate as evaluate, generate as generate, load as load, train as train
    from zoo.errors import ZooError as ZooError
    from zoo.generation.open_run import Run as Run
    from zoo.model.language_model import LanguageModel
    from zoo.runs.summary import Summary as Summary

    Model = LanguageModel
    __version__: str
else:

    def __getattr__(name):
        # Looked up when asked for: importlib.metadata would cost every `--help` some milliseconds.
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                return version("transformer-zoo")
            except PackageNotFoundError:
                return "0+unknown"
        if name in _NAMES:
            from importlib import import_module

            module, _, attribute = _NAMES[name].partition(":")
            globals()[name] = getattr(import_module(module), attribute)
            return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
