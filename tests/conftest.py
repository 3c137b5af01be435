"""Fixtures that several test files share."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "3000")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: tests are tiny, and run side by side

from benches import quick, settings
from fake_project import project

__all__ = ["project", "quick", "settings"]
