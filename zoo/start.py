"""How a run starts, or goes on from where it was left."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import checkpoint, folder as run_folder, randomness
from zoo.errors import RunError
from zoo.progress import progress
from zoo.records import Records
from zoo.session import Session, load
from zoo.step import make_optimizer
from zoo.summary import now
from zoo.versions import versions

if TYPE_CHECKING:
    import torch

    from zoo.config import Config
    from zoo.data import Data
    from zoo.model import LanguageModel
    from zoo.ranks import Ranks
    from zoo.train import Settings


@contextlib.contextmanager
def start(
    config: Config, settings: Settings, ranks: Ranks, folder: Path, show: bool, allow_leak: bool = False
) -> Iterator[Session]:
    """Build everything, check the folder, and go back to its last checkpoint if there is one."""
    began = time.perf_counter()
    _deterministic(ranks.device)
    data, model = _build(config, settings, ranks, folder)
    notes = _check_declared(config, model, allow_leak)
    kept, messages = _checkpoint(model, ranks, folder / "checkpoints", settings.keep_checkpoints)
    session = new_session(settings, ranks, folder, data, model)
    session.began = began
    if kept:
        _load(config, session, kept)
        messages.append(f"continuing after step {session.state.step:,} of {session.steps:,}")
    session.bar = progress(session.state.step, session.steps, show)
    messages += ranks.on_first(lambda: _describe(config, session))
    for message in dict.fromkeys((*config.warnings, *config.unused(), *data.notes, *notes, *messages)):
        session.bar.say(message)
    ranks.on_first(lambda: _open_records(config, session, kept))
    try:
        yield session
    finally:
        if session.records:
            with contextlib.suppress(OSError):
                session.records.close()


def _load(config: Config, session: Session, kept: dict[str, Any]) -> None:
    try:
        load(session, kept)
    except (RuntimeError, ValueError, TypeError, LookupError) as error:
        since = run_folder.differences(run_folder.versions(session.folder), versions(config.plugins))
        raise RunError(
            f"the last checkpoint in {session.folder} does not fit what would go on from it: {error}"
            + "".join(f"\n{each}" for each in since)
            + "\nGo on with the versions that began it, or name another folder with --run"
        ) from error


def not_causal(config: Config, model: LanguageModel) -> list[str]:
    """The methods that are declared to let a token see later ones."""
    return [found.name for found in config.plugins if not all(part.causal for part in model.parts(found.slot))]


def _check_declared(config: Config, model: LanguageModel, allow_leak: bool) -> list[str]:
    """Refuse a method that leaks by its own word, unless that is wanted; say what else is odd about the others."""
    leaking = not_causal(config, model)
    if leaking and not allow_leak:
        raise RunError(
            f"{' and '.join(leaking)} lets a token see later ones, so its loss means nothing; with --allow-leak it is"
            " trained all the same, and the run and every table it appears in say so"
        )
    notes = [f"{name} sees later tokens: the figures of this run mean nothing" for name in leaking]
    drawing = [f.name for f in config.plugins if not all(part.deterministic for part in model.parts(f.slot))]
    return notes + [f"{name} draws new random numbers at every pass, also in validation" for name in drawing]


def _checkpoint(model: LanguageModel, ranks: Ranks, folder: Path, keep: int) -> tuple[dict[str, Any] | None, list[str]]:
    """What the newest sound checkpoint holds, and what there is to say about the others."""
    ranks.on_first(lambda: checkpoint.probe(folder, _checkpoint_size(model), keep))
    newest, messages = ranks.on_first(lambda: checkpoint.newest(folder))
    return checkpoint.read(newest) if newest else None, messages


def new_session(settings: Settings, ranks: Ranks, folder: Path, data: Data, model: LanguageModel) -> Session:
    """A run at its beginning."""
    # Dropout: the same in every run of this seed, another one on each rank.
    randomness.seed(settings.seed + 7919 * ranks.rank)
    tokens_per_step = data.batch_size * data.length * settings.accumulate * ranks.size
    return Session(
        settings=settings,
        ranks=ranks,
        folder=folder,
        data=data,
        model=model,
        replica=_replica(model, ranks),
        optimizer=make_optimizer(model, settings),
        reader=data.train(settings.seed, ranks.rank, ranks.size),
        steps=settings.num_steps(tokens_per_step),
        tokens_per_step=tokens_per_step,
    )


def _describe(config: Config, session: Session) -> list[str]:
    """Write down what is needed to run it again; what there is to say about it."""
    data = session.data
    made_with = {**run_folder.identity(data, session.ranks.size), **versions(config.plugins), "started": now()}
    with run_folder.writing(session.folder):
        return run_folder.describe(session.folder, config, made_with, Path(data.tokenizer.path))


def _open_records(config: Config, session: Session, kept: dict[str, Any] | None) -> None:
    """Open the records, cut back to where the checkpoint was written."""
    with run_folder.writing(session.folder):
        session.records = Records(session.folder, kept["marks"] if kept else None, session.state.step)
        if not kept:
            session.records.describe(config.text, session.model.probes())
            session.records.flush()


def _build(config: Config, settings: Settings, ranks: Ranks, folder: Path) -> tuple[Data, LanguageModel]:
    """The data, which must be what the run in the folder began with, and the model for it."""
    randomness.seed(settings.seed)
    data: Data = config.build("data")
    data.tokens("valid")  # a corpus without a validation split says so now, not at the first validation
    identity = run_folder.identity(data, ranks.size)
    ranks.on_first(lambda: run_folder.check_identity(folder, identity))
    return data, build_model(config, settings, ranks.device, data.tokenizer.vocab_size, data.length)


def build_model(
    config: Config, settings: Settings, device: torch.device, vocab_size: int, length: int
) -> LanguageModel:
    """The model, ready to be trained."""
    seed = {} if "model.seed" in config.values else {"seed": settings.seed}
    model: LanguageModel = config.build("model", vocab_size=vocab_size, max_length=length, **seed)
    model.to(device).train()
    model.checkpoint_activations = settings.checkpoint_activations
    if settings.compile:
        model.compile_stack()
    return model


def _replica(model: LanguageModel, ranks: Ranks) -> torch.nn.Module:
    """The model as a step calls it: under several ranks, with its gradients averaged."""
    if ranks.size == 1:
        return model
    from torch.nn.parallel import DistributedDataParallel

    # A method may leave a parameter of some layer unused. The option also keeps the buckets, and with them the order of
    # summation, as they are: else they change after the first step, and a resumed run would differ in the last bits.
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
