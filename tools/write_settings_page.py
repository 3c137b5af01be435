"""Write docs/settings.md: everything that can be set on a run or a suite, from the core's own docstrings.

tools/run python tools/write_settings_page.py
"""

from __future__ import annotations

from pathlib import Path

from zoo.catalogue.core_settings import core
from zoo.catalogue.settings_list import markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

HEAD = """# Settings

Written by `tools/write_settings_page.py` from the docstrings of the core: do not edit. `zoo-train --settings` prints the same
list, `zoo-train --settings WORD` the part of it that has a word in it, and `zoo-train --settings ID` the settings of a
method, which its [card](methods/README.md) explains.

Any of them is set with `--set NAME=VALUE` or by a line `NAME = VALUE` of a Gin file; text needs quotes. A default is that
of `zoo-train` without any Gin file: `gin/defaults.gin` where it binds the setting, else the code.

"""


def render() -> str:
    """The whole page."""
    return HEAD + markdown(list(core()))


def main() -> None:
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
