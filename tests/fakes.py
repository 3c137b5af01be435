"""Plugin distributions that are not really installed: a metadata folder and some modules on sys.path."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path


class Site:
    """A folder on sys.path, as pip would fill it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def install(
        self,
        distribution: str,
        entries: Mapping[str, Mapping[str, str]],
        files: Mapping[str, str] = {},
        version: str = "1.0",
        kind: str = "dist-info",
    ) -> Site:
        """`entries`: slot → id → "module:attribute"; `files`: path → text."""
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.{kind}"
        metadata = {"dist-info": "METADATA", "egg-info": "PKG-INFO"}[kind]
        groups = "".join(
            f"[zoo.{slot}]\n" + "".join(f"{id} = {value}\n" for id, value in ids.items())
            for slot, ids in entries.items()
        )
        everything = {
            f"{info.name}/{metadata}": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n",
            f"{info.name}/entry_points.txt": groups,
            **files,
        }
        for name, text in everything.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        return self


def forget_modules(folder: Path) -> None:
    """Take out of sys.modules what was imported from `folder`."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
