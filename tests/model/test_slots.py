"""The slots are one fact: zoo/slots.py names them, and everything else derives from that."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from helpers.random_models import random_model

from zoo.catalogue.scaffold import HERE
from zoo.extension import SLOT_CLASSES, is_plain
from zoo.model.build import model
from zoo.slots import GROUPS, SLOTS

ROOT = Path(__file__).parents[2]

# Where more than one slot may be named: who adds a slot looks here.
NAMED = {
    "zoo/slots.py": "the names themselves",
    "zoo/extension.py": "the base class of each",
    "zoo/model/build.py": "a setting of `model` for each",
    "zoo/api/models.py": "what `zoo.build` takes for each, with its type",
    "zoo/model/block.py": "where each sits",
    "zoo/model/attention.py": "where those around attending sit",
    "zoo/model/extensions.py": "what makes no sense together",
    "zoo/model/observation.py": "what to say of each when its numbers are not finite",
    "tests/helpers/fake_distributions.py": "two made-up methods, each of another slot",
    "tests/helpers/fake_project.py": "a made-up model with made-up methods",
    "tests/helpers/wrong_modules.py": "a method that looks at its neighbour",
}


def slots_named(path: Path) -> set[str]:
    """The slots that a file names in its code, its comments or its docstrings."""
    text = path.read_text("utf-8")
    return {slot for slot in SLOTS if re.search(rf"\b{slot}\b", text)}


def test_no_other_file_spells_the_slots_out() -> None:
    files = [path for folder in ("zoo", "tools", "tests/helpers") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 150
    spelt = {str(path.relative_to(ROOT)) for path in files if len(slots_named(path)) > 1}
    assert spelt == set(NAMED), "derive it from zoo.slots.SLOTS or zoo.extension.SLOT_CLASSES"


def test_every_slot_has_its_class_its_setting_and_its_template() -> None:
    assert tuple(SLOT_CLASSES) == SLOTS == tuple(GROUPS.values())
    settings = inspect.signature(model).parameters
    assert [name for name in settings if name in SLOTS] == list(SLOTS)
    assert all(settings[slot].default is None for slot in SLOTS)
    assert {folder.name for folder in HERE.iterdir() if (folder / "method.py.in").exists()} == set(SLOTS)


@pytest.mark.parametrize("slot", SLOTS)
def test_a_block_knows_the_extension_of_every_slot(slot: str) -> None:
    built = random_model(depth=2)
    assert [type(part) for part in built.parts(slot)] == [SLOT_CLASSES[slot]] * 2
    assert all(map(is_plain, built.all_parts())) and len(built.all_parts()) == 2 * len(SLOTS)
    assert list(map(id, built.all_parts())) == [id(part) for each in SLOTS for part in built.parts(each)]
