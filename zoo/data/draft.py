"""The draft of a prepared folder, beside it, and how it takes the folder's place.

What stands under these names is removed only where nothing but files of a preparation is in it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from zoo.data.corpus import SPLITS
from zoo.data.manifest import FILE, TOKENIZER
from zoo.errors import DataError
from zoo.system.files import TEMPORARY, sync_folder
from zoo.system.regular_files import parse_object, read_regular

PLAN, JOURNAL = "plan.json", "journal.json"
PAGES = "|".join(map(re.escape, (PLAN, JOURNAL, FILE, TOKENIZER)))
# Systems leave names of their own behind: .nfs… for what was removed and is still open, .DS_Store.
OWN = re.compile(rf"(?:{PAGES})(?:{re.escape(TEMPORARY)})?|(?:{'|'.join(SPLITS)})-\d+\.bin|\.nfs.*|\.DS_Store")


def draft_of(folder: Path) -> Path:
    """Where a folder is prepared."""
    return folder.with_name(folder.name + ".draft")


def check_replaceable(folder: Path) -> None:
    """Refuse a folder if it, its draft, or the place it is moved to before it is removed holds what is not ours."""
    for place in (folder, draft_of(folder), _replaced(folder)):
        if stranger := _stranger(place):
            raise DataError(
                f"{place} holds {stranger}, which is no part of a prepared corpus: move it, or name another"
            )


def goes_on(draft: Path, plan: dict[str, Any]) -> bool:
    """Whether a draft is there that began with the same plan."""
    try:
        return parse_object(read_regular(draft / PLAN)) == plan
    except (OSError, ValueError):
        return False


def put_in_place(draft: Path, folder: Path) -> None:
    """Rename the draft; who has the files of an older folder open keeps them."""
    for name in (PLAN, JOURNAL):
        (draft / name).unlink(missing_ok=True)
    old = _replaced(folder)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.rename(folder, old)
    os.rename(draft, folder)
    sync_folder(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _replaced(folder: Path) -> Path:
    return folder.with_name(folder.name + ".old")


def _stranger(place: Path) -> str | None:
    """The name of something in a folder that no preparation wrote."""
    if not os.path.lexists(place):
        return None
    if place.is_symlink() or not place.is_dir():
        return "something else than a folder"
    with os.scandir(place) as entries:
        return next((entry.name for entry in entries if not (OWN.fullmatch(entry.name) and entry.is_file())), None)
