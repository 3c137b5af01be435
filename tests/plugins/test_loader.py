"""One plugin is imported; whatever goes wrong is part of the answer."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest
from helpers.fake_distributions import FINE, Site, entry, forget_modules

from zoo.plugins import loader, resources


def test_loading_gives_the_factory(site: Site) -> None:
    site.install("a-method", {}, {"pack/__init__.py": "", "pack/m.py": f"class Holder:\n    {FINE}"})
    loaded = loader.load_method(entry("pack.m:Holder.build"))
    assert loaded.error is None and loaded.factory is not None
    assert loaded.factory("layer", gain=2.0) == ("built", "layer", 2.0)


@pytest.mark.parametrize(
    "code, told",
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise ValueError('inside')", "ValueError: inside"),
        ("def f(:", "SyntaxError"),
        ("import sys; sys.exit('leaving')", "SystemExit: leaving"),
        ("class Odd(BaseException): pass\nraise Odd('odd')", "Odd: odd"),
        ("other = 1", "AttributeError: module 'bad' has no attribute 'build'"),
    ],
)
def test_a_plugin_that_fails_to_import_carries_its_traceback(site: Site, code: str, told: str) -> None:
    site.install("a-method", {}, {"bad.py": code})
    loaded = loader.load_method(entry("bad:build"))
    assert loaded.factory is None
    assert loaded.error and told in loaded.error
    assert loaded.traceback and "Traceback" in loaded.traceback and told in loaded.traceback


def test_ctrl_c_while_importing_is_not_the_plugins_fault(site: Site) -> None:
    site.install("a-method", {}, {"slow.py": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        loader.load_method(entry("slow:build"))


@pytest.mark.parametrize(
    "code, told",
    [
        ("build = 3", "not callable: it is int"),
        ("def build(layer, *args): pass", "*args"),
        ("def build(layer, **settings): pass", "**settings, which would swallow misspelt settings"),
        ("def build(): pass", "no positional parameter for the layer"),
        ("def build(*, gain=1): pass", "no positional parameter for the layer"),
        ("def build(layer, gain, /): pass", "gain by position only"),
        ("class build:\n    def __init__(self, *args): pass", "*args"),
        ("def build(layer): pass\nbuild.__signature__ = 3", "no signature"),
    ],
)
def test_what_cannot_be_called_with_a_layer_and_settings_is_broken(site: Site, code: str, told: str) -> None:
    site.install("a-method", {}, {"odd.py": code})
    loaded = loader.load_method(entry("odd:build"))
    assert loaded.factory is None and loaded.error and told in loaded.error


@pytest.mark.parametrize("value", ["", ":", "a b", "no.such.module:x", "fine:", "..fine:build"])
def test_an_entry_that_points_nowhere_is_broken(site: Site, value: str) -> None:
    site.install("a-method", {}, {"fine.py": FINE})
    assert loader.load_method(entry(value)).error


@pytest.mark.parametrize("id", ["two words", "a-b", "1st", "a.b", "é", "", "class"])
def test_an_id_is_an_identifier(id: str) -> None:
    loaded = loader.load_method(entry(id=id))
    assert loaded.error and "cannot be an id" in loaded.error


class _Behind:
    """A finder behind the one that looks at sys.path, as some editable installs add it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        file = self.folder / "__init__.py"
        return spec_from_file_location(name, file) if name == self.name else None


def test_a_folder_of_the_same_name_does_not_hide_a_package(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"own/own/__init__.py": "from own.m import build", "own/own/m.py": FINE, "own/own/gin/own.gin": ""}
    site.install("own", {"residual": {"own": "own:build"}}, files)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, _Behind("own", site.folder / "own/own")])
    found = entry("own:build", id="own")  # site.folder, with the project's folder own/ in it, is on sys.path
    assert resources.gin_file(found) == site.folder / "own/own/gin/own.gin"
    assert resources.source_file(found) == site.folder / "own/own/__init__.py"
    assert loader.load_method(found).error is None

    (site.folder / "own/own/__init__.py").write_text("raise ValueError('inside')")
    forget_modules(site.folder)
    assert "ValueError: inside" in (loader.load_method(found).error or "")
    assert "own" not in sys.modules
