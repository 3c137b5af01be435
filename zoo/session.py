"""What a training run holds while it runs, and the part of it that goes into checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import checkpoint, randomness
from zoo import folder as run_folder
from zoo.progress import Quiet, progress
from zoo.records import Records
from zoo.step import make_optimizer
from zoo.stop import Stop
from zoo.summary import now
from zoo.versions import versions

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from zoo.config import Config
    from zoo.data import Data
    from zoo.model import LanguageModel
    from zoo.ranks import Ranks
    from zoo.train import Settings


@dataclass
class State:
    """Where a run stands: plain values, the same on every rank."""

    step: int = 0
    tokens: int = 0
    validated: int = 0  # the step of the last validation
    valid: dict[str, float] = field(default_factory=dict)  # its figures
    best: float = math.inf
    best_step: int = 0
    since_best: int = 0  # validations
    skipped: int = 0
    skipped_in_a_row: int = 0
    blew_up: str = ""  # where the first non-finite number of the last skipped steps stood
    train_loss: float = math.nan  # as last logged
    window_loss: float = 0.0  # the sum over the steps since then
    window_steps: int = 0
    train_seconds: float = 0.0  # in training steps alone
    seconds: float = 0.0  # in everything


@dataclass
class Session:
    """A run under way in this process."""

    settings: Settings
    ranks: Ranks
    folder: Path
    data: Data
    model: LanguageModel
    replica: torch.nn.Module  # the model itself, or the same averaged over ranks
    optimizer: torch.optim.Optimizer
    reader: Any
    stop: Stop
    state: State
    steps: int  # to train in all
    tokens_per_step: int  # over all ranks
    records: Records | None  # the first rank's
    bar: Quiet
    agreed: int = 0  # the signal that every rank knows of
    failure: OSError | None = None  # while writing records
    window_seconds: float = 0.0  # of training since the last log
    window_tokens: int = 0
    began: float = field(default_factory=time.perf_counter)  # on this process's clock, as if there had been no break

    def seconds(self) -> float:
        """Since the run began, without the time between its sessions."""
        return time.perf_counter() - self.began

    @property
    def signal(self) -> int:
        """The signal to stop for, or 0. Several ranks agree on it once a step, so that all stop at the same one."""
        return self.stop.signal if self.ranks.size == 1 else self.agreed

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        """The inputs and targets (B, T) of one step, a pair for each accumulation."""
        blocks = [next(self.reader).to(self.ranks.device, non_blocking=True) for _ in range(self.settings.accumulate)]
        return [(block[:, :-1], block[:, 1:]) for block in blocks]

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """The precision of the forward pass."""
        import torch

        wanted, device = self.settings.precision, self.ranks.device.type
        if wanted == "float32" or (wanted == "auto" and device != "cuda"):
            return contextlib.nullcontext()
        return torch.autocast(device, torch.bfloat16)

    @contextlib.contextmanager
    def recording(self) -> Iterator[Records | None]:
        """The records, on the first rank; that they cannot be written ends the run at the next step, on all ranks."""
        try:
            yield self.records
        except OSError as error:
            self.failure = error


def save(session: Session) -> None:
    """Write a checkpoint: the weights once, and of every rank what is its own."""
    ranks, state = session.ranks, session.state
    state.seconds = session.seconds()
    own = ranks.gather({"random": randomness.random_state(), "reader": session.reader.state_dict()})

    def write() -> None:
        assert session.records is not None
        checkpoint.save(
            session.folder / "checkpoints",
            state.step,
            {
                "model": session.model.state_dict(),
                "optimizer": session.optimizer.state_dict(),
                "state": dataclasses.asdict(state),
                "ranks": own,
                "marks": session.records.marks(),
            },
            session.settings.keep_checkpoints,
        )

    ranks.on_first(write)


def load(session: Session, kept: dict[str, Any]) -> None:
    """Return to where a checkpoint was written."""
    session.model.load_state_dict(kept["model"])
    session.optimizer.load_state_dict(kept["optimizer"])
    session.state = State(**kept["state"])
    session.began -= session.state.seconds
    own = kept["ranks"][session.ranks.rank]
    session.reader.load_state_dict(own["reader"])
    randomness.set_random_state(own["random"])


@contextlib.contextmanager
def start(config: Config, settings: Settings, ranks: Ranks, folder: Path, show: bool) -> Iterator[Session]:
    """Build everything, check the folder, and go back to its last checkpoint if there is one."""
    began = time.perf_counter()
    _deterministic(ranks.device)
    data, model = _build(config, settings, ranks, folder)
    checkpoints = folder / "checkpoints"
    ranks.on_first(lambda: checkpoint.probe(checkpoints, _checkpoint_size(model)))
    newest, messages = ranks.on_first(lambda: checkpoint.newest(checkpoints))
    kept = checkpoint.read(newest) if newest else None
    # Dropout: the same in every run of this seed, another one on each rank.
    randomness.seed(settings.seed + 7919 * ranks.rank)
    tokens_per_step = data.batch_size * data.length * settings.accumulate * ranks.size
    steps = settings.num_steps(tokens_per_step)
    session = Session(
        settings=settings,
        ranks=ranks,
        folder=folder,
        data=data,
        model=model,
        replica=_replica(model, ranks),
        optimizer=make_optimizer(model, settings),
        reader=data.train(settings.seed, ranks.rank, ranks.size),
        stop=Stop(),
        state=State(),
        steps=steps,
        tokens_per_step=tokens_per_step,
        records=None,
        bar=progress(newest.step if newest else 0, steps, show),
        began=began,
    )
    if kept:
        load(session, kept)
        messages = [*messages, f"continuing after step {session.state.step:,} of {steps:,}"]
    made_with = {**run_folder.identity(data, ranks.size), **versions(config.plugins), "started": now()}
    messages += ranks.on_first(lambda: run_folder.describe(folder, config, made_with, Path(data.tokenizer.path)))
    for message in dict.fromkeys((*config.warnings, *config.unused(), *data.notes, *messages)):
        session.bar.say(message)
    if ranks.first:
        session.records = Records(folder, kept["marks"] if kept else None, session.state.step)
    try:
        if session.records and not kept:
            session.records.describe(config.text, model.probes())
        yield session
    finally:
        if session.records:
            with contextlib.suppress(OSError):
                session.records.close()


def _build(config: Config, settings: Settings, ranks: Ranks, folder: Path) -> tuple[Data, LanguageModel]:
    """The data, which must be what the run in the folder began with, and the model for it."""
    randomness.seed(settings.seed)
    data: Data = config.build("data")
    data.tokens("valid")  # a corpus without a validation split says so now, not at the first validation
    identity = run_folder.identity(data, ranks.size)
    ranks.on_first(lambda: run_folder.check_identity(folder, identity))
    seed = {} if "model.seed" in config.values else {"seed": settings.seed}
    model: LanguageModel = config.build("model", vocab_size=data.tokenizer.vocab_size, max_length=data.length, **seed)
    model.to(ranks.device).train()
    model.checkpoint_activations = settings.checkpoint_activations
    if settings.compile:
        model.compile_stack()
    return data, model


def _replica(model: LanguageModel, ranks: Ranks) -> torch.nn.Module:
    """The model as a step calls it: under several ranks, with its gradients averaged."""
    if ranks.size == 1:
        return model
    import warnings

    from torch.nn.parallel import DistributedDataParallel

    # A method may leave a parameter of some layer unused. The option also keeps the buckets, and with them the order of
    # summation, as they are: else they change after the first step, and a resumed run would differ in the last bits.
    warnings.filterwarnings("ignore", message=".*find_unused_parameters=True was specified.*")
    devices = [ranks.device] if ranks.device.type == "cuda" else None
    return DistributedDataParallel(model, device_ids=devices, find_unused_parameters=True, broadcast_buffers=False)


def _deterministic(device: torch.device) -> None:
    """The same bits again on the same machine; on the CPU they are anyway."""
    if device.type == "cuda":
        import torch

        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it only costs time


def _checkpoint_size(model: torch.nn.Module) -> int:
    """About how many bytes a checkpoint takes: weights, two moments each, and something for the rest."""
    return 3 * sum(p.numel() * p.element_size() for p in model.parameters()) + (1 << 20)
