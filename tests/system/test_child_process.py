"""Calls in a process of their own, from a process that has not imported torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

CALLS = """
import os, sys
from zoo.errors import SettingError
from zoo.system.child_process import without_torch

def version(prefix):
    import torch
    print("said by the child")
    return prefix + torch.__version__[:0], os.getpid()

def refused():
    raise SettingError("train.steps", " = 0 must be positive")

def ended():
    os._exit(3)

"""


def ran(code: str) -> str:
    """What these calls print, in a new process."""
    command = [sys.executable, "-c", CALLS + code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_torch_stays_in_the_child() -> None:
    code = "text, process = without_torch(version, 'v'); print(text, process != os.getpid(), 'torch' in sys.modules)"
    assert ran(code) == "said by the child\nv True False\n"


def test_where_torch_is_no_process_is_started() -> None:
    code = "import torch; text, process = without_torch(version, 'v'); print(text, process == os.getpid())"
    assert ran(code) == "said by the child\nv True\n"


@pytest.mark.parametrize(
    ("function", "raised"),
    [
        ("refused", "SettingError train.steps = 0 must be positive"),
        ("ended", "ZooError the process that builds the models ended with exit code 3"),
    ],
)
def test_what_the_child_raises_is_raised_here(function: str, raised: str) -> None:
    code = f"try: without_torch({function})\nexcept Exception as error: print(type(error).__name__, error)"
    assert ran(code) == f"{raised}\n"
