"""The sizes that the Gin files of `gin/sizes` name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.config.gin_files import GinReader
from zoo.errors import ConfigError
from zoo.plugins.loader import LoadedMethod
from zoo.plugins.resources import project_gin_folders

if TYPE_CHECKING:
    from zoo.counting.flops import Build


class Size(NamedTuple):
    """A file of sizes, as far as a model's shape goes."""

    name: str
    vocab_size: int
    length: int
    model: Mapping[str, Any]

    def build(self, loaded: LoadedMethod | None = None) -> Build:
        """How a model of this size is made, with a method at its default settings or without."""
        from zoo.model.build import model

        slots = {} if loaded is None else {loaded.entry.slot: loaded.factory}
        return partial(model, self.vocab_size, self.length, **self.model, **slots)


def size(name: str = "base") -> Size:
    """What the project's sizes/NAME.gin says."""
    for folder in project_gin_folders():
        statements = list(GinReader([folder]).read_file(folder / "sizes" / f"{name}.gin", "file"))
        values = {statement.key: statement.value for statement in statements}
        model = {key.removeprefix("model."): value for key, value in values.items() if key.startswith("model.")}
        return Size(name, values["data.vocab_size"], values["data.length"], model)
    raise ConfigError("this installation lacks its Gin files: install it again")
