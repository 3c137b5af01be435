"""A small project with a method of one's own, written from the templates beside this file."""

from __future__ import annotations

import importlib.util
import keyword
import re
import string
from pathlib import Path

from zoo import API_VERSION
from zoo.errors import ZooError, nearest
from zoo.plugins.registry import installed
from zoo.slots import SLOTS

HERE = Path(__file__).parent
SUFFIX = ".in"
LONGEST = 64  # letters of a name: it becomes folders, files and a class

# Template → the file it becomes. Names and texts alike have $placeholders.
COMMON = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "package.py": "$id/__init__.py",
    "test.py": "tests/test_$id.py",
}
OF_SLOT = {
    "method.py": "$id/method.py",
    "method.gin": "$id/gin/$id.gin",
    "card.md": "$id/cards/$id.md",
}


def new(name: str, slot: str, into: Path) -> Path:
    """Write the project `name` with a method for `slot` into a new folder of that name; the answer is the folder."""
    id = check_name(name)
    if slot not in SLOTS:
        raise ZooError(f"there is no slot {slot}{nearest(slot, SLOTS)}; there are {', '.join(SLOTS)}")
    folder = into / name
    if folder.exists():
        raise ZooError(f"{folder} exists already: choose another name, or another place with --into")
    if not into.is_dir():
        raise ZooError(f"{into} is not a folder: make it first")
    values = {
        "name": name,
        "id": id,
        "Class": "".join(part.capitalize() for part in id.split("_")),
        "slot": slot,
        "api": str(API_VERSION),
    }
    texts = {}
    for group, files in (("common", COMMON), (slot, OF_SLOT)):
        for template, target in files.items():
            text = (HERE / group / f"{template}{SUFFIX}").read_text("utf-8")
            texts[folder / string.Template(target).substitute(values)] = string.Template(text).substitute(values)
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    except OSError as error:
        raise ZooError(f"{folder} cannot be written: {error.strerror}") from None
    return folder


def check_name(name: str) -> str:
    """The id of the method in a project of this name: my-method → my_method."""
    if not re.fullmatch(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise ZooError(f"{name!r} cannot be a name: use letters, digits and hyphens, a letter first, such as my-method")
    if len(name) > LONGEST:
        raise ZooError(f"a name of {len(name)} letters is too long: use at most {LONGEST}")
    id = re.sub(r"[-_.]+", "_", name).lower()
    if keyword.iskeyword(id) or keyword.issoftkeyword(id):
        raise ZooError(f"{name} cannot be a name: {id} is a word of Python's")
    if claims := installed().claims(id):
        raise ZooError(f"the id {id} is taken: {claims[0].name} of {claims[0].source}; choose another name")
    if importlib.util.find_spec(id) is not None:
        raise ZooError(
            f"a module {id} is installed already, and the method's package would hide it; choose another name"
        )
    return id
