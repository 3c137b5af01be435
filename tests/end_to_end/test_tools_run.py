"""`tools/run`: what it sets for the command that it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
HAS_AVX512 = Path("/proc/cpuinfo").exists() and "avx512f" in Path("/proc/cpuinfo").read_text()


def installed_copy(folder: Path) -> Path:
    """A project folder whose environment counts as installed; its `tools/run`."""
    (folder / "tools").mkdir(parents=True)
    for name in ("tools/run", "tools/mkl_avx512.c", "setup.cfg", "pyproject.toml"):
        shutil.copy(PROJECT / name, folder / name)
    (folder / ".venv" / "lib").mkdir(parents=True)
    texts = "".join((folder / name).read_text() for name in ("setup.cfg", "pyproject.toml"))
    (folder / ".venv" / ".installed").write_text(f"{texts}{folder.resolve()}\n")
    return folder / "tools" / "run"


def run(tool: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "ZOO_MKL_AVX512")}
    return subprocess.run([tool, *command], capture_output=True, text=True, env={**known, **environment})


def test_nothing_is_preloaded_unless_asked_for(tmp_path: Path) -> None:
    tool = installed_copy(tmp_path / "project")
    for asked in ({}, {"ZOO_MKL_AVX512": "0"}):
        done = run(tool, "env", **asked)
        assert done.returncode == 0 and "LD_PRELOAD" not in done.stdout
        assert "MALLOC_TRIM_THRESHOLD_=" in done.stdout


@pytest.mark.skipif(not HAS_AVX512 or not shutil.which("cc"), reason="no AVX-512, or no C compiler")
def test_the_library_is_built_once_and_preloaded(tmp_path: Path) -> None:
    tool = installed_copy(tmp_path / "project")
    library = tmp_path.resolve() / "project" / ".venv" / "lib" / "zoo_mkl_avx512.so"
    done = run(tool, "env", ZOO_MKL_AVX512="1")
    assert f"LD_PRELOAD={library}\n" in done.stdout and not done.stderr
    built = library.stat().st_mtime_ns
    call = "import ctypes; print(ctypes.CDLL(None).mkl_serv_intel_cpu_true())"
    assert run(tool, "python3", "-c", call, ZOO_MKL_AVX512="1").stdout == "1\n"
    assert library.stat().st_mtime_ns == built


@pytest.mark.skipif(not HAS_AVX512 or not shutil.which("cc"), reason="no AVX-512, or no C compiler")
def test_a_path_that_cannot_be_preloaded_from_is_refused(tmp_path: Path) -> None:
    done = run(installed_copy(tmp_path / "my project"), "env", ZOO_MKL_AVX512="1")
    assert done.returncode == 1 and "a path with spaces or colons" in done.stderr


@pytest.mark.skipif(HAS_AVX512 or not Path("/proc/cpuinfo").exists(), reason="this processor has AVX-512")
def test_a_processor_without_it_is_refused(tmp_path: Path) -> None:
    done = run(installed_copy(tmp_path / "project"), "env", ZOO_MKL_AVX512="1")
    assert done.returncode == 1 and "this processor has no AVX-512" in done.stderr
