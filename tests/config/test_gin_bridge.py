"""The modules that are known by name exist, and register the core's configurables."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gin
from zoo.config.gin_bridge import CONFIGURABLES, core_configurables, import_configurables
assert not core_configurables(), "registered before they are imported"
import_configurables()
owners = {name: configurable.wrapped.__module__ for name, configurable in core_configurables().items()}
assert sorted(owners) == ["data", "ladder", "model", "recipe", "records", "suite", "train"], owners
assert set(owners.values()) == set(CONFIGURABLES), owners
"""


def test_the_named_modules_register_what_gin_configures() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
