"""The GPUs of this machine, and how many runs they can take at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence

from zoo.errors import ZooError
from zoo.system.table import counted

VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_devices() -> tuple[str, ...]:
    """The GPUs that this process may use, each by the name that CUDA_VISIBLE_DEVICES has for it."""
    import torch

    count = torch.cuda.device_count()
    names = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return tuple(names[:count]) if names else tuple(map(str, range(count)))


def check_jobs(jobs: int, devices: Sequence[str], per_device: int) -> None:
    """Refuse more runs at a time than the GPUs take; without any GPU, runs share the cores."""
    if devices and jobs > len(devices) * per_device:
        gpus = counted(len(devices), "GPU")
        needed = -(-jobs // len(devices))
        raise ZooError(
            f"--jobs {jobs}: this machine has {gpus}, and each takes {counted(per_device, 'run')} at a time;"
            f" name fewer, or put several on one with --jobs-per-device {needed}"
        )
