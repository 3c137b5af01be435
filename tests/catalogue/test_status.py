"""Which plugins can be used is remembered until something changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.fake_distributions import FINE, Site, forget_modules

from zoo.catalogue import status
from zoo.plugins import registry as registry_module


def test_states_are_remembered_until_the_code_changes(site: Site, tmp_path: Path) -> None:
    import zoo.model.language_model  # noqa: F401  # what it pulls in adds a folder of its own to sys.path, once

    count = f"import pathlib; pathlib.Path({str(tmp_path / 'count')!r}).open('a').write('x')\n"
    site.install("a-method", {"residual": {"fine": "pack:build"}}, {"pack/__init__.py": count + FINE})

    def problems(fresh: bool = False) -> list[str | None]:
        forget_modules(site.folder)
        return [state.problem for state in status.plugin_statuses(registry_module.installed(), fresh)]

    def imports() -> int:
        return len((tmp_path / "count").read_text())

    assert problems() == [None] and imports() == 1
    assert problems() == [None] and imports() == 1
    assert problems(fresh=True) == [None] and imports() == 2
    (site.folder / "pack/__init__.py").write_text(count + "raise ValueError('now broken')\n")
    assert problems() == ["ValueError: now broken"] and imports() == 3
    assert problems() == ["ValueError: now broken"] and imports() == 3
    site.install("its-dependency", {})  # something was installed: perhaps what it lacked
    assert problems() == ["ValueError: now broken"] and imports() == 4


@pytest.mark.parametrize("memory", ["", "[1]", '{"evidence": 1}', "\0", '{"evidence": "x", "problems": 3}'])
def test_a_memory_that_makes_no_sense_is_ignored(site: Site, memory: str) -> None:
    site.install("a-method", {"residual": {"fine": "fine:build"}}, {"fine.py": FINE})
    registry = registry_module.installed()
    status.plugin_statuses(registry)
    (file,) = status._memory().parent.iterdir()
    file.write_text(memory.replace('"x"', json.dumps(status._evidence(registry))))
    assert [state.problem for state in status.plugin_statuses(registry)] == [None]


def test_a_cache_that_cannot_be_written_does_no_harm(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    site.install("a-method", {"residual": {"fine": "fine:build"}}, {"fine.py": FINE})
    assert [state.problem for state in status.plugin_statuses(registry_module.installed())] == [None]
