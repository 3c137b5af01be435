"""zoo-plugins check, matrix and new: does a method conform, what goes with what, and a project for another method."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.plugins import Loaded


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
    new.add_argument("--slot", required=True, help="what it changes: residual, score_mixing or temporal_mixing")
    new.add_argument(
        "--into", type=Path, default=Path("."), metavar="DIR", help="where its folder goes (default: here)"
    )
    new.set_defaults(run=write_project)


def check_methods(arguments: argparse.Namespace) -> int:
    from zoo.errors import ZooError

    if bool(arguments.ids) == arguments.all:
        raise ZooError("name the methods to check, or give --all; zoo-plugins lists those that are installed")
    if arguments.set and len(arguments.ids) != 1:
        raise ZooError("--set is for one method at a time")
    from zoo.plugins import registry
    from zoo.testing import check
    from zoo.testing.report import lines

    reports = []
    known = registry()  # all are looked up before the first is examined
    chosen, broken = known.usable() if arguments.all else ([known.named(name) for name in arguments.ids], [])
    for loaded in chosen:
        found, settings = loaded.found, _settings(loaded, arguments.set)
        report = check(found.id, found.slot, settings=settings, only=arguments.only, thorough=arguments.thorough)
        reports.append(report)
        if not arguments.json:
            print("\n".join(lines(report)), flush=True)
    if arguments.json:
        print(json.dumps([report.as_dict() for report in reports], indent=1, ensure_ascii=False))
    for line in broken:
        print(f"zoo-plugins: {line}", file=sys.stderr)
    failed = [report.id for report in reports if not report.ok]
    if len(reports) > 1 and not arguments.json:
        rest = f"; not {', '.join(failed)}" if failed else ""
        print(f"{len(reports) - len(failed)} of {len(reports)} methods conform{rest}")
    return 1 if failed or broken else 0


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
