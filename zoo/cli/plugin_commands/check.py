"""zoo-plugins check: methods examined with the conformance kit."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cli.printing import say, say_json, warn
from zoo.errors import ConfigError, PluginError, ZooError, nearest

if TYPE_CHECKING:
    from zoo.plugins.loader import LoadedMethod
    from zoo.plugins.registry import Registry

HELP = "examine methods with the conformance kit; exit code 1 if one fails"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the methods to check, and how."""
    parser.add_argument("ids", metavar="ID", nargs="*", help="the method's id, or SLOT.ID")
    parser.add_argument("--all", action="store_true", help="every installed method")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="SETTING=VALUE", help="a setting of the method"
    )
    parser.add_argument("--only", nargs="+", action="extend", metavar="PROPERTY", help="only these properties")
    parser.add_argument("--thorough", action="store_true", help="compiled code too, which takes minutes")
    parser.add_argument("--json", action="store_true", help="print the reports as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Check the methods that the arguments name."""
    if bool(arguments.ids) == arguments.all:
        raise ZooError("name the methods to check, or give --all; zoo-plugins lists those that are installed")
    if arguments.set and len(arguments.ids) != 1:
        raise ZooError("--set is for one method at a time")
    from zoo.plugins.registry import installed
    from zoo.testing import check
    from zoo.testing.report import lines

    reports = []
    registry = installed()  # all are looked up before the first is examined
    chosen, broken = _usable(registry) if arguments.all else (_named(registry, arguments.ids), [])
    for loaded in chosen:
        entry, settings = loaded.entry, _settings(loaded, arguments.set)
        with contextlib.redirect_stdout(sys.stderr):  # what a method prints is no part of the report
            report = check(entry.id, entry.slot, settings=settings, only=arguments.only, thorough=arguments.thorough)
        reports.append(report)
        if not arguments.json:
            say("\n".join(lines(report)))
    if arguments.json:
        say_json([report.as_dict() for report in reports])
    for line in broken:
        warn("zoo-plugins", line)
    failed = [report.id for report in reports if not report.ok]
    if len(reports) > 1 and not arguments.json:
        rest = f"; not {', '.join(failed)}" if failed else ""
        say(f"{len(reports) - len(failed)} of {len(reports)} methods conform{rest}")
    return 1 if failed or broken else 0


def _usable(registry: Registry) -> tuple[list[LoadedMethod], list[str]]:
    """Every usable method, and a line for each other one; all are imported in another process first, as one may hang."""
    from zoo.catalogue.status import sound

    good, broken = sound(registry)
    loaded, others = good.usable()
    return loaded, [*broken, *others]


def _named(registry: Registry, names: list[str]) -> list[LoadedMethod]:
    """The methods that a user names, in each of their slots."""
    for name in names:
        _check_name(registry, name)
    return [part for name in names for part in registry.parts(name)]


def _check_name(registry: Registry, name: str) -> None:
    """For the folder or file of a method in place of its id, a sentence that says what to do."""
    if not registry.claims(name.rpartition(".")[2]):
        if project := _project(name):
            raise PluginError(f"the method {name} is not installed: install it first: pip install -e {project}")
        if "/" in name or Path(name).exists():
            raise PluginError(
                f"{name} is a path, and methods are named by their ids, such as {_id(Path(name))}; zoo-plugins lists those"
                " that are installed"
            )


def _project(name: str) -> Path | None:
    """The project of a plugin in the folder of this name, or of the name with hyphens, or around us; if there is one."""
    from zoo.slots import GROUPS

    for folder in dict.fromkeys((name, name.replace("_", "-"), name.replace("-", "_"), ".")):
        with contextlib.suppress(OSError, ValueError):
            text = Path(folder, "pyproject.toml").read_text("utf-8")
            here = folder != "." or f"\n{name} = " in text
            if here and any(group in text for group in GROUPS):
                return Path(folder)
    return None


def _id(path: Path) -> str:
    """What the id of the method in a file or folder most likely is: that of the package, in a project of the template."""
    return (path.parent.name if path.suffix else path.name).replace("-", "_") or "my_method"


def _settings(loaded: LoadedMethod, bindings: list[str]) -> dict[str, Any]:
    """The settings that SETTING=VALUE, in Gin's notation, gives a method."""
    from zoo.config.gin_files import read_binding
    from zoo.config.values import Mismatch, coerce, describe
    from zoo.plugins.settings import settings_of

    assert loaded.factory is not None
    known = {setting.name: setting for setting in settings_of(loaded.factory)}
    settings = {}
    for text in bindings:
        name = text.partition("=")[0].strip()
        if name not in known:
            raise ConfigError(f"{loaded.entry.name} has no setting {name}{nearest(name, known)}")
        for statement in read_binding(f"{loaded.entry.name}.{text}"):
            try:
                settings[name] = coerce(statement.value, known[name].annotation)
            except Mismatch:
                expected = describe(known[name].annotation)
                raise ConfigError(f"{loaded.entry.name}.{name} must be {expected}, not {statement.value!r}") from None
    return settings
