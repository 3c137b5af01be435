"""`zoo-report`: the report of a bench again, of several together, or beside an earlier one."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli.arguments import Parser, ended_by_reader, failed, folder

if TYPE_CHECKING:
    from zoo.report.findings import Findings

PROGRAM = "zoo-report"


EPILOG = """\
examples:
  zoo-report bench                               bench/report.html, report.md, and the same for TensorBoard
  zoo-report bench /other/bench --into report    several stores as one, wherever they are from
  zoo-report bench --against older               what has changed since an earlier store
  zoo-report results --results RESULTS.md        a page to read in two minutes; a page per method in docs/results
  zoo-report results --archive results/archive --results RESULTS.md --cards plugins/cards

report.html is one file: the first screen says what helps, what hurts and what is open; a method's name opens its page.
"""


def parser() -> argparse.ArgumentParser:
    of_command = Parser(PROGRAM, "Rebuild the report of a bench from its results, or merge several.", EPILOG)
    of_command.add_argument(
        "folders", nargs="*", type=Path, metavar="FOLDER", help="stores of zoo-bench, or results.jsonl files"
    )
    of_command.add_argument(
        "--into", type=Path, metavar="DIR", help="where the report goes (default: the first folder)"
    )
    of_command.add_argument("--against", type=Path, metavar="FOLDER", help="an earlier store to compare with")
    of_command.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="also write a RESULTS.md, and beside it docs/results: a page per method, all tables, the archive",
    )
    of_command.add_argument(
        "--archive",
        type=Path,
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="stores with older results that no longer count: a page of --results, and a part of --cards",
    )
    of_command.add_argument(
        "--cards", type=Path, metavar="DIR", help="also put what was measured into the cards of this folder"
    )
    of_command.add_argument("--json", action="store_true", help="print verdicts, arms and downstream figures as JSON")
    return of_command


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    from zoo.cli.printing import warn
    from zoo.errors import ZooError
    from zoo.system.memory import collection_paused

    try:
        with collection_paused():
            code = _report(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return ended_by_reader()
    except (ZooError, OSError) as error:
        return failed(PROGRAM, error)
    except KeyboardInterrupt:
        warn(PROGRAM, "interrupted; the same command writes the report again")
        return 128 + signal.SIGINT
    finally:
        gc.freeze()  # nor does the end of the process look for cycles


def _report(options: argparse.Namespace) -> int:
    from zoo.errors import ZooError

    if not options.folders and not options.archive:
        raise ZooError("name the folder of a bench: zoo-report bench")
    if options.archive and not options.results and not options.cards:
        raise ZooError(
            "--archive is a page of --results, or a part of --cards: name a file or a folder with one of them"
        )
    findings = _findings(options.folders) if options.folders else None
    archive = _findings(options.archive) if options.archive else None
    if findings is not None:
        findings = _written(findings, options)
    if options.results:
        from zoo.report.results_folder import write_results

        write_results(findings, archive, options.results, options.cards)
    if options.cards:
        from zoo.report.measured_cards import write_cards
        from zoo.system.table import counted

        updated = f"{counted(write_cards(findings, options.cards, archive), 'card')} in {options.cards} updated"
        print(updated, file=sys.stderr if options.json else sys.stdout)
    if findings is None:
        return 0
    if options.json:
        from zoo.cli.printing import say_json
        from zoo.report.as_json import as_dict

        say_json(as_dict(findings))
    else:
        _show(findings, options)
    return 0


def _findings(folders: Sequence[Path]) -> Findings:
    """What the results of these stores say together."""
    from zoo.bench.store import merged
    from zoo.bench.suite_notes import read_suite_notes
    from zoo.report.findings import Findings

    return Findings.of(merged(folders), read_suite_notes(folders))


def _written(findings: Findings, options: argparse.Namespace) -> Findings:
    """Write the report of these findings, beside an earlier one's where there is one."""
    from zoo.report.report_folder import write_report

    into = _into(options)
    folder("--into", into)
    if options.against:
        findings = findings.against(_findings([options.against]))
    write_report(findings, into)
    return findings


def _into(options: argparse.Namespace) -> Path:
    from zoo.bench.store import store_folder

    into: Path = options.into or store_folder(options.folders[0])
    return into


def _show(findings: Findings, options: argparse.Namespace) -> None:
    """Print the first screen's tables, then all others."""
    from zoo.report.overview import overview_table, parts
    from zoo.report.report_folder import print_report
    from zoo.report.standings import standings
    from zoo.report.tables import tables
    from zoo.system.table import show

    show([*map(overview_table, parts(standings(findings))), *tables(findings)])
    print_report(findings, _into(options))


if __name__ == "__main__":
    sys.exit(main())
