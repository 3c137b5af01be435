"""A session into a checkpoint, and back out of one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import RunError
from zoo.runs import checkpoint, sharded_checkpoint
from zoo.runs.sharded_checkpoint import SEPARATOR
from zoo.training import random_state
from zoo.training.optimizer_state import BY_NAME, empty_states, set_states, states_by_name
from zoo.training.train_state import TrainState

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.training.session import Session


def save_session(session: Session) -> None:
    """Write a checkpoint: the weights once, and of every rank what is its own."""
    ranks, state = session.ranks, session.state
    state.seconds = session.seconds()
    own = ranks.gather({"random": random_state.random_state(), "reader": session.reader.state_dict()})
    if session.replica.is_sharded:
        _save_shards(session, own)
    else:
        ranks.on_first(lambda: _save_whole(session, own))


def _plain_values(session: Session, of_ranks: list[Any]) -> dict[str, Any]:
    """What a checkpoint has beside weights and what the optimiser keeps."""
    assert session.records is not None
    return {
        "state": dataclasses.asdict(session.state),
        "ranks": of_ranks,
        "marks": session.records.marks(),
        checkpoint.CONFIG: session.config,
    }


def _save_whole(session: Session, of_ranks: list[Any]) -> None:
    """All by this process."""
    states = (
        {BY_NAME: states_by_name(session.model, session.optimizer)}
        if session.settings.parallel == "fsdp"  # also of a process that is alone for now
        else session.optimizer.state_dict()
    )
    checkpoint.save(
        session.folder / "checkpoints",
        session.state.step,
        {"model": session.model.state_dict(), "optimizer": states, **_plain_values(session, of_ranks)},
        session.settings.keep_checkpoints,
    )


def _save_shards(session: Session, of_ranks: list[Any]) -> None:
    """Each rank what it holds of the tensors; the first one makes a checkpoint of it."""
    ranks, folder = session.ranks, session.folder / "checkpoints"
    temporary: Path = ranks.on_first(lambda: sharded_checkpoint.begin(folder, session.state.step))
    written: dict[str, str] | OSError
    try:
        with ranks.exchange(computes=True):
            written = sharded_checkpoint.write_own(temporary, _tensors(session), ranks.rank)
    except OSError as error:  # of any rank, it is that of all
        written = error
    files: dict[str, str] = {}
    for each in ranks.gather(written):
        if isinstance(each, OSError):
            ranks.on_first(lambda: sharded_checkpoint.drop(temporary))
            raise each
        files |= each

    def commit() -> None:
        path = sharded_checkpoint.commit(temporary, _plain_values(session, of_ranks), files)
        checkpoint.prune(folder, path, session.settings.keep_checkpoints)

    ranks.on_first(commit)


def _tensors(session: Session) -> dict[str, Tensor]:
    """Every tensor of a session, or the part of it that this rank holds, by its name in a checkpoint."""
    trained, states = session.replica.trained, states_by_name(session.replica.trained, session.optimizer)
    tensors = {_name("model", name): tensor.detach() for name, tensor in trained.state_dict().items()}
    for parameter, kept in states.items():
        tensors |= {_name("optimizer", parameter, key): tensor for key, tensor in kept.items()}
    return tensors


def _name(*parts: str) -> str:
    return SEPARATOR.join(parts)


# --- back again


def read_saved(newest: checkpoint.Checkpoint, in_parts: bool) -> dict[str, Any]:
    """What a checkpoint holds; without the tensors where every rank reads its own parts of them later."""
    if in_parts and newest.is_sharded:
        rest = sharded_checkpoint.read_rest(newest.path)
        checkpoint.check_parts(
            newest, rest, {k: v for k, v in checkpoint.PARTS.items() if k not in ("model", "optimizer")}
        )
        return rest
    content = checkpoint.read(newest)
    checkpoint.check_parts(newest, content)
    return content


def load_session(session: Session, saved: dict[str, Any], source: Path) -> None:
    """Return to where a checkpoint was written."""
    if "model" not in saved:
        _load_shards(session, source)
    else:
        _load_model(session, saved["model"])
        _load_optimizer(session, saved["optimizer"])
    session.state = TrainState(**saved["state"])
    if session.state.tokens != session.state.step * session.tokens_per_step:
        processes = "1 process" if session.ranks.size == 1 else f"{session.ranks.size} processes"
        raise RunError(
            f"a step of the run in {session.folder} had {session.state.tokens // max(1, session.state.step):,} tokens, and"
            f" with {processes} it would have {session.tokens_per_step:,}: start as many as before"
        )
    session.began -= session.state.seconds
    of_ranks = saved["ranks"]
    session.reader.load_states([each["reader"] for each in of_ranks])
    if len(of_ranks) == session.ranks.size:
        random_state.set_random_state(of_ranks[session.ranks.rank]["random"])
    else:  # other ranks draw other numbers, and not those of the run's beginning again
        random_state.seed(session.settings.seed + 7919 * session.ranks.rank + 104_729 * session.state.step)


def _load_model(session: Session, weights: dict[str, Tensor]) -> None:
    if not session.replica.is_sharded:
        session.model.load_state_dict(weights)
        return
    from zoo.training.sharded import fill

    own = session.replica.trained.state_dict()
    if wrong := sorted(own.keys() ^ weights.keys()):
        raise ValueError(f"{wrong[0]} is in one of the two alone")
    for name, tensor in own.items():
        fill(tensor, weights[name])


def _load_optimizer(session: Session, saved: dict[str, Any]) -> None:
    if BY_NAME not in saved:
        session.optimizer.load_state_dict(saved)
        return
    states = saved[BY_NAME]
    if session.replica.is_sharded:
        from zoo.training.sharded import fill

        shapes = {(name, key): (t.shape, t.dtype) for name, kept in states.items() for key, t in kept.items()}
        whole, states = states, empty_states(session.replica.trained, shapes)
        for name, kept in states.items():
            for key, tensor in kept.items():
                fill(tensor, whole[name][key])
    set_states(session.replica.trained, session.optimizer, states)


def _load_shards(session: Session, source: Path) -> None:
    """Each rank reads what it holds, whoever wrote it."""
    shapes = sharded_checkpoint.shapes(source)
    trained = session.replica.trained
    kept = {
        tuple(name.split(SEPARATOR)[1:]): shapes[name] for name in shapes if not name.startswith(_name("model", ""))
    }
    states = empty_states(trained, kept)  # type: ignore[arg-type]
    tensors = {_name("model", name): tensor.detach() for name, tensor in trained.state_dict().items()}
    if wrong := sorted(tensors.keys() ^ {name for name in shapes if name.startswith(_name("model", ""))}):
        raise ValueError(f"{wrong[0]} is in one of the two alone")
    for name, of_parameter in states.items():
        tensors |= {_name("optimizer", name, key): tensor for key, tensor in of_parameter.items()}
    sharded_checkpoint.read_into(source, tensors)
    set_states(trained, session.optimizer, states)
