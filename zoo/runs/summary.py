"""How a run ended: `summary.json`, and the table at the end of `zoo-train`."""

from __future__ import annotations

import dataclasses
import json
import math
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zoo.errors import RunError
from zoo.system.files import write_atomically
from zoo.system.foreign_text import printable
from zoo.system.regular_files import parse_object, read_regular

if TYPE_CHECKING:
    pass
from zoo.system.clock import duration

Status = Literal["finished", "stopped early", "diverged", "leaks", "interrupted"]
FILE = "summary.json"


@dataclass(frozen=True)
class Summary:
    """The final figures of a run. A figure that was never measured is NaN here and null in the file."""

    status: Status
    methods: list[str]  # slot.id of every method, none for the baseline
    steps: int
    tokens: int
    parameters: int
    train_loss: float  # nats per token, mean of the last logged steps
    valid_loss: float
    best_valid_loss: float
    best_step: int
    perplexity: float
    bits_per_byte: float
    accuracy: float
    unigram_entropy: float  # of the validation split: the loss of a model that only knows how frequent tokens are
    tokens_per_second: float  # of training alone, without validation and saving
    peak_memory: int  # bytes
    seconds: float  # everything, over all sessions
    skipped_steps: int
    blew_up: str  # where the first non-finite number stood, if there was one
    probes: dict[str, dict[str, float | list[float]]]  # name → layer → learned value, or the elements of a short vector
    corpus: str
    seed: int
    world_size: int
    stamps: dict[str, Any] = field(default_factory=dict)  # started, finished, version, commit
    signal: int = 0  # the one that interrupted it
    alarm: str = ""  # how it was seen to leak: its figures mean nothing
    remark: str = ""  # what is odd about its figures, but no leak
    leaks: list[str] = field(
        default_factory=list
    )  # methods that are declared to see the future, trained with --allow-leak
    corpus_name: str = ""  # as it was given; `corpus` is its fingerprint
    device: str = ""
    precision: str = ""  # of the forward pass
    validated: int = -1  # the step of the last validation, 0: there was none, -1: not known
    bad_validation: str = ""  # what was wrong with a validation whose loss was not finite
    notes: list[str] = field(default_factory=list)  # what else should be known of it
    budgets: list[dict[str, Any]] = field(
        default_factory=list
    )  # at the end of every period: multiple of the base budget, step, tokens, loss, accuracy, bits_per_byte

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        return self.status != "interrupted"

    def write(self, folder: Path) -> None:
        """Keep it in the run's folder."""
        write_atomically(
            folder / FILE, json.dumps(without_nan(dataclasses.asdict(self)), indent=2, allow_nan=False) + "\n"
        )


def read_summary(folder: Path) -> Summary | None:
    """The summary of the run in this folder, if it has one."""
    file = folder / FILE
    entries = {entry.name: entry for entry in dataclasses.fields(Summary)}
    try:
        values = {name: value for name, value in parse_object(read_regular(file)).items() if name in entries}
        values |= {name: math.nan for name, value in values.items() if value is None and entries[name].type == "float"}
        return Summary(**values)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RunError(f"{file} cannot be read: {error.strerror or error}; name another folder with --run") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RunError(
            f"{file} is not a summary that this version reads: {error}; name another folder with --run"
        ) from error


def without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def advice(summary: Summary) -> str:
    """What may help a run that diverged."""
    if summary.skipped_steps == summary.steps:
        return "no step could be trained, so the learning rate is not the cause"
    if summary.blew_up == summary.bad_validation:
        return "the training steps are finite, so look at what is different in evaluation mode"
    return "a smaller train.lr may help"


def rows(summary: Summary, folder: Path) -> list[tuple[str, str]]:
    """The table, line by line."""
    status = summary.status + (f": {summary.blew_up}" if summary.status == "diverged" else "")
    best = (
        ""
        if summary.best_step in (0, summary.steps, summary.validated)
        else f", best {summary.best_valid_loss:.4f} at step {summary.best_step:,}"
    )
    skipped = f" ({summary.skipped_steps:,} skipped)" if summary.skipped_steps else ""
    stamps = [("LEAKS", f"{name} sees later tokens: the figures mean nothing") for name in summary.leaks]
    stamps += [("ALARM", summary.alarm)] if summary.alarm else []
    stamps += [("remark", summary.remark)] if summary.remark else []
    device = summary.device + (f" × {summary.world_size}" if summary.world_size > 1 else "")
    ran_on = [("corpus", summary.corpus_name), ("device", f"{device}, {summary.precision}")]
    measured = summary.validated > 0
    at = f" at step {summary.validated:,}" if measured and summary.validated != summary.steps else ""
    valid = _figure(summary.valid_loss, ".4f", measured) + at
    return [
        *stamps,
        ("method", " + ".join(summary.methods) or "baseline"),
        ("status", status),
        *(("note", note) for note in summary.notes),
        ("parameters", f"{summary.parameters:,}"),
        *(ran_on if summary.device else []),  # a summary of an older version does not say
        ("steps", f"{summary.steps:,}{skipped}"),
        ("tokens", f"{summary.tokens:,}"),
        ("train loss", _figure(summary.train_loss, ".4f")),
        ("valid loss", f"{valid}{best}   (unigram entropy {summary.unigram_entropy:.4f})"),
        *(("at budget", _budget(budget)) for budget in summary.budgets[:-1]),
        ("perplexity", _figure(summary.perplexity, ".2f", measured)),
        ("bits per byte", _figure(summary.bits_per_byte, ".4f", measured)),
        ("accuracy", _figure(summary.accuracy, ".2%", measured)),
        ("tokens/s", f"{summary.tokens_per_second:,.0f}"),
        ("peak memory", f"{summary.peak_memory / 1e6:,.0f} MB"),
        ("time", duration(summary.seconds)),
        ("folder", str(folder)),
        ("view", f"tensorboard --logdir {shlex.quote(str(logdir(folder)))}"),
    ]


def logdir(folder: Path) -> Path:
    """The folder for TensorBoard to read: where all runs are, so that each has its name, else the run's own."""
    try:
        only_runs = all((other / "config.gin").exists() for other in folder.parent.iterdir() if other.is_dir())
    except OSError:
        return folder
    return folder.parent if only_runs else folder


def _figure(value: float, form: str, measured: bool = False) -> str:
    if math.isnan(value):
        return "not finite" if measured else "not measured"
    return format(value, form)


def _budget(budget: dict[str, Any]) -> str:
    """A period of a run in words; the last one is the run itself."""
    loss, accuracy = (math.nan if budget[name] is None else budget[name] for name in ("loss", "accuracy"))
    figures = f"{_figure(loss, '.4f', True)}, accuracy {_figure(accuracy, '.2%', True)}"
    return f"× {budget['multiple']:g}: valid loss {figures} after {budget['tokens']:,} tokens"


def print_summary(summary: Summary, folder: Path) -> None:
    """Print the table: drawn on a terminal, plain lines elsewhere."""
    import sys

    table = [(name, printable(value)) for name, value in rows(summary, folder)]
    if not sys.stdout.isatty():
        print("\n".join(f"{name:<14} {value}" for name, value in table))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(show_header=False, border_style="dim")
    drawn.add_column(style="bold")
    drawn.add_column(overflow="fold")
    for name, value in table:
        drawn.add_row(name, Text(value))
    Console().print(drawn)
