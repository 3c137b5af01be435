"""Plugin distributions that are not really installed: a metadata folder and some modules on sys.path."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from zoo.plugins.finder import MethodEntry

FINE = "def build(layer, gain: float = 1.0): return ('built', layer, gain)\n"  # the code of a method that can be loaded


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


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The only place where plugins are installed, and a home of its own."""
    folder = tmp_path / "site"
    original = importlib.metadata.distributions
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: original(path=[str(folder)]))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield Site(folder)
    forget_modules(folder)


def entry(value: str = "fine:build", slot: str = "residual", id: str = "fine") -> MethodEntry:
    """An entry point as the finder gives it."""
    return MethodEntry(slot, id, value, "a-method", "1.0")


def install_two(site: Site) -> None:
    """Install one distribution with a method that works, with card and Gin file, and one that cannot be imported."""
    files = {
        "pack/__init__.py": "",
        "pack/m.py": '"""Gains of all sorts.\n\nMore."""\n' + "print('noise')\n" + FINE,
        "pack/cards/fine.md": "# fine — it gains\n\n## What it does\nIt is fine.\n",
        "pack/gin/fine.gin": "model.residual = @residual.fine\n",
        "bad.py": "import no_such_thing",
    }
    site.install("a-method", {"residual": {"fine": "pack.m:build"}, "score_mixing": {"bad": "bad:build"}}, files)
