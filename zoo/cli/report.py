"""`zoo-report`: the report of a bench again, of several together, or beside an earlier one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli.arguments import Parser, failed, folder, seen_enough

PROGRAM = "zoo-report"


def parser() -> argparse.ArgumentParser:
    made = Parser(PROGRAM, "Rebuild the report of a bench from its results, or merge several.")
    made.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER", help="stores of zoo-bench, or results.jsonl files"
    )
    made.add_argument("--into", type=Path, metavar="DIR", help="where the report goes (default: the first folder)")
    made.add_argument("--against", type=Path, metavar="FOLDER", help="an earlier store to compare with")
    made.add_argument(
        "--results", type=Path, metavar="FILE", help="also write a RESULTS.md: claim and verdict of each method"
    )
    made.add_argument(
        "--cards", type=Path, metavar="DIR", help="also put what was measured into the cards of this folder"
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    from zoo.errors import ZooError

    try:
        code = _report(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return seen_enough()
    except (ZooError, OSError) as error:
        return failed(PROGRAM, error)


def _report(options: argparse.Namespace) -> int:
    from zoo import report
    from zoo.files import write_atomically
    from zoo.store import known, merged, place
    from zoo.table import show

    folders: list[Path] = options.folders
    found = report.Report.of(merged(folders), known(folders))
    into = options.into or place(folders[0])
    folder("--into", into)
    if options.against:
        found = found.against(report.Report.of(merged([options.against]), known([options.against])))
    report.write(found, into)
    if options.results:
        from zoo.results import results_page

        write_atomically(options.results, results_page(found))
    if options.cards:
        from zoo.results import write_cards

        print(f"{write_cards(found, options.cards)} cards of {options.cards} say what was measured")
    show(found.tables())
    report.tell(found, into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
