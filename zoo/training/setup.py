"""How a run starts, or goes on from where it was left."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import RunError
from zoo.extension import Extension, name_of
from zoo.model import room
from zoo.runs import checkpoint, run_folder
from zoo.runs.lost_rows import mend
from zoo.runs.metrics import Records
from zoo.runs.provenance import device_name, provenance
from zoo.runs.trackers import RecordSettings, Trackers
from zoo.system.clock import now
from zoo.training import leak_alarm, memory_check, random_state
from zoo.training.early_checks import Early
from zoo.training.optimizer import make_optimizer, numbers_kept
from zoo.training.parallel import make_replica
from zoo.training.progress import progress
from zoo.training.saving import load_session, read_saved
from zoo.training.session import Session
from zoo.training.start import check_tokenizer

if TYPE_CHECKING:
    import torch

    from zoo.config.configuration import Config
    from zoo.data.batches import Data
    from zoo.model.language_model import LanguageModel
    from zoo.plugins.finder import MethodEntry
    from zoo.training.ranks import Ranks
    from zoo.training.settings import Settings


@contextlib.contextmanager
def open_session(
    config: Config, settings: Settings, ranks: Ranks, folder: Path, show: bool, allow_leak: bool = False
) -> Iterator[Session]:
    """Build everything, check the folder, and go back to its last checkpoint if there is one."""
    began = time.perf_counter()
    _deterministic(ranks.device)
    to: RecordSettings = config.build("records")
    settings, resized = _resized(settings, ranks, folder)
    data, model = _build(config, settings, ranks, folder)
    warnings = _check_declared(config, model, allow_leak)
    _check_borders(config, model, data)
    _check_passes(settings, ranks, data)
    warnings += memory_check.check_step(model, data, settings, str(ranks.device))
    source, saved, messages = _checkpoint(config, settings, model, ranks, folder / "checkpoints")
    messages += resized
    session = new_session(settings, ranks, folder, data, model)
    session.began, session.config = began, config.text
    for plugin in config.plugins:
        others = session.methods.get(plugin.slot)
        session.methods[plugin.slot] = f"{others} or {plugin.name}" if others else plugin.name
    if saved and source:
        _load(config, session, saved, source.path)
        messages.append(f"continuing after step {session.state.step:,} of {session.steps:,}")
    warnings += _check_seen(config, session, allow_leak)
    session.early = Early(session.replica.trained, session.state.step, session.steps)
    session.bar = progress(session.state.step, session.steps, show)
    messages += ranks.on_first(lambda: _describe(config, session))
    for line in opening(config, session):
        session.bar.say(line)
    for message in dict.fromkeys((*config.warnings, *config.unused(), *data.notes, *model.notes, *warnings, *messages)):
        session.bar.say(message)
    ranks.on_first(lambda: _open_records(config, to, session, saved))
    try:
        yield session
    finally:
        if session.records:
            with contextlib.suppress(OSError):
                session.records.close()


def opening(config: Config, session: Session) -> tuple[str, str]:
    """What is about to be trained, on what, and where it goes."""
    data, ranks = session.data, session.ranks
    methods = " + ".join(method.name for method in config.plugins) or "baseline"
    device = device_name(str(ranks.device)) + (f" × {ranks.size}" if ranks.size > 1 else "")
    validated = sum(each.tokens for each in data.evaluations("valid"))
    steps = f"{session.steps:,} steps of {session.tokens_per_step:,} tokens"
    return (
        f"{methods}: {session.model.num_parameters():,} parameters, {device}, {session.precision}; folder {session.folder}",
        f"{data.name}: {data.tokens('train'):,} tokens to train on, {validated:,} to validate on; {steps}",
    )


def _load(config: Config, session: Session, saved: dict[str, Any], source: Path) -> None:
    try:
        load_session(session, saved, source)
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError) as error:
        from zoo.model.language_model import unbuilt

        if idle := unbuilt(session.model, saved.get("model", ())):
            raise RunError(
                f"the last checkpoint in {session.folder} has weights of attention where {config.name} stands in its place"
                f" ({idle[0]}, …), which earlier versions kept idle, and the optimiser's numbers for them: go on with the"
                " version that wrote it, or begin again in another folder with --run"
            ) from error
        since = run_folder.differences(run_folder.known_versions(session.folder), provenance(config.plugins))
        raise RunError(
            f"the last checkpoint in {session.folder} does not fit what would go on from it: {error}"
            + "".join(f"\n{each}" for each in since)
            + "\nGo on with the versions that began it, or name another folder with --run"
        ) from error


def non_causal_methods(config: Config, model: LanguageModel) -> list[str]:
    """The methods that are declared to let a token see later ones."""
    return [method.name for method in config.plugins if not all(part.causal for part in _parts(model, method))]


def _parts(model: LanguageModel, method: MethodEntry) -> list[Extension]:
    """The layers' extensions of a method; others may stand in its slot too, in other layers."""
    in_slot = model.parts(method.slot)
    return [part for part in in_slot if name_of(part) == method.id] or in_slot


def _check_declared(config: Config, model: LanguageModel, allow_leak: bool) -> list[str]:
    """Refuse a method that leaks by its own word, unless that is wanted; say what else is odd about the others."""
    leaking = non_causal_methods(config, model)
    if leaking and not allow_leak:
        raise RunError(
            f"{' and '.join(leaking)} lets a token see later ones, so its loss means nothing; with --allow-leak it is"
            " trained all the same, and the run and every table it appears in say so"
        )
    messages = [f"{name} sees later tokens: the figures of this run mean nothing" for name in leaking]
    drawing = [
        method.name for method in config.plugins if not all(part.deterministic for part in _parts(model, method))
    ]
    return messages + [f"{name} draws new random numbers at every pass, also in validation" for name in drawing]


def _check_borders(config: Config, model: LanguageModel, data: Data) -> None:
    """Refuse to keep documents apart in a model that would see what a row is filled up with."""
    if data.cross_documents:
        return
    if leaking := non_causal_methods(config, model):
        raise RunError(
            f"{' and '.join(leaking)} lets a token see later ones, so documents cannot be kept apart:"
            " set data.cross_documents = True"
        )


def _check_passes(settings: Settings, ranks: Ranks, data: Data) -> None:
    """Refuse ranks that would gather weights together, and not equally often."""
    if settings.parallel == "fsdp" and ranks.size > 1 and not data.cross_documents:
        raise RunError(
            "with data.cross_documents = False every rank has as many passes per step as its documents need, and with"
            " train.parallel = 'fsdp' ranks gather the weights for each pass together: set train.parallel = 'ddp'"
        )


def _resized(settings: Settings, ranks: Ranks, folder: Path) -> tuple[Settings, list[str]]:
    """The settings of a run that goes on with another number of processes: its steps keep their tokens."""
    before = ranks.on_first(lambda: run_folder.world_size(folder)) or ranks.size
    if before == ranks.size:
        return settings, []
    parts, rest = divmod(settings.accumulate * before, ranks.size)
    if rest:
        raise RunError(
            f"the run in {folder} was begun by {before} processes, each with {settings.accumulate} batches per step"
            f" (train.accumulate): {ranks.size} cannot share them equally; start a number that divides"
            f" {settings.accumulate * before}, or name another folder with --run"
        )
    return dataclasses.replace(settings, accumulate=parts), [
        f"this run was begun by {before} processes and goes on with {ranks.size}: each takes {parts} batches per step"
    ]


def _check_seen(config: Config, session: Session, allow_leak: bool) -> list[str]:
    """Refuse a model that is seen to leak, unless that is wanted: then the run is stamped."""
    session.allow_leak = allow_leak
    with session.replica.whole():
        finding = session.ranks.on_first(lambda: leak_alarm.before_training(session))
    if finding.leak and not allow_leak:
        names = " and ".join(plugin.name for plugin in config.plugins) or "the model"
        raise RunError(
            f"{names} leaks, so its loss would mean nothing: {finding.leak}; zoo-plugins check METHOD --only causal rows looks"
            " closer, and with --allow-leak it is trained all the same, and the run and every table it appears in say so"
        )
    session.state.alarm = finding.leak or session.state.alarm
    return [f"ALARM: {finding.leak}"] if finding.leak else [finding.note] if finding.note else []


def _checkpoint(
    config: Config, settings: Settings, model: LanguageModel, ranks: Ranks, folder: Path
) -> tuple[checkpoint.Checkpoint | None, dict[str, Any] | None, list[str]]:
    """The newest sound checkpoint, what it holds, and what there is to say about the others."""
    ranks.on_first(lambda: checkpoint.probe(folder, checkpoint_size(model, settings), settings.keep_checkpoints))
    newest, messages = ranks.on_first(lambda: checkpoint.newest(folder))
    if newest is None:
        return None, None, messages
    saved = read_saved(newest, in_parts=settings.parallel == "fsdp" and ranks.size > 1)
    checkpoint.check_owner(newest, saved, config.text, config.restated)
    ranks.on_first(lambda: checkpoint.prune_older(folder, newest, settings.keep_checkpoints))
    return newest, saved, messages


def new_session(settings: Settings, ranks: Ranks, folder: Path, data: Data, model: LanguageModel) -> Session:
    """A run at its beginning."""
    # Dropout: the same in every run of this seed, another one on each rank.
    random_state.seed(settings.seed + 7919 * ranks.rank)
    tokens_per_step = data.batch_size * data.length * settings.accumulate * ranks.size
    replica = make_replica(model, settings.parallel, ranks)
    return Session(
        settings=settings,
        ranks=ranks,
        folder=folder,
        data=data,
        model=model,
        replica=replica,
        optimizer=make_optimizer(replica.trained, settings),
        reader=data.train(settings.seed, ranks.rank, ranks.size),
        steps=settings.num_steps(tokens_per_step),
        tokens_per_step=tokens_per_step,
    )


def _describe(config: Config, session: Session) -> list[str]:
    """Write down what is needed to run it again; what there is to say about it."""
    data = session.data
    made_with = {
        **run_folder.identity(data),
        "world_size": session.ranks.size,
        **provenance(config.plugins),
        "started": now(),
    }
    with run_folder.writing(session.folder):
        return run_folder.describe(session.folder, config, made_with, data.tokenizer.content)


def _open_records(config: Config, to: RecordSettings, session: Session, saved: dict[str, Any] | None) -> None:
    """Open the records, cut back to where the checkpoint was written."""
    with run_folder.writing(session.folder):
        if saved:
            for message in mend(session.folder, saved["marks"], session.state.step, session.settings.log_every):
                session.bar.say(message)
        trackers = Trackers(to.writers, session.folder, config.text, session.bar.say)
        session.records = Records(session.folder, saved["marks"] if saved else None, session.state.step, trackers)
        if not saved:
            session.records.tensorboard.describe(config.text, session.model.num_parameters())
            session.records.flush()


def _build(config: Config, settings: Settings, ranks: Ranks, folder: Path) -> tuple[Data, LanguageModel]:
    """The data, which must be what the run in the folder began with, and the model for it."""
    random_state.seed(settings.seed)
    data: Data = config.build("data", **_own_tokenizer(config, folder))
    data.tokens("valid")  # a corpus without a validation split says so now, not at the first validation
    identity = run_folder.identity(data)
    ranks.on_first(lambda: run_folder.check_identity(folder, identity))
    if not (going_on := ranks.on_first(lambda: bool(checkpoint.listed(folder / "checkpoints")))):
        check_tokenizer(config, data.tokenizer)
    return data, build_model(config, settings, ranks.device, data.tokenizer.padded_size, data.length, going_on)


def _own_tokenizer(config: Config, folder: Path) -> dict[str, str]:
    """The run's own copy of its tokenizer, where the file or folder that it was begun with is gone."""
    named, copy = config.values.get("data.tokenizer", ""), folder / "tokenizer.model"
    gone = os.sep in named and not Path(named).expanduser().exists()
    return {"tokenizer": str(copy)} if gone and run_folder.begun(folder) and copy.exists() else {}


def build_model(
    config: Config, settings: Settings, device: torch.device, vocab_size: int, length: int, going_on: bool = False
) -> LanguageModel:
    """The model, ready to be trained; one that is `going_on` has weights of its own, and starts from nobody's."""
    given: dict[str, Any] = {} if "model.seed" in config.values else {"seed": settings.seed}
    if going_on and "model.start_from" in config.values:
        given["start_from"] = None
    build = functools.partial(config.build, "model", vocab_size=vocab_size, max_length=length, **given)
    if config.plugins:  # the plain model counts its own
        memory_check.check_skeleton(build, settings, str(device))
    model: LanguageModel = build()
    room.check_parameters(
        sum(p.numel() for p in model.parameters()), memory_check.bytes_trained(settings) - room.WEIGHT, str(device)
    )
    model.to(device).train()
    model.checkpoint_activations = settings.checkpoint_activations
    if settings.compile:
        model.compile_stack()
    return model


def _deterministic(device: torch.device) -> None:
    """Make runs repeatable bit for bit on the same machine; on the CPU they are so anyway."""
    if device.type == "cuda":
        import torch

        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it only costs time


def checkpoint_size(model: torch.nn.Module, settings: Settings) -> int:
    """About how many bytes a checkpoint takes: weights, what the optimiser keeps of each, and something for the rest."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    return (1 + numbers_kept(settings)) * weights + (1 << 20)
