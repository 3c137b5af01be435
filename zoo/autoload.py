"""Where transformers is imported, let its Auto classes know the models of the zoo; elsewhere this costs nothing.

`import zoo` calls `watch`, and so does `import torch`, which transformers imports first: transformers has no entry points, but
torch calls those of the group `torch.backends`. That one is of the module zoo_autoload, a link to this file: somebody
else's module called zoo, where it hides ours, must not keep torch from being imported.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

AUTO = "transformers.models.auto.configuration_auto"  # where transformers keeps its list of configurations


def watch() -> None:
    """Register as soon as transformers has its list: at once, or when that is imported."""
    if AUTO in sys.modules:
        register()
    elif not any(_is_watch(finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


def register() -> None:
    """Let AutoConfig know the configuration, which brings its model along. Another module called zoo has none."""
    with contextlib.suppress(ImportError):
        from zoo.export.transformers_config import register_config

        register_config()


class _Watch:
    """A finder that leaves the finding to the others."""

    watched = AUTO

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name != AUTO:
            return None
        others = (finder for finder in sys.meta_path if not _is_watch(finder))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec and spec.loader:
            spec.loader.exec_module = _then_registered(spec.loader.exec_module)  # type: ignore[method-assign,assignment]
        return spec


def _is_watch(finder: Any) -> bool:
    """Whether it is ours, also as the other of the two modules has it."""
    return getattr(finder, "watched", None) == AUTO


def _then_registered(execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def executed(module: ModuleType) -> None:
        execute(module)
        register()

    return executed
