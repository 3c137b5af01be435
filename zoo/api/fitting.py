"""A model trained on batches of one's own, in this process, with the optimiser and the schedule of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from zoo.api.given import fitting
from zoo.errors import ZooError, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.model.language_model import LanguageModel
    from zoo.training.settings import Settings

Batch = Any  # tokens (B, T + 1), or a pair of tokens and targets (B, T)


def fit(
    model: LanguageModel,
    batches: Iterable[Batch],
    *,
    steps: int,
    lr: float = 3e-3,
    on_step: Callable[[int, float], None] | None = None,
    **settings: Any,
) -> list[float]:
    """Train a model on batches, one per step, and return the loss of each step in nats per token.

    A batch is a tensor of tokens (B, T + 1), of which each predicts the next, or a pair of tokens and targets (B, T), of
    which a target of −100 does not count. `settings` are those of `train` that concern a step (docs/settings.md):
    `optimizer`, `schedule`, `warmup`, `final_lr`, `weight_decay`, `clip`, `z_loss` …; `on_step` hears of each step and its
    loss. Nothing is written to disk: `zoo.train` makes a run that resumes.
    """
    import torch

    from zoo.training.optimizer import make_optimizer
    from zoo.training.schedules import learning_rate

    of_step = _settings(steps=steps, lr=lr, **settings)
    if not hasattr(model, "output_weight"):  # a compiled one has it too
        raise ZooError(f"zoo.fit trains a model of zoo.build, or that of a run, and not a {type(model).__name__}")
    if on_step is not None and not callable(on_step):
        raise ZooError(f"on_step is a function of a step and its loss, not {on_step!r}")
    optimizer, losses = make_optimizer(model, of_step), []
    device, given = model.output_weight().device, _endless(batches)
    before = model.training
    model.train()
    try:
        for step in range(1, steps + 1):
            tokens, targets = _pair(next(given))
            _check_tokens(tokens, targets, model)
            tokens, targets = tokens.long().to(device), targets.long().to(device)
            loss = model(tokens, targets=targets, reduction="mean", z_loss=of_step.z_loss)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                raise ZooError(f"the loss of step {step:,} is not finite: a smaller lr than {lr:g} may help")
            if of_step.clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), of_step.clip)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps, of_step) * group["lr_factor"]
            optimizer.step()
            if on_step:
                on_step(step, losses[-1])
    finally:
        optimizer.zero_grad(set_to_none=True)
        model.train(before)
    return losses


def _settings(**given: Any) -> Settings:
    import dataclasses

    from zoo.training.settings import Settings

    known = [each.name for each in dataclasses.fields(Settings)]
    for name in given:
        if name not in known:
            raise ZooError(
                f"zoo.fit has no setting {name}{nearest(name, known)}; docs/settings.md lists those of train"
            )
    return Settings(**fitting("train", Settings, given))


def _endless(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches, again from the beginning where they end; an iterator cannot begin again."""
    if not isinstance(batches, Iterable):
        raise ZooError(f"zoo.fit takes a list of batches, or an iterator of them, and not a {type(batches).__name__}")
    while True:
        count = 0
        for count, batch in enumerate(batches, start=1):  # noqa: B007
            yield batch
        if count == 0:
            raise ZooError(
                "there are fewer batches than steps: give more of them, or a list, which is gone through again"
            )


def _pair(batch: Batch) -> tuple[Tensor, Tensor]:
    """Tokens and targets of a batch."""
    import torch

    if isinstance(batch, torch.Tensor):
        if batch.dim() != 2 or batch.size(1) < 2:
            raise ZooError(f"a batch of tokens has the shape (rows, tokens + 1), not {tuple(batch.shape)}")
        return batch[:, :-1], batch[:, 1:]
    try:
        tokens, targets = batch
        fits = tokens.shape == targets.shape and tokens.dim() == 2
    except (TypeError, ValueError, AttributeError):
        fits = False
    if not fits:
        raise ZooError("a batch is a tensor of tokens, or a pair of tensors of one shape: tokens and targets")
    return tokens, targets


def _check_tokens(tokens: Tensor, targets: Tensor, model: LanguageModel) -> None:
    """Refuse what the model has no row for, which torch would report without saying what it is, and no room."""
    import torch

    vocab_size, longest = model.output_weight().size(0), model.max_seq_len
    if not tokens.numel():
        raise ZooError(f"a batch of the shape {tuple(tokens.shape)} has no tokens")
    if tokens.size(1) > longest:
        raise ZooError(
            f"a batch has rows of {tokens.size(1):,} tokens, and the model is built for {longest:,}: give shorter ones, or"
            " build it with a larger max_length"
        )
    for each in (tokens, targets[targets != -100]):
        if each.dtype.is_floating_point or each.dtype.is_complex or each.dtype == torch.bool:
            raise ZooError(f"tokens are whole numbers, and this batch is of {str(each.dtype).removeprefix('torch.')}")
        if each.numel() and not 0 <= int(each.min()) <= int(each.max()) < vocab_size:
            raise ZooError(
                f"a batch has tokens from {int(each.min())} to {int(each.max())}, and the model has those from 0 to"
                f" {vocab_size - 1}: build it with a larger vocab_size"
            )
