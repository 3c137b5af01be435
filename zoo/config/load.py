"""From Gin files and --set bindings to one checked configuration.

`load_config` reads defaults.gin, the given files and the --set bindings, imports the methods that they name (and no others),
checks everything, and only then binds the outcome in Gin, whose state is global: one configuration at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gin
import gin.config

from zoo.config.checkpoint_sizes import with_sizes
from zoo.config.checks import SLOTTED, Namespace, check, parameters
from zoo.config.configuration import Config
from zoo.config.gin_bridge import activate, core_configurables, import_configurables, register_method, reset_config
from zoo.config.gin_files import GinReader, Statement, find_gin_file, gin_folders, leaves, read_binding
from zoo.config.recipe import derive
from zoo.config.renamed import renamed
from zoo.errors import ConfigError
from zoo.plugins.finder import shadowed
from zoo.plugins.registry import installed
from zoo.plugins.resources import project_gin_folders
from zoo.plugins.settings import REQUIRED
from zoo.slots import SLOTS


def load_config(files: Sequence[str | Path], bindings: Sequence[str] = ()) -> Config:
    """Read, check and activate a configuration. Every mistake in it is a ConfigError (a broken method: PluginError)."""
    reset_config()
    registry = installed()
    reader = GinReader(gin_folders(registry))
    given = tuple(find_gin_file(str(file), folders=reader.folders) for file in files)
    statements, former = renamed(_read(reader, given, bindings))
    import_configurables()
    known = Namespace({name: parameters(c) for name, c in core_configurables().items()}, registry)
    checked, winners, warnings = check(statements, known)
    defaults = dict(_defaults(known))
    values, recipe = derive(with_sizes(checked, winners), winners, defaults.__getitem__)

    in_slots = dict.fromkeys(leaves([values.get(f"{SLOTTED}.{slot}") for slot in SLOTS]))
    config = Config(
        files=tuple(reader.texts.items()),
        given=given,
        bindings=tuple(bindings),
        values=values,
        defaults={key: default for key, default in defaults.items() if key not in values},
        restated=frozenset(key for key, value in values.items() if key in defaults and _same(defaults[key], value)),
        places={
            key: statement.where
            for key, statement in winners.items()
            if statement.source != "defaults" and key in values
        },
        plugins=tuple(known.methods[reference.name].entry for reference in in_slots if reference),
        warnings=(*former, *warnings, *_warnings(known)),
        recipe=recipe,
    )
    for loaded in known.methods.values():
        register_method(loaded)
    activate(config, values)
    return config


def _warnings(known: Namespace) -> Iterator[str]:
    """What there is to say of the plugins themselves."""
    yield from shadowed()
    for loaded in known.methods.values():
        for change in loaded.changed:
            yield f"importing {loaded.entry.name} of {loaded.entry.source} changes {change}; it is set back"


def _same(default: Any, value: Any) -> bool:
    """Whether a value is the default, of the same type too: 1 is not True."""
    return type(default) is type(value) and bool(default == value)


def _read(reader: GinReader, given: Sequence[Path], bindings: Sequence[str]) -> Iterator[Statement]:
    if not (folders := project_gin_folders()):
        raise ConfigError("this installation lacks its Gin files (defaults.gin): install it again")
    yield from reader.read_file(folders[0] / "defaults.gin", "defaults")
    for path in given:
        yield from reader.read_file(path, "file")
    for binding in bindings:
        yield from read_binding(binding)


def named(parameter: str) -> list[str]:
    """The core's settings of that name, "train.steps" for "steps" or "train.steps"; a hyphen may stand for an underscore."""
    import_configurables()
    name = parameter.replace("-", "_")
    keys = [
        f"{name}.{setting}"
        for name, configurable in core_configurables().items()
        for setting in parameters(configurable)
    ]
    return sorted(key for key in keys if name in (key, key.rpartition(".")[2]))


def _defaults(known: Namespace) -> Iterator[tuple[str, Any]]:
    for selector in [*known.core, *known.methods]:
        for setting in known.settings(selector).values():
            if setting.default is not REQUIRED and setting.default is not gin.REQUIRED:
                yield f"{selector}.{setting.name}", setting.default
