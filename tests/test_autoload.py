"""transformers knows the models of the zoo where it is installed, whoever is imported first, and nobody else pays for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.made_runs import made_run

from zoo.export.export import export_run

OFF = "TORCH_DEVICE_BACKEND_AUTOLOAD"
CONFIG = "AutoConfig.from_pretrained('out')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what was exported of a run with a method, in `out`."""
    folder = tmp_path_factory.mktemp("exported")
    export_run(made_run(folder, ["wr_8_2_gains"]), folder / "out")
    return folder


def python(code: str, folder: Path, **environment: str) -> str:
    """What a new process prints, or the last line of what it complains about."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True
    )
    return done.stdout.strip() if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def test_a_program_that_does_not_know_the_zoo_loads_its_models(folder: Path) -> None:
    code = """
import sys
from transformers import AutoModelForCausalLM
assert "fairseq2" not in sys.modules and "zoo.api" not in sys.modules  # which only our models need
print(type(AutoModelForCausalLM.from_pretrained("out")).__name__)
"""
    assert python(code, folder) == "ZooForCausalLM"


@pytest.mark.parametrize(
    "order", ["import zoo; from transformers import AutoConfig", "from transformers import AutoConfig; import zoo"]
)
def test_import_zoo_is_enough_in_either_order(folder: Path, order: str) -> None:
    assert python(f"{order}; print(type({CONFIG}).__name__)", folder, **{OFF: "0"}) == "ZooConfig"


def test_another_module_called_zoo_breaks_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "zoo.py").write_text("animals = 2\n", "utf-8")
    (tmp_path / "out").symlink_to(folder / "out")
    code = f"""
from transformers import AutoConfig
import zoo
try:
    {CONFIG}
except ValueError as error:
    print(zoo.animals, "does not recognize this architecture" in str(error))
"""
    assert python(code, tmp_path) == "2 True"


def test_import_zoo_imports_neither_torch_nor_transformers(tmp_path: Path) -> None:
    code = "import sys, zoo, zoo; print({'torch', 'transformers', 'zoo.api'} & {*sys.modules}, len(sys.meta_path))"
    bare = "import sys, importlib.util; print(set(), len(sys.meta_path) + 1)"
    assert python(code, tmp_path) == python(bare, tmp_path)
