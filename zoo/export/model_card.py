"""The README.md of an exported model: what it is, how to load it, how well it did."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING

from zoo.runs.summary import read_summary, rows
from zoo.system.foreign_text import markdown, one_line

if TYPE_CHECKING:
    from zoo.generation.open_run import Run

LOCAL = {
    *("folder", "view", "device", "time", "peak memory", "tokens/s", "steps/s", "samples/s", "validation")
}  # rows of a summary that are of its machine


def model_card(run: Run, architecture: str) -> str:
    """The card, in Markdown."""
    methods = [method.name for method in run.config.plugins]
    tags = json.dumps(["transformer-zoo", *(method.id for method in run.config.plugins)])
    what = f"a transformer with {_listed(methods)}" if methods else "a plain transformer, without any method"
    return "\n".join(
        [
            f"---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags: {tags}\n---\n",
            f"# {_line(run.config.name)}\n",
            f"`{architecture}`: {what}, of {run.model.num_parameters():,} parameters, after step {run.step:,} of its training"
            f" by transformer-zoo. It saw {run.model.max_seq_len:,} tokens at a time.\n",
            _usage(run, architecture),
            _figures(run),
        ]
    )


def _usage(run: Run, architecture: str) -> str:
    imports = []
    if architecture == "ZooForCausalLM":  # else transformers needs nothing of ours
        sources = dict.fromkeys(method.source for method in run.config.plugins)
        methods = f"; its methods are those of {_line(', '.join(sources))}" if sources else ""
        imports = [f"import zoo  # pip install 'transformer-zoo[hf]'{methods}"]
    code = [
        *imports,
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        'model, tokenizer = AutoModelForCausalLM.from_pretrained("."), AutoTokenizer.from_pretrained(".")',
        'inputs = tokenizer("Once", return_tensors="pt")',
        "print(tokenizer.decode(model.generate(**inputs, max_new_tokens=50)[0], skip_special_tokens=True))",
    ]
    return "\n".join(["## Use\n", "```python", *code, "```\n"])


def _figures(run: Run) -> str:
    summary = read_summary(run.folder)
    if summary is None:
        return "## Figures\n\nIts training has not ended, so there are no final figures.\n"
    lines = [(name, value) for name, value in rows(summary, run.folder) if name not in LOCAL]
    table = [
        f"| {_line(name)} | {_line(_without_folders(value) if name == 'corpus' else value)} |" for name, value in lines
    ]
    note = [] if summary.steps == run.step else [f"The figures are those of step {summary.steps:,}.\n"]
    return "\n".join(["## Figures\n", *note, "| | |", "|---|---|", *table, ""])


def _without_folders(corpus: str) -> str:
    """A corpus by the last part of its path: the rest is of the machine."""
    return PurePath(corpus).name if PurePath(corpus).is_absolute() else corpus


def _listed(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _line(text: str) -> str:
    return markdown(one_line(text))
