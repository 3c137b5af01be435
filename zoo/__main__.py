"""`python -m zoo COMMAND …`: every command of the zoo, and completion for shells."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

# Each is a command of its own as well, zoo-train and so on.
COMMANDS = {
    "train": "train a method, a combination, or the baseline",
    "bench": "judge methods against their baselines",
    "report": "the report of a bench",
    "plugins": "the methods that are installed",
    "data": "corpora, before anything is trained on them",
    "generate": "text from a trained run",
    "export": "a trained run as a model of transformers",
    "eval": "trained runs on tasks in files",
    "completion": "a script that completes commands in bash, zsh or fish",
}
MODULES = {"eval": "evaluate"}  # where the module has another name: one must not hide the function `eval`


def usage() -> str:
    """What can be given."""
    lines = [f"  {name:<12}{meaning}" for name, meaning in COMMANDS.items()]
    return "\n".join(["usage: python -m zoo COMMAND …", "", *lines, "", "python -m zoo COMMAND --help says more."])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that is named first; the answer is its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    name = words[0].removeprefix("zoo-")
    if name not in COMMANDS:
        from zoo.cli.printing import warn
        from zoo.errors import nearest

        warn(
            "python -m zoo", f"there is no command {words[0]}{nearest(name, COMMANDS)}; python -m zoo --help lists them"
        )
        return 2
    command = importlib.import_module(f"zoo.cli.{MODULES.get(name, name)}")
    if argv is not None:
        code: int = command.main(words[1:])
        return code
    sys.argv = [f"zoo-{name}", *words[1:]]  # as if it had been typed: a command may start itself again
    code = command.main()
    return code


if __name__ == "__main__":
    sys.exit(main())
