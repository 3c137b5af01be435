"""It can be built at every size, in every type, with every setting; and says so where it cannot go on."""

from __future__ import annotations

import math
import re
import typing
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.model.language_model import LanguageModel
from zoo.plugins.settings import settings_of
from zoo.testing import causality, decoding
from zoo.testing.cases import MAX_LENGTH, VOCAB, Broken, Case, Note, Outcome, Skipped, hosts
from zoo.testing.method_under_test import Subject, difference, look, run, tokens, where

SIZES = (
    *hosts(Case(1, 1, 1), Case(2, 2, 3)),
    Case(5, MAX_LENGTH, 2),
    Case(5, 3, 1, parallel=True),
    Case(2, 5, 2, heads=4, kv_heads=2, head_dim=4),
    Case(2, 5, 2, heads=2, kv_heads=1, head_dim=6, width=20, qk_norm=True),
    Case(1, 4, 1, heads=1, kv_heads=1, head_dim=2, width=8, parallel=True),
)


def builds(subject: Subject, case: Case) -> Outcome | None:
    """It builds, twice the same from the same seed, and answers with finite numbers of the right shape.

    A single head, or a single key head, may be refused with a sentence: some methods pair heads.
    """
    try:
        built, again = (subject.build(case, fresh=True) for _ in range(2))
    except ZooError as refusal:
        if 1 not in (case.heads, case.kv_heads):
            raise
        return Note(f"refused: {refusal}")
    for (name, one), (_, other) in zip(built.named_parameters(), again.named_parameters(), strict=True):
        if not torch.equal(one, other):
            return Broken(f"two models built from the same seed differ in {name}")
    for model, fresh in ((built, True), (subject.build(case), False)):
        logits = look(model, tokens(case))
        if logits.shape != (case.batch, case.length, VOCAB):
            return Broken(
                f"the model answers {tuple(logits.shape)}, not (B, T, V) = {(case.batch, case.length, VOCAB)}"
            )
        if not logits.isfinite().all():
            return Broken(f"the model's answer is not finite with {'initial' if fresh else 'random'} parameters")
        if outcome := _probes(subject, model):
            return outcome
    return None


def _probes(subject: Subject, model: LanguageModel) -> Broken | None:
    for number, extension in enumerate(subject.extensions(model), start=1):
        for name, value in extension.probes().items():
            if not isinstance(value, Tensor) or not value.isfinite().all():
                return Broken(f"the probe {name} of layer {number} is not a finite tensor: {value!r:.60}")
    return None


TYPES = tuple(Case(2, 6, 2, dtype=dtype, parallel=parallel) for dtype, parallel in (
    ("float32", False), ("float32", True), ("float64", False), ("bfloat16", False), ("bfloat16", True),
))  # fmt: skip


def types(subject: Subject, case: Case) -> Outcome | None:
    """Weights of one type give results of that type, near those of float64; and autocast works."""
    exact = look(subject.build(case.but(dtype="float64")), tokens(case))
    logits = look(subject.build(case), tokens(case))
    if str(logits.dtype) != f"torch.{case.dtype}":
        return Broken(f"a model of {case.dtype} answers in {logits.dtype}".replace("torch.", ""))
    apart = difference(logits, exact)
    if math.isinf(apart):
        return Broken(f"the model's answer in {case.dtype} is not finite")
    if case.dtype == "float32" and apart > 1e-3 and subject.declared.deterministic:
        return Broken(f"float32 and float64 answer differently, by {apart:.1e} of the largest logit")
    return _under_autocast(subject, case) if case.dtype == "float32" else None


NARROWED = 0.25  # of the largest logit: what products in bfloat16, with 8 bits, may do to a method; the median is 0.01


def _under_autocast(subject: Subject, case: Case) -> Broken | None:
    """As the trainer does in bfloat16: weights stay float32, matrix products are narrower."""
    built = subject.build(case.but(training=True))
    wide = look(built, tokens(case))
    try:
        with torch.autocast("cpu", torch.bfloat16):
            logits = run(built, tokens(case))
        logits.float().square().mean().backward()
    except RuntimeError as error:
        return Broken(f"under autocast to bfloat16, as the trainer uses it, it fails: {error} ({where(error)})")
    if not all(p.grad is None or p.grad.isfinite().all() for p in built.parameters()):
        return Broken("under autocast to bfloat16 gradients are not finite")
    if (apart := difference(logits, wide)) > NARROWED and subject.declared.deterministic:
        return Broken(f"under autocast to bfloat16 it answers otherwise, by {apart:.1e} of the largest logit")
    return None


LIMITS = (Case(1, MAX_LENGTH), Case(2, MAX_LENGTH, parallel=True))


def limits(subject: Subject, case: Case) -> Outcome | None:
    """More tokens than model.max_length work, or are refused with a sentence."""
    built = subject.build(case)
    longer = tokens(case.but(length=MAX_LENGTH + 3))
    try:
        logits = look(built, longer)
    except ZooError as refusal:
        return Note(f"more than max_length tokens are refused: {refusal}") if case.depth > 1 else None
    except Exception as error:
        return Broken(
            f"more tokens than max_length end in {type(error).__name__}: {error}; let them work, or raise a ZooError"
            " that says why not"
        )
    return None if logits.isfinite().all() else Broken("more tokens than max_length give numbers that are not finite")


SIZE_OF_A_PART = re.compile("chunk|block|window|segment|stride|tile")  # in the name of a setting
SMALL = (2, 3, 8)  # … which is tried with these, as a default may be longer than any sequence here
LONG = 33


def settings(subject: Subject, case: Case) -> Outcome | None:
    """With each value that a setting may have, and small parts, the method builds, is causal and decodes."""
    tried = []
    for name, value in choices(subject):
        each = case.but(settings=((name, value),))
        for probe in (builds, causality.causal, decoding.cached):
            outcome = probe(subject, each)
            if isinstance(outcome, Broken) and not (probe is causality.causal and not subject.declared.causal):
                return Broken(f"with {name} = {value!r}: {outcome}")
        tried.append(f"{name} = {value!r}")
    for name, value in parts(subject):
        each = case.but(settings=((name, value),))
        try:
            subject.build(each)
        except (ZooError, ValueError):  # not every size need do
            continue
        for length in (case.length, LONG):
            outcome = causality.causal(subject, each.but(length=length))
            if isinstance(outcome, Broken) and subject.declared.causal:
                return Broken(f"with {name} = {value!r} and {length} tokens: {outcome}")
        tried.append(f"{name} = {value!r}")
    return (
        Note(", ".join(tried)) if tried else Skipped("no setting is a choice among listed values, or a size of parts")
    )


def parts(subject: Subject) -> Iterator[tuple[str, int]]:
    """Every setting that is the size of chunks, blocks, windows or the like, with small values."""
    for setting in settings_of(subject.factory):
        whole_number = setting.annotation is int or int in typing.get_args(setting.annotation)
        if whole_number and SIZE_OF_A_PART.search(setting.name):
            yield from ((setting.name, value) for value in SMALL if value != setting.default)


def choices(subject: Subject) -> Iterator[tuple[str, Any]]:
    """Every setting that is a flag or a choice, with the values that are not its default."""
    for setting in settings_of(subject.factory):
        values: tuple[Any, ...] = ()
        if setting.annotation is bool:
            values = (False, True)
        elif typing.get_origin(setting.annotation) is typing.Literal:
            values = typing.get_args(setting.annotation)
        yield from ((setting.name, value) for value in values if value != setting.default)
