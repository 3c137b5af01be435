"""The first gate of a ladder: no method is trained that fails the conformance kit."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.bench.arms import Arm
    from zoo.bench.ladder_plan import LadderPlan
    from zoo.bench.schedule import Say

FILE = "kit.jsonl"


def check_methods(plan: LadderPlan, store: Path, say: Say) -> tuple[LadderPlan, list[str]]:
    """The plan without the methods that fail the kit, and a sentence for each of these.

    What passed is kept in the store, by the hash of the method's code and its settings.
    """
    from zoo.system.files import append_line
    from zoo.system.json_rows import records, warn

    passed = {str(row.get("method")) for row in records(store / FILE, "outcome of the kit", lambda row: row, warn)}
    failures: dict[str, str] = {}
    for member in plan.hosts[0][0].members:
        for name in member.arm.code:
            key = _key(member.arm, name)
            if key in passed or member.label in failures:
                continue
            say(f"{member.label}: the conformance kit")
            if broken := _broken(member.arm, name):
                failures[member.label] = (
                    f"{member.label} is not trained: it fails the kit ({', '.join(broken)});"
                    f" zoo-plugins check {name} says why"
                )
            else:
                append_line(store / FILE, {"method": key})
                passed.add(key)
    hosts = tuple(
        tuple(
            rung._replace(members=tuple(member for member in rung.members if member.label not in failures))
            for rung in rungs
        )
        for rungs in plan.hosts
    )
    return plan._replace(hosts=hosts), list(failures.values())


def _settings(arm: Arm, name: str) -> dict[str, Any]:
    """What the arm binds of a method's settings."""
    return {key.removeprefix(f"{name}."): value for key, value in arm.values.items() if key.startswith(f"{name}.")}


def _key(arm: Arm, name: str) -> str:
    """Method, code and settings."""
    return f"{name} {' '.join(arm.code[name][:1])} {sorted(_settings(arm, name).items())}"


def _broken(arm: Arm, name: str) -> list[str]:
    """The properties of the kit that a method fails."""
    from zoo.testing import check

    slot, _, id = name.partition(".")
    with contextlib.redirect_stdout(sys.stderr):  # what a method prints is no part of it
        report = check(id, slot, settings=_settings(arm, name))
    return [result.property for result in report.results if result.status == "failed"]
