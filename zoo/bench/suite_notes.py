"""Notes on the suites of a store, in its `suites.json`: which arms a bench judges together, and by what."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from zoo.bench.ladder_notes import LadderArm, Prediction, are_looks, read_ladder_arms, read_predictions
from zoo.bench.step_costs import StepCost, merge_costs
from zoo.bench.store import KINDS, store_folder
from zoo.evaluation.outcomes import Outcome, read_outcomes
from zoo.system.files import write_atomically
from zoo.system.json_rows import parsed, warn

SUITES = "suites.json"


class SuiteNotes(NamedTuple):
    """What a report needs to know beyond the results."""

    suites: Mapping[str, str]  # a method's arm → the suite that it was judged in
    baselines: Mapping[str, Mapping[str, str]]  # a method's arm → how matched → the baseline's arm, of all benches
    twins: tuple[tuple[str, str], ...]  # methods that are the same function
    costs: Mapping[str, StepCost] = MappingProxyType({})  # by arm
    margins: Mapping[str, float] = MappingProxyType({})  # suite → the smallest difference that matters, where set
    looks: Mapping[str, tuple[int, ...]] = MappingProxyType({})  # suite → the seeds of its planned looks, if it had any
    ladder_arms: Mapping[tuple[str, int, str], LadderArm] = MappingProxyType({})  # by ladder, depth and label
    predictions: Mapping[tuple[str, str], Prediction] = MappingProxyType({})  # by ladder and arm
    outcomes: tuple[Outcome, ...] = ()  # of runs on tasks


NO_NOTES = SuiteNotes(suites={}, baselines={}, twins=())


def note_suite(
    folder: Path,
    suite: str,
    methods: Mapping[str, Mapping[str, str]],
    twins: Iterable[tuple[str, str]],
    margin: float | None = None,
    looks: Sequence[int] = (),
) -> None:
    """Note what a bench judges together: arms and their baselines. "" is for what was named one by one.

    A suite that was looked at more than once stays one: `looks` of an earlier bench are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    notes = _read_notes(folder, set_aside=True)
    entry = notes.get(suite, {"arms": {}, "twins": []})
    arms = entry["arms"] | {id: {**entry["arms"].get(id, {}), **baselines} for id, baselines in methods.items()}
    same = {tuple(pair) for pair in entry["twins"]} | set(twins)
    notes[suite] = {**entry, "arms": arms, "twins": sorted(same), "margin": margin}
    if looks:
        notes[suite]["looks"] = list(looks)
    _write_notes(folder, notes)


def remember_margins(folder: Path, margins: Mapping[str, Mapping[str, float]]) -> None:
    """Note the margins that a report judged by: suite → the plain model's arm → margin."""
    notes = _read_notes(folder)
    for suite, judged in margins.items():
        if suite in notes:
            notes[suite]["judged_by"] = {**notes[suite].get("judged_by", {}), **judged}
    _write_notes(folder, notes)


def _write_notes(folder: Path, notes: Mapping[str, Any]) -> None:
    write_atomically(folder / SUITES, json.dumps(notes, indent=1, sort_keys=True) + "\n")


def read_suite_notes(folders: Sequence[Path]) -> SuiteNotes:
    """What the benches of these stores noted; an arm that several suites name belongs to the first by name."""
    suites: dict[str, str] = {}
    baselines: dict[str, dict[str, str]] = {}
    twins: set[tuple[str, str]] = set()
    margins: dict[str, float] = {}
    looks: dict[str, tuple[int, ...]] = {}
    for folder in folders:
        notes = _read_notes(store_folder(folder))
        for name in sorted(notes, reverse=True):  # the first name is written last and so stands, but never ""
            arms = notes[name]["arms"]
            suites |= {id: name or suites.get(id, "") for id in arms}
            for id, matched in arms.items():
                baselines.setdefault(id, {}).update(matched)
            twins |= {(one, other) for one, other in notes[name]["twins"]}
            if (margin := notes[name].get("margin")) is not None:
                margins[name] = margin
            if planned := notes[name].get("looks"):
                looks[name] = tuple(planned)
    return SuiteNotes(
        suites=suites,
        baselines=baselines,
        twins=tuple(sorted(twins)),
        costs=merge_costs(map(store_folder, folders)),
        margins=margins,
        looks=looks,
        ladder_arms=read_ladder_arms(map(store_folder, folders)),
        predictions=read_predictions(map(store_folder, folders)),
        outcomes=read_outcomes(map(store_folder, folders)),
    )


def _read_notes(folder: Path, set_aside: bool = False) -> dict[str, Any]:
    """The notes of a store, empty with a warning where they cannot be read; `set_aside` then also moves the file away."""
    file = folder / SUITES
    if not file.exists():
        return {}
    try:
        notes: dict[str, Any] = parsed(file.read_bytes())
        if _are_notes(notes):
            return notes
    except (ValueError, OSError):
        pass
    lost = "which methods were judged together is not known"
    if set_aside:
        aside = next(path for i in itertools.count(1) if not (path := file.with_name(f"{SUITES}-damaged-{i}")).exists())
        file.rename(aside)
        warn(f"{file} cannot be read and was moved to {aside.name}: {lost} of earlier benches; run those again")
    else:
        warn(f"{file} cannot be read: {lost}; the next zoo-bench in this store writes it anew")
    return {}


def _are_notes(notes: Any) -> bool:
    """Whether these are notes: suite → arms → how matched → arm, and pairs of twins."""
    return isinstance(notes, dict) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("arms"), dict)
        and all(_are_texts(matched) and matched.keys() <= KINDS.keys() for matched in entry["arms"].values())
        and isinstance(entry.get("twins"), list)
        and all(isinstance(pair, list) and [type(name) for name in pair] == [str, str] for pair in entry["twins"])
        and (entry.get("margin") is None or (type(entry["margin"]) in (int, float) and 0 < entry["margin"] < 1e6))
        and isinstance(entry.get("judged_by", {}), dict)
        and are_looks(entry.get("looks", []))
        for entry in notes.values()
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
