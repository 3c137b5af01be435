"""zoo-plugins check, matrix and new: does a method conform, what goes with what, and a project for another method."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.plugins import Loaded

SLOTS = ("residual", "score_mixing", "temporal_mixing")


def add(commands: Any) -> None:
    """Add the commands to zoo-plugins."""
    check = commands.add_parser("check", help="examine methods with the conformance kit; exit code 1 if one fails")
    check.add_argument("ids", metavar="ID", nargs="*", help="the method's id, or SLOT.ID")
    check.add_argument("--all", action="store_true", help="every installed method")
    check.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="SETTING=VALUE", help="a setting of the method"
    )
    check.add_argument("--only", nargs="+", action="extend", metavar="PROPERTY", help="these properties alone")
    check.add_argument("--thorough", action="store_true", help="compiled code too, which takes minutes")
    check.add_argument("--json", action="store_true", help="print the reports as JSON")
    check.set_defaults(run=check_methods)

    matrix = commands.add_parser("matrix", help="which methods can be combined, and why others cannot")
    matrix.add_argument("--json", action="store_true", help="print every pair as JSON")
    matrix.set_defaults(run=show_matrix)

    new = commands.add_parser("new", help="write a small project with a method of your own, tests included")
    new.add_argument("name", metavar="NAME", help="of the project, such as my-method")
    new.add_argument("--slot", choices=SLOTS, required=True, help="what the method changes")
    new.add_argument("--into", type=Path, default=Path("."), metavar="DIR", help="where its folder goes (default: here)")
    new.set_defaults(run=write_project)


def check_methods(arguments: argparse.Namespace) -> int:
    from zoo.errors import ZooError

    if bool(arguments.ids) == arguments.all:
        raise ZooError("name the methods to check, or give --all; zoo-plugins lists those that are installed")
    if arguments.set and len(arguments.ids) != 1:
        raise ZooError("--set is for one method at a time")
    import torch

    from zoo.testing import check
    from zoo.testing.report import lines

    torch.set_num_threads(1)  # the models are tiny: threads would only wait for each other
    reports = []
    for name, slot, settings in _named(arguments):
        report = check(name, slot, settings=settings, only=arguments.only, thorough=arguments.thorough)
        reports.append(report)
        if not arguments.json:
            print("\n".join(lines(report)), flush=True)
    if arguments.json:
        print(json.dumps([report.as_dict() for report in reports], indent=1))
    elif len(reports) > 1:
        failed = [report.id for report in reports if not report.ok]
        print(f"{len(reports) - len(failed)} of {len(reports)} methods conform" + "".join(f", not {i}" for i in failed))
    return 0 if all(report.ok for report in reports) else 1


def _named(arguments: argparse.Namespace) -> list[tuple[str, str, dict[str, Any]]]:
    """The methods to check, all of them looked up before the first is examined."""
    from zoo import plugins
    from zoo.testing.subject import named

    if arguments.all:
        registry = plugins.registry()
        return [(found.id, found.slot, {}) for found in registry.found if registry.get(found.slot, found.id)]
    chosen = []
    for asked in arguments.ids:
        slot, _, id = asked.rpartition(".")
        loaded = named(id, slot or None)
        chosen.append((id, loaded.found.slot, _settings(loaded, arguments.set)))
    return chosen


def _settings(loaded: Loaded, given: list[str]) -> dict[str, Any]:
    """SETTING=VALUE, in Gin's notation, as the method wants them."""
    from zoo import plugins
    from zoo.errors import ConfigError, nearest
    from zoo.gin_files import read_binding
    from zoo.gin_values import Mismatch, coerce, describe

    assert loaded.factory is not None
    known = {setting.name: setting for setting in plugins.settings(loaded.factory)}
    chosen = {}
    for text in given:
        name = text.partition("=")[0].strip()
        if name not in known:
            raise ConfigError(f"{loaded.found.name} has no setting {name}{nearest(name, known)}")
        for statement in read_binding(f"{loaded.found.name}.{text}"):
            try:
                chosen[name] = coerce(statement.value, known[name].annotation)
            except Mismatch:
                wanted = describe(known[name].annotation)
                raise ConfigError(f"{loaded.found.name}.{name} must be {wanted}, not {statement.value!r}") from None
    return chosen


def show_matrix(arguments: argparse.Namespace) -> int:
    from zoo.testing.matrix import cells, lines, methods

    found, broken = methods()
    pairs = cells(found)
    if arguments.json:
        rows = [{"row": c.row.name, "column": c.column.name, "refusal": c.refusal} for c in pairs]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    print("\n".join(lines(pairs) if pairs else ["There are no methods of two slots to combine."]))
    for line in broken:
        print(f"\nleft out: {line}")
    return 0


def write_project(arguments: argparse.Namespace) -> int:
    from zoo.template import new

    folder = new(arguments.name, arguments.slot, arguments.into)
    print(f"wrote {folder}; next:\n  pip install -e {folder}\n  pytest {folder}")
    return 0
