"""How much memory this process holds, and when it is tidied."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """No search for cycles meanwhile: where hardly any are made, it takes longer the more there is, and finds nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
    """The memory that this process, or its part of the device, holds now, in bytes; None where the system is silent."""
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


def available(device: str = "cpu") -> int:
    """Bytes that this process can still have there."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(device)[0]
    return min(_of_system(), _of_group())


def _of_system() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return 1024 * (kilobytes["MemAvailable"] + kilobytes.get("SwapFree", 0))
    except (OSError, ValueError, LookupError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_group(root: Path = Path("/sys/fs/cgroup")) -> int:
    """What a container leaves: its limit, less what is in use and cannot be dropped."""
    for limit, used, stat, prefix in (
        ("memory.max", "memory.current", "memory.stat", ""),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_"),
    ):
        try:
            rows = dict(line.split() for line in (root / stat).read_text(encoding="ascii").splitlines())
            cached = sum(int(rows.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))  # files, as read
            held = int((root / used).read_text(encoding="ascii")) - cached
            return max(0, int((root / limit).read_text(encoding="ascii")) - held)
        except (OSError, ValueError):  # not that kind of group, or "max"
            continue
    return 1 << 62


def gigabytes(size: int) -> str:
    """A size in words."""
    return f"{size / 1e9:,.1f} GB" if size < 1e15 else f"{size / 1e9:.0e} GB"
