"""A fresh environment beside the project's own, as someone has it who installs a plugin: pip, processes, console scripts."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

DISTRIBUTION = "transformer-zoo"
ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {
    "build",
    "runs",
    "results",
    "bench",
    "tests",
}  # of the project's own folder: zoo/runs and zoo/bench are code


class Environment:
    """What the project's environment has is seen here too, without installing gigabytes again; not the other way round."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.venv = folder / "venv"
        venv.create(self.venv, with_pip=False, symlinks=True)
        scheme = {"base": str(self.venv), "platbase": str(self.venv)}
        self.site = Path(sysconfig.get_path("purelib", "venv", scheme))
        beside = sysconfig.get_path("purelib")
        (self.site / "beside.pth").write_text(f"import site; site.addsitedir({beside!r})\n")
        for library in Path(sys.prefix, "lib").glob("*.so*"):  # fairseq2 looks for its own beside the interpreter
            (self.venv / "lib" / library.name).symlink_to(library)
        self._scripts({"pip": "pip._internal.cli.main:main", "pytest": "pytest:console_main"})
        entries = importlib.metadata.distribution(DISTRIBUTION).entry_points.select(group="console_scripts")
        self._scripts({entry.name: entry.value for entry in entries})
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self.variables = {
            **kept,
            "PATH": f"{self.venv / 'bin'}{os.pathsep}{kept['PATH']}",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "ZOO_CACHE": str(folder / "cache/zoo"),
            "OMP_NUM_THREADS": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }
        if builds_wheels():  # nothing needs to be downloaded
            self.variables |= {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}

    def _scripts(self, scripts: dict[str, str]) -> None:
        for name, value in scripts.items():
            module, _, function = value.partition(":")
            path = self.venv / "bin" / name
            path.write_text(  # as pip writes them: processes that are spawned import the script again, and must not run it
                f"#!{self.venv / 'bin/python'}\nimport sys\nfrom {module} import {function}\n"
                f"if __name__ == '__main__':\n    sys.exit({function}())\n"
            )
            path.chmod(0o755)

    def run(self, *command: str | Path, code: int = 0, cwd: Path | None = None) -> str:
        """What the command prints; it must end with this exit code."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd or self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        assert done.returncode == code, f"{command} ended with {done.returncode}, not {code}:\n{done.stdout}"
        return done.stdout

    def wheels(self, *projects: Path) -> list[Path]:
        """Build the wheels of these projects."""
        into = self.folder / "wheels" / projects[0].name
        self.run("pip", "wheel", "-q", "--no-deps", "-w", into, *projects)
        return sorted(into.glob("*.whl"))


def copy_project(into: Path) -> Path:
    """A copy of the project's sources, links as links, without what builds and runs left there."""

    def left_out(folder: str, names: list[str]) -> list[str]:
        of_root = LEFT_OUT if Path(folder) == ROOT else set()
        return [
            name for name in names if name in of_root or name.startswith((".", "__pycache__")) or ".egg-info" in name
        ]

    shutil.copytree(ROOT, into, symlinks=True, ignore=left_out)
    return into


def builds_wheels() -> bool:
    """Whether setuptools can do so here: from 70.1 on by itself, before with the package wheel."""
    try:
        major, minor = re.findall(r"\d+", importlib.metadata.version("setuptools"))[:2]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False
    return (int(major), int(minor)) >= (70, 1) or importlib.util.find_spec("wheel") is not None
