"""`zoo-export`: a trained run as a model of transformers."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli.arguments import Parser, failed

PROGRAM = "zoo-export"
EPILOG = """\
examples:
  zoo-export runs/RUN exported                      the last checkpoint, in float32
  zoo-export runs/RUN exported --dtype bfloat16     half the size
  zoo-export runs/RUN exported --checkpoint 200     the checkpoint of step 200

FOLDER gets config.json, model.safetensors, tokenizer.json, generation_config.json and a model card. A run without methods
becomes a LlamaForCausalLM (with normalised queries and keys a Qwen3ForCausalLM), which transformers loads by itself. Any
other becomes a ZooForCausalLM, which it loads where the zoo (pip install 'transformer-zoo[hf]') and the methods are
installed. See docs/hub.md.
"""


def parser() -> argparse.ArgumentParser:
    """What can be given."""
    parser = Parser(PROGRAM, "Write a trained run as a folder that transformers loads.", EPILOG)
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="the run's folder, as zoo-train wrote it")
    add("folder", type=Path, metavar="FOLDER", help="the folder to write; it must not exist yet, or be empty")
    add("--checkpoint", type=int, metavar="STEP", help="the step of the checkpoint to use (default: the last)")
    add(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        default="float32",
        help="the type of the weights (default: float32, as they were trained)",
    )
    add("--json", action="store_true", help="print what was written, and notes on it, as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the answer is its exit code."""
    arguments = parser().parse_args(argv)
    from zoo.cli.printing import say, say_json, warn
    from zoo.errors import ZooError

    try:
        from zoo.export.export import export_run
        from zoo.generation.open_run import open_run

        run = open_run(arguments.run, arguments.checkpoint)
        exported = export_run(run, arguments.folder, arguments.dtype)
    except ZooError as error:
        return failed(PROGRAM, error)
    except KeyboardInterrupt:
        warn(PROGRAM, "interrupted")
        return 128 + signal.SIGINT
    for note in exported.notes:
        warn(PROGRAM, note)
    if arguments.json:
        parameters = run.model.num_parameters()
        own = {"run": str(arguments.run), "step": run.step, "dtype": arguments.dtype, "parameters": parameters}
        say_json({"folder": str(arguments.folder), **own, **exported._asdict()})
        return 0
    say(f"{arguments.folder}: a {exported.architecture}, for AutoModelForCausalLM.from_pretrained")
    return 0


if __name__ == "__main__":
    sys.exit(main())
