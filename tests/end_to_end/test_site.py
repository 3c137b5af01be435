"""The documentation as a site: every page and link of the repository is sound, and every method can be searched."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from zoo.plugins.registry import installed

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "tools/build_site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_is_built_without_a_complaint(tool: ModuleType, tmp_path: Path) -> None:
    assert tool.build(tmp_path / "site") == []
    index: dict[str, Any] = json.loads((tmp_path / "site/search/search_index.json").read_text("utf-8"))
    pages = {entry["location"].partition("#")[0] for entry in index["docs"]}
    ours = {entry.id for entry in installed().entries if entry.distribution == "transformer-zoo"}
    assert {f"plugins/cards/{id}.html" for id in ours} <= pages
    assert {
        "index.html",
        "RESULTS.html",
        "docs/tour.html",
        "docs/writing-a-method.html",
        "docs/methods/index.html",
    } <= pages
    words = re.split(index["config"]["separator"], "set model.start_from='my/llama' of 0.4.13 (@residual.v1_m3)")
    assert {"model", "start_from", "my", "llama", "0.4.13", "residual", "v1_m3"} <= {*words}
    home = (tmp_path / "site/index.html").read_text("utf-8")
    assert "md-search__input" in home
    asked = re.findall(r'(?:src|href)="(https?://[^"]+)"', re.sub(r"<a [^>]*>", "", home))
    assert asked == []  # no fonts and scripts of others


def test_a_broken_link_is_a_complaint(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gather(folder: Path) -> None:
        (folder / "docs").mkdir()
        (folder / "README.md").write_text("# Home\n\n[gone](docs/gone.md), [no heading](docs/here.md#nowhere)\n")
        (folder / "docs/here.md").write_text("# Here\n")
        for page in ("CHANGELOG.md", "CONTRIBUTING.md"):
            (folder / page).write_text("# Page\n")

    monkeypatch.setattr(tool, "gather", gather)
    complaints = tool.build(tmp_path / "site")
    assert len(complaints) == 2 and "docs/gone.md" in complaints[0] and "nowhere" in complaints[1]
