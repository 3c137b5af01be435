"""`zoo-report`: the report of a bench again, of several together, or beside an earlier one."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli.arguments import Parser, ended_by_reader, failed, folder

PROGRAM = "zoo-report"


def parser() -> argparse.ArgumentParser:
    of_command = Parser(PROGRAM, "Rebuild the report of a bench from its results, or merge several.")
    of_command.add_argument(
        "folders", nargs="+", type=Path, metavar="FOLDER", help="stores of zoo-bench, or results.jsonl files"
    )
    of_command.add_argument(
        "--into", type=Path, metavar="DIR", help="where the report goes (default: the first folder)"
    )
    of_command.add_argument("--against", type=Path, metavar="FOLDER", help="an earlier store to compare with")
    of_command.add_argument(
        "--results", type=Path, metavar="FILE", help="also write a RESULTS.md: claim and verdict of each method"
    )
    of_command.add_argument(
        "--cards", type=Path, metavar="DIR", help="also put what was measured into the cards of this folder"
    )
    of_command.add_argument("--json", action="store_true", help="print verdicts, arms and downstream figures as JSON")
    return of_command


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    from zoo.errors import ZooError

    try:
        code = _report(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return ended_by_reader()
    except (ZooError, OSError) as error:
        return failed(PROGRAM, error)


def _report(options: argparse.Namespace) -> int:
    from zoo.bench.store import merged, read_suite_notes, store_folder
    from zoo.report.findings import Findings
    from zoo.report.report_folder import print_report, write_report
    from zoo.report.tables import tables
    from zoo.system.files import write_atomically
    from zoo.system.table import show

    folders: list[Path] = options.folders
    gc.disable()  # results hold no cycles, and looking for some takes longer the more there are
    try:
        findings = Findings.of(merged(folders), read_suite_notes(folders))
    finally:
        gc.freeze()
        gc.enable()
    into = options.into or store_folder(folders[0])
    folder("--into", into)
    if options.against:
        findings = findings.against(Findings.of(merged([options.against]), read_suite_notes([options.against])))
    write_report(findings, into)
    if options.results:
        from zoo.report.results_page import results_page

        write_atomically(options.results, results_page(findings))
    if options.cards:
        from zoo.report.measured_cards import write_cards
        from zoo.system.table import counted

        updated = f"{counted(write_cards(findings, options.cards), 'card')} in {options.cards} updated"
        print(updated, file=sys.stderr if options.json else sys.stdout)
    if options.json:
        from zoo.cli.printing import say_json
        from zoo.report.as_json import as_dict

        say_json(as_dict(findings))
        return 0
    show(tables(findings))
    print_report(findings, into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
