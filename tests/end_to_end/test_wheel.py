"""What `pip install .` would install: the wheel carries everything, and works from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers.fresh_environment import copy_project

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    source = copy_project(folder / "source")  # what an earlier build left in the project must not come along
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def names(folder: Path, pattern: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob(pattern)}


def test_the_wheel_carries_every_file(installed: Path) -> None:
    assert names(installed / "zoo_gin", "*.gin") == names(PROJECT / "gin", "*.gin")
    assert names(installed / "zoo_plugins", "*.md") == names(PROJECT / "plugins", "*.md")
    assert names(installed / "zoo", "*.py") == names(PROJECT / "zoo", "*.py")
    assert (installed / "zoo/py.typed").is_file()
    assert names(installed / "zoo", "*.in") == names(PROJECT / "zoo", "*.in")
    autoload = installed / "zoo_autoload.py"  # what torch calls: no link
    assert not autoload.is_symlink() and autoload.read_bytes() == (PROJECT / "zoo/autoload.py").read_bytes()
    assert not (installed / "gin").exists() and not (installed / "zoo_gin" / "__init__.py").exists()


def test_bare_names_work_from_any_folder(installed: Path, tmp_path: Path) -> None:
    code = (
        "import zoo; from zoo.config.gin_files import find_gin_file; from zoo.config.load import load_config;"
        "loaded = load_config(['v1_m3', 'sizes/tiny']);"
        "print(zoo.__file__, loaded.name, loaded.get('model.depth'), find_gin_file('v1_m3'))"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    where, name, depth, file = done.stdout.split()
    assert where.startswith(str(installed)) and file == str(installed / "zoo_gin" / "v1_m3.gin")
    assert (name, depth) == ("v1_m3", "2")
