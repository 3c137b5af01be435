"""The summary of a training run that is over or interrupted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.config.configuration import Config
    from zoo.training.session import Session
    from zoo.training.train_state import TrainState
from zoo.runs.summary import Status, Summary
from zoo.system.clock import now


def summarise(config: Config, session: Session, status: Status) -> Summary:
    """The figures of a run as it stands."""
    import zoo
    from zoo.runs.metrics import probe_values
    from zoo.runs.provenance import device_name
    from zoo.runs.run_folder import known_versions
    from zoo.system.memory import peak_memory
    from zoo.training.activations import quantities
    from zoo.training.setup import non_causal_methods

    state, ranks, made_with = session.state, session.ranks, known_versions(session.folder)
    learned = probe_values(quantities(session))
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
        blew_up=_fault(state),
        probes={name: {str(layer): value for layer, value in layers.items()} for name, layers in learned.items()},
        corpus=session.data.fingerprint,
        seed=session.settings.seed,
        world_size=ranks.size,
        stamps={
            "started": made_with.get("started", ""),
            "ended": now(),
            "version": zoo.__version__,
            "git": made_with.get("git"),
        },
        signal=session.signal if status == "interrupted" else 0,
        alarm=state.alarm,
        remark=state.remark,
        leaks=non_causal_methods(config, session.model),
        corpus_name=session.data.name,
        device=device_name(str(ranks.device)),
        precision=session.precision,
        validated=state.validated,
        bad_validation=state.bad_validation,
        notes=_notes(state),
        budgets=list(state.budgets),
    )


def _fault(state: TrainState) -> str:
    """Where the first number stood that is not finite: of the last steps, else of the last validation."""
    is_bad = not math.isfinite(state.valid.get("loss", 0.0))
    return state.bad_validation if is_bad and not state.skipped_in_a_row else state.blew_up


def _notes(state: TrainState) -> list[str]:
    notes = []
    if state.bad_validations and math.isfinite(state.valid["loss"]):
        which = f"{state.bad_validations} validation{'s' if state.bad_validations > 1 else ''}"
        notes.append(f"the loss of {which} was not finite, and that of later ones is: {state.bad_validation}")
    if state.bad_probes:
        notes.append(f"probes that were not finite at some step are empty there: {', '.join(state.bad_probes)}")
    return notes
