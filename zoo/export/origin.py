"""Which run an exported model was: a few words in its config.json, which transformers carries along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.system.foreign_text import one_line

if TYPE_CHECKING:
    from zoo.generation.open_run import Run

ENTRY = "zoo_run"


class Origin(NamedTuple):
    """A run by its methods, its seed and its step."""

    name: str
    seed: int = 0
    step: int = 0


def origin_entry(run: Run) -> dict[str, Any]:
    """What is written of a run."""
    return {ENTRY: Origin(run.name, run.seed, run.step)._asdict()}


def read_origin(config: Mapping[str, Any]) -> Origin:
    """What a config.json says of the run; of a model that was none, the name of its architecture."""
    entry = config.get(ENTRY)
    known = entry if isinstance(entry, dict) else {}
    name, seed, step = (known.get(field) for field in Origin._fields)
    architectures = config.get("architectures")
    named = architectures[0] if isinstance(architectures, list) and architectures else config.get("model_type")
    return Origin(
        one_line(name if isinstance(name, str) and name else str(named)),
        seed if type(seed) is int else 0,
        step if type(step) is int else 0,
    )
