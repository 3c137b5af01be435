"""The files that belong to a method are found without importing it."""

from __future__ import annotations

import sys
from pathlib import Path

from helpers.fake_distributions import Site, entry

from zoo.plugins import resources


def test_card_gin_file_and_origin_are_found_without_an_import(site: Site) -> None:
    files = {
        "outer/__init__.py": "raise SystemError",
        "outer/inner/__init__.py": "",
        "outer/inner/m.py": "",
        "outer/cards/near.md": "outer",
        "outer/inner/cards/near.md": "inner",
        "outer/gin/far.gin": "",
    }
    site.install("a-method", {}, files)
    near, far = entry("outer.inner.m:build", id="near"), entry("outer.inner:build", id="far")
    assert resources.card_file(near) == site.folder / "outer/inner/cards/near.md"
    assert resources.card_file(far) is None
    assert resources.gin_file(far) == site.folder / "outer/gin/far.gin"
    assert resources.gin_file(near) is None
    assert resources.source_file(near) == site.folder / "outer/inner/m.py"
    assert resources.source_file(far) == site.folder / "outer/inner/__init__.py"
    assert resources.package_folders(entry("no_such_package.m:x")) == []
    assert "outer" not in sys.modules


def test_the_projects_gin_folder_in_a_checkout_and_in_a_wheel(tmp_path: Path) -> None:
    checkout, wheel = tmp_path / "checkout", tmp_path / "site-packages"
    for folder in (checkout / "gin", wheel / "gin", wheel / "zoo_gin"):
        folder.mkdir(parents=True)
    for folder in (checkout / "gin", wheel / "zoo_gin"):
        (folder / "defaults.gin").touch()
    assert resources.project_gin_folders(checkout) == [checkout / "gin"]
    assert resources.project_gin_folders(wheel) == [wheel / "zoo_gin"]  # gin/ beside it is gin-config's code
    assert resources.project_gin_folders(tmp_path) == []
    assert [folder.name for folder in resources.project_gin_folders()] == ["gin"]
