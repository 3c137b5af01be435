"""The validation split, or as much of it as data.valid_tokens says, shared among ranks."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import torch

from zoo.runs.metrics import probe_values
from zoo.training import leak_alarm
from zoo.training.activations import quantities
from zoo.training.nonfinite import number, validation_blame
from zoo.training.step import perplexity

if TYPE_CHECKING:
    from zoo.data.batches import Evaluation
    from zoo.training.session import Session


def validate(session: Session) -> bool:
    """Measure, write, and note whether it got better; false if a signal came first, and then nothing has changed."""
    with session.replica.whole():
        return _validate(session)


def _validate(session: Session) -> bool:
    began = time.perf_counter()
    figures = measure(session, "valid")
    if figures is None:
        return False
    session.evaluation_seconds = time.perf_counter() - began
    state, settings = session.state, session.settings
    first_bad = math.isfinite(state.valid.get("loss", 0.0))  # the one before was good, or there was none
    state.valid, state.validated = figures, state.step
    state.budgets += _budget(session, figures)
    if figures["loss"] < state.best - settings.min_delta:
        state.best, state.best_step, state.since_best = figures["loss"], state.step, 0
    else:
        state.since_best += 1
    if math.isfinite(figures["loss"]):
        _watch(session)
    else:
        _tell_of_bad_loss(session, first_bad)
    tell_of_bad_probes(session)
    with session.recording() as records:
        if records:
            records.row("valid", state.step, figures)
            records.tensorboard.review(state.step, quantities(session), session.steps, state.train_seconds)
            records.flush()
    session.bar.say(_line(session))
    return True


def _budget(session: Session, figures: dict[str, float]) -> list[dict[str, float]]:
    """What the run has come to, if a period ends with this step."""
    state = session.state
    return [
        {
            "multiple": period.multiple,
            "step": state.step,
            "tokens": state.tokens,
            **{name: figures[name] for name in ("loss", "accuracy", "bits_per_byte")},
        }
        for period in session.periods
        if period.end == state.step
    ]


def _tell_of_bad_loss(session: Session, first: bool) -> None:
    """Count a validation whose loss is not finite; of several in a row the first tells what is wrong."""
    state = session.state
    if first:
        state.bad_validation = validation_blame(session, "valid", state.valid["loss"])
        session.bar.say(state.bad_validation)
    state.bad_validations += 1


def tell_of_bad_probes(session: Session) -> None:
    """Say once of every probe that it is not finite: in the records and the summary it is then empty."""
    state = session.state
    for name, layers in probe_values(session.model.probes()).items():
        bad = [layer for layer, value in layers.items() if not _finite(value)]
        if bad and name not in state.bad_probes:
            state.bad_probes.append(name)
            session.bar.say(
                f"the probe {name} of layer {bad[0]} is not finite at step {state.step:,}: it is left empty"
            )


def _finite(value: float | list[float]) -> bool:
    return all(map(math.isfinite, value)) if isinstance(value, list) else math.isfinite(value)


def _watch(session: Session) -> None:
    """Raise the alarm when the model sees the future; without a leak, figures that are very good are worth a note."""
    state = session.state
    if state.alarm:
        return
    state.alarm = session.ranks.on_first(lambda: leak_alarm.at_validation(session)).leak
    if state.alarm:
        session.bar.say(f"ALARM at step {state.step:,}: {state.alarm}")
    elif not state.remark and (good := leak_alarm.too_good(state.valid, session.data)):
        state.remark = f"{good}; no leak was found, so the text may be that regular"
        session.bar.say(f"step {state.step:,}: {state.remark}")


class Total(NamedTuple):
    """What was measured of one corpus, over all ranks."""

    nll: float  # nats
    correct: float
    targets: float
    bytes: float
    share: float  # of the corpus in the mixture

    @property
    def loss(self) -> float:
        return self.nll / self.targets


def measure(session: Session, split: str) -> dict[str, float] | None:
    """Loss in nats per token, perplexity, bits per byte and accuracy of a split; each rank takes every n-th batch.

    Of a mixture they are the means over its corpora by their shares, and each corpus has its own loss beside them.
    """
    evaluations = session.data.evaluations(split)
    all_tokens = sum(each.tokens for each in evaluations)
    totals: dict[str, Total] = {}
    done = 0
    for each in evaluations:
        sums = _sums(session, each, done, all_tokens)
        if sums is None:
            return None
        done += each.tokens
        nll, correct, targets = session.ranks.sum(sums)
        totals[each.name] = Total(nll, correct, targets, each.bytes, each.share)
    figures = _figures(list(totals.values()))
    if len(totals) > 1:
        figures |= {f"loss/{name}": total.loss for name, total in totals.items()}
    return figures


@torch.no_grad()
def _sums(session: Session, evaluation: Evaluation, done: int, all_tokens: int) -> list[float] | None:
    """The sums of −ln p, of right answers and of targets over this rank's batches; None if a signal came first."""
    ranks, model = session.ranks, session.model
    nll = torch.zeros((), dtype=torch.float64, device=ranks.device)
    correct = torch.zeros((), dtype=torch.int64, device=ranks.device)
    count, seen = 0, done
    model.eval()
    try:
        for index, (tokens, targets) in enumerate(evaluation.batches):
            if ranks.size == 1 and session.stop.signal:
                return None
            if index % ranks.size == ranks.rank:
                for inputs, answers in session.data.passes(tokens, targets):
                    with session.autocast():
                        part = model.evaluate(inputs.to(ranks.device), answers.to(ranks.device))
                    nll, correct, count = nll + part[0], correct + part[1], count + part[2]
            seen += targets.numel()
            session.bar.busy("validating", min(1.0, seen / all_tokens))
    finally:
        model.train()
    return [nll.item(), float(correct.item()), float(count)]


def _figures(totals: list[Total]) -> dict[str, float]:
    if len(totals) == 1:
        (total,) = totals
        loss, bits, accuracy = total.loss, total.nll / math.log(2) / total.bytes, total.correct / total.targets
    else:
        loss = sum(total.share * total.loss for total in totals)
        bytes_per_token = sum(total.share * total.bytes / total.targets for total in totals)
        bits = loss / math.log(2) / bytes_per_token
        accuracy = sum(total.share * total.correct / total.targets for total in totals)
    return {
        "loss": loss,
        "perplexity": perplexity(loss),
        "bits_per_byte": bits,
        "accuracy": math.nan if math.isnan(loss) else accuracy,  # of NaN any token is the largest
    }


def _line(session: Session) -> str:
    state = session.state
    parts = [
        f"step {state.step:,}/{session.steps:,}",
        *_train_loss(session),
        f"valid loss {number(state.valid['loss'])}",
    ]
    if state.since_best and state.best_step:
        parts[-1] += f" (best {state.best:.4f} at step {state.best_step:,})"
    return "  ".join([*parts, f"{state.tokens / max(state.train_seconds, 1e-9):,.0f} tokens/s"])


def _train_loss(session: Session) -> list[str]:
    """The mean since the last log, or as just logged; nothing where no step has been trained."""
    state = session.state
    if state.skipped_in_a_row and not state.window_steps:
        return []
    loss = state.window_loss / state.window_steps if state.window_steps else state.train_loss
    return [] if math.isnan(loss) else [f"train loss {loss:.4f}"]
