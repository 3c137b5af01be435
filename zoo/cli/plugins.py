"""zoo-plugins: the methods that are installed, and what each of them is."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli import plugin_commands
from zoo.cli.arguments import Parser, seen_enough

if TYPE_CHECKING:
    from zoo.plugin_states import State

COLUMNS = ("id", "slot", "distribution", "version", "origin", "Gin file", "card", "parameters", "state")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    from zoo.errors import ZooError

    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except ZooError as error:
        print(f"zoo-plugins: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("zoo-plugins: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return seen_enough()
    return code


def _parser() -> argparse.ArgumentParser:
    parser = Parser("zoo-plugins", "List the methods that are installed.")
    parser.add_argument("--fresh", action="store_true", help="import every plugin again, whatever is remembered of it")
    parser.set_defaults(run=list_all)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    show = commands.add_parser("show", help="a method's card, settings and the Gin lines to use it")
    show.add_argument("id", metavar="ID", help="the method's id, or SLOT.ID")
    show.set_defaults(run=show_one)
    plugin_commands.add(commands)
    return parser


# --- the list


def list_all(arguments: argparse.Namespace) -> int:
    from zoo import plugins
    from zoo.plugin_states import states

    found = states(plugins.registry(), fresh=arguments.fresh)
    if not found:
        print("No methods are installed: no distribution has entry points in zoo.residual and the like.")
        return 0
    rows = [_row(state) for state in found]
    if sys.stdout.isatty():
        _print_table(rows)
    else:
        _print_plain(rows)
    if any(state.problem for state in found):
        print("\n`zoo-plugins show ID` tells more of a broken one.")
    return 0


def _row(state: State) -> tuple[str, ...]:
    from zoo import plugins

    found = state.found
    files = (plugins.origin(found), plugins.gin_file(found), plugins.card(found))
    told = state.problem.splitlines()[0] if state.problem else ""
    return (
        found.id,
        found.slot,
        found.distribution,
        found.version,
        *(_short(file) for file in files),
        "-" if state.adds is None else f"{state.adds:+,}",
        f"broken: {told}" if state.problem else "ok",
    )


def _short(path: Path | None) -> str:
    if path is None:
        return "-"
    for base, mark in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(base):
            return mark + str(path.relative_to(base))
    return str(path)


def _print_table(rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, overflow="fold", no_wrap=column == "id")
    for row in rows:
        table.add_row(*map(Text, row[:-1]), Text(row[-1], style="green" if row[-1] == "ok" else "red"))
    Console().print(table)


def _print_plain(rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]
    for row in (COLUMNS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


# --- one method


def show_one(arguments: argparse.Namespace) -> int:
    from zoo import cards, plugins

    loaded = plugins.registry().named(arguments.id)
    found = loaded.found
    assert loaded.factory is not None
    settings = plugins.settings(loaded.factory)
    card, gin_file = plugins.card(found), plugins.gin_file(found)

    print(f"{found.name} of {found.source} ({found.value})\n")
    print(card.read_text("utf-8").rstrip() if card else "It has no card.")
    print("\n" + cards.describe(loaded))
    print("\nTo use it")
    if gin_file:
        print(f"  zoo-train --gin {_short(gin_file)}")
    print(f"  model.{found.slot} = @{found.name}")
    for setting in settings:
        print(f"  {found.name}.{setting.name} = {cards.default(setting)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
