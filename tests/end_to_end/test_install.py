"""An editable install from a clone: the folder that holds the clone is as good a place to work in as any."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.fresh_environment import Environment, builds_wheels, copy_project

PROJECT = Path(__file__).parents[2]
PACKAGES = {"zoo": "zoo", "zoo_plugins": "plugins", "zoo_gin": "gin", "zoo_autoload.py": "zoo/autoload.py"}


@pytest.mark.skipif(not builds_wheels(), reason="setuptools is too old here to build without a download")
def test_a_clone_named_as_the_package_does_not_hide_it(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    clone = copy_project(tmp_path / "zoo")
    environment.run("pip", "install", "-q", "--no-deps", "-e", clone)
    code = (
        "import zoo, zoo_plugins; from zoo.plugins.finder import find_methods as find;"
        " print(zoo.__file__, find.__doc__, zoo_plugins.__file__)"
    )
    for folder in (tmp_path, clone, environment.folder):
        told = environment.run("python", "-c", code, cwd=folder)
        assert f"{clone}/" in told and "Every method" in told
    told = environment.run("python", "-m", "zoo.cli.plugins", "--version", cwd=tmp_path)
    assert "transformer-zoo" in told
    assert not list((clone / "tools/packages").glob("*.egg-info"))  # metadata on sys.path would be a second install


def test_every_package_is_a_link_to_its_folder() -> None:
    """What is built is what is edited: nothing stands in tools/packages twice."""
    links = {path.name: path for path in (PROJECT / "tools/packages").iterdir() if path.suffix != ".egg-info"}
    assert links.keys() == PACKAGES.keys()
    for name, path in links.items():
        assert path.is_symlink() and path.resolve() == (PROJECT / PACKAGES[name]).resolve()
