"""How a run ended: `summary.json`, and the table at the end of `zoo-train`."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zoo.errors import RunError
from zoo.files import write_atomically

if TYPE_CHECKING:
    from zoo.config import Config
    from zoo.session import Session

Status = Literal["finished", "stopped early", "diverged", "interrupted"]
FILE = "summary.json"


@dataclass(frozen=True)
class Summary:
    """The final figures of a run. A figure that was never measured is NaN here and null in the file."""

    status: Status
    methods: list[str]  # slot.id of every method, none for the baseline
    steps: int
    tokens: int
    parameters: int
    train_loss: float  # nats a token, mean of the last logged steps
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
    alarm: str = ""  # why its figures are not to be trusted
    leaks: list[str] = field(
        default_factory=list
    )  # methods that are declared to see the future, trained with --allow-leak

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        return self.status != "interrupted"

    def write(self, folder: Path) -> None:
        """Keep it in the run's folder."""
        write_atomically(
            folder / FILE, json.dumps(_without_nan(dataclasses.asdict(self)), indent=2, allow_nan=False) + "\n"
        )


def read(folder: Path) -> Summary | None:
    """The summary of the run in this folder, if it has one."""
    file = folder / FILE
    try:
        if not file.exists():
            return None
    except OSError as error:
        raise RunError(f"{folder} cannot be read: {error.strerror}") from error
    entries = {entry.name: entry for entry in dataclasses.fields(Summary)}
    try:
        kept = {name: value for name, value in json.loads(file.read_text(encoding="utf-8")).items() if name in entries}
        kept |= {name: math.nan for name, value in kept.items() if value is None and entries[name].type == "float"}
        return Summary(**kept)
    except (ValueError, TypeError, AttributeError) as error:
        raise RunError(
            f"{file} is not a summary that this version reads: {error}; name another folder with --run"
        ) from error


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(entry) for key, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summarise(config: Config, session: Session, status: Status) -> Summary:
    """The figures of a run as it stands."""
    import zoo
    from zoo.folder import versions
    from zoo.records import probe_values
    from zoo.start import not_causal
    from zoo.versions import peak_memory

    state, ranks, made_with = session.state, session.ranks, versions(session.folder)
    learned = probe_values(session.model.probes())
    return Summary(
        status=status,
        methods=[plugin.name for plugin in config.plugins],
        steps=state.step,
        tokens=state.tokens,
        parameters=session.model.num_parameters(),
        train_loss=state.train_loss,
        valid_loss=state.valid.get("loss", math.nan),
        best_valid_loss=state.best,
        best_step=state.best_step,
        perplexity=state.valid.get("perplexity", math.nan),
        bits_per_byte=state.valid.get("bits_per_byte", math.nan),
        accuracy=state.valid.get("accuracy", math.nan),
        unigram_entropy=session.data.unigram_entropy("valid"),
        tokens_per_second=state.tokens / max(state.train_seconds, 1e-9),
        peak_memory=peak_memory(str(ranks.device)),
        seconds=session.seconds(),
        skipped_steps=state.skipped,
        blew_up=state.blew_up,
        probes={name: {str(layer): value for layer, value in layers.items()} for name, layers in learned.items()},
        corpus=made_with["corpus"],
        seed=session.settings.seed,
        world_size=ranks.size,
        stamps={"started": made_with["started"], "ended": now(), "version": zoo.__version__, "git": made_with["git"]},
        signal=session.signal if status == "interrupted" else 0,
        alarm=state.alarm,
        leaks=not_causal(config, session.model),
    )


def now() -> str:
    """The time, as it stands in files."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def rows(summary: Summary, folder: Path) -> list[tuple[str, str]]:
    """The table, line by line."""
    status = summary.status + (f": {summary.blew_up}" if summary.status == "diverged" else "")
    best = (
        ""
        if summary.best_step in (0, summary.steps)
        else f", best {summary.best_valid_loss:.4f} at step {summary.best_step:,}"
    )
    skipped = f" ({summary.skipped_steps:,} skipped)" if summary.skipped_steps else ""
    stamps = [("LEAKS", f"{name} sees later tokens: the figures mean nothing") for name in summary.leaks]
    stamps += [("ALARM", summary.alarm)] if summary.alarm else []
    return [
        *stamps,
        ("method", " + ".join(summary.methods) or "baseline"),
        ("status", status),
        ("parameters", f"{summary.parameters:,}"),
        ("steps", f"{summary.steps:,}{skipped}"),
        ("tokens", f"{summary.tokens:,}"),
        ("train loss", _figure(summary.train_loss, ".4f")),
        ("valid loss", f"{_figure(summary.valid_loss, '.4f')}{best}   (unigram entropy {summary.unigram_entropy:.4f})"),
        ("perplexity", _figure(summary.perplexity, ".2f")),
        ("bits per byte", _figure(summary.bits_per_byte, ".4f")),
        ("accuracy", _figure(summary.accuracy, ".2%")),
        ("tokens/s", f"{summary.tokens_per_second:,.0f}"),
        ("peak memory", f"{summary.peak_memory / 1e6:,.0f} MB"),
        ("time", duration(summary.seconds)),
        ("folder", str(folder)),
        ("look", f"tensorboard --logdir {shlex.quote(str(folder))}"),
    ]


def _figure(value: float, form: str) -> str:
    return "not measured" if math.isnan(value) else format(value, form)


def duration(seconds: float) -> str:
    """1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def show(summary: Summary, folder: Path) -> None:
    """Print the table: drawn on a terminal, plain lines elsewhere."""
    import sys

    table = rows(summary, folder)
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
