"""A model of the same settings is counted once, however many methods it is the baseline of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from zoo.slots import SLOTS

if TYPE_CHECKING:
    from zoo.model.language_model import LanguageModel

T = TypeVar("T")
Counts = dict[Hashable, Any]


class CountedBuild:
    """Builds the model that some settings make, and knows what was counted of equal ones in `counts`."""

    def __init__(self, build: Callable[..., LanguageModel], settings: Mapping[str, str], counts: Counts) -> None:
        """`settings` are those of the model and of the methods in its slots, rendered, by name: "model.depth", "residual.m.n"."""
        self.build, self.settings, self.counts = build, settings, counts

    def __call__(self, **keywords: Any) -> LanguageModel:
        return self.build(**keywords)

    def once(self, what: str, keywords: Mapping[str, Any], count: Callable[[], T]) -> T:
        """What `count` makes of the model with these keywords, unless it is known."""
        key = what, self._settings_with(keywords)
        if key not in self.counts:
            self.counts[key] = count()
        counted: T = self.counts[key]
        return counted

    def _settings_with(self, keywords: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
        replaced = {f"model.{keyword}" for keyword in keywords}
        empty = tuple(f"{slot}." for slot in SLOTS if slot in keywords)
        own = {key: text for key, text in self.settings.items() if key not in replaced and not key.startswith(empty)}
        given = {f"model.{keyword}": repr(value) for keyword, value in keywords.items() if value is not None}
        return frozenset((own | given).items())


def counted_once(what: str, build: Callable[..., LanguageModel], count: Callable[[], T]) -> T:
    """What `count` makes of a build; of a `CountedBuild`, with whatever keywords, only if it is not known."""
    base: Any = build
    keywords: dict[str, Any] = {}
    while isinstance(base, functools.partial) and not base.args:
        base, keywords = base.func, {**base.keywords, **keywords}
    return base.once(what, keywords, count) if isinstance(base, CountedBuild) else count()
