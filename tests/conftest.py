"""Fixtures that several test files share."""

import os
import signal

os.environ.setdefault("GOMP_SPINCOUNT", "3000")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: tests are tiny, and run side by side
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as nohup and background jobs have it: tests send Ctrl-C to commands
    signal.signal(signal.SIGINT, signal.default_int_handler)

from helpers.fake_distributions import site
from helpers.fake_project import project
from helpers.pretend_bench import launcher, quick, settings

__all__ = ["launcher", "project", "quick", "settings", "site"]
