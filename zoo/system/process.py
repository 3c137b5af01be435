"""Settings of the C library and its threads, made before torch is imported."""

from __future__ import annotations

import os
import sys

# Large blocks stay with the process instead of going back to the system at each step, which costs a fifth of the time, and
# stand on large pages where the system offers them.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
RESTARTED = "ZOO_TRAIN_RESTARTED"


def prepare_process() -> None:
    """Settings of the C library and of its threads, before torch is there: the first are read only when a process starts."""
    # Threads wait for each other by spinning: best on a machine of one's own, but beside other work a step takes several
    # times as long, and they had better sleep soon. A bench decides for its runs: the later ones would count the earlier.
    busy = os.getloadavg()[0] > (os.cpu_count() or 1) / 2
    os.environ.setdefault("GOMP_SPINCOUNT", "3000" if busy else "300000")
    if RESTARTED in os.environ or all(name in os.environ for name in ENVIRONMENT):
        return
    try:
        is_glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, OSError, ValueError):
        is_glibc = False
    if is_glibc and sys.orig_argv and sys.executable:
        environment = {**ENVIRONMENT, **os.environ, RESTARTED: "1"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
