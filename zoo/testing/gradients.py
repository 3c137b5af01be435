"""Gradients: they reach every parameter, are the derivative, and are the same however the pass is run."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from zoo.model.language_model import LanguageModel
from zoo.testing.cases import MAX_LENGTH, Broken, Case, Outcome, Skipped, hosts
from zoo.testing.method_under_test import Subject, difference, direction, run, tokens

REACH = hosts(Case(1, MAX_LENGTH, 3, training=True), Case(2, MAX_LENGTH, 3, training=True))


def reach(subject: Subject, case: Case) -> Outcome | None:
    """In some batch, with random parameters, every parameter of the method gets a gradient that is not 0."""
    alive: set[str] = set()
    owned, idle = _owned(subject, subject.build(case))
    for seed in range(3):
        built = subject.build(case, seed=seed)
        (run(built, tokens(case, seed)) * direction(tokens(case)[..., None].double(), seed)).sum().backward()
        for name, parameter in built.named_parameters():
            if parameter.grad is None or name not in owned:
                continue
            if not parameter.grad.isfinite().all():
                return Broken(f"the gradient of {name} is not finite")
            if parameter.grad.any():
                alive.add(name)
    if dead := sorted(owned - alive - idle):
        return Broken(
            f"no gradient reaches {', '.join(dead)}: use it, remove it, or name it in the extension's `idle` where it"
            " is known to have none"
        )
    if busy := sorted(idle & alive):
        return Broken(f"{', '.join(busy)} is declared idle and gets a gradient")
    if unknown := sorted(idle - owned):
        return Broken(f"{', '.join(unknown)} is declared idle and is no parameter")
    return None if owned else Skipped("it has no parameters")


def _owned(subject: Subject, built: LanguageModel) -> tuple[set[str], set[str]]:
    """The names in the model of the method's parameters, and of those that it declares idle."""
    names = {id(module): name for name, module in built.named_modules()}
    owned, idle = set(), set()
    for extension in subject.extensions(built):
        prefix = names[id(extension)]
        owned |= {f"{prefix}.{name}" for name, _ in extension.named_parameters()}
        idle |= {f"{prefix}.{name}" for name in extension.idle}
    return owned, idle


DERIVATIVE = (Case(1, 5, 1), *hosts(Case(2, 5, 2, training=True)))
STEPS = (1e-5, 1e-6)  # of a difference; the second where the first disagrees, for a function may curve


def derivative(subject: Subject, case: Case) -> Outcome | None:
    """Along a random direction of every parameter, the gradient is what finite differences say."""
    built, inputs = subject.build(case), tokens(case)
    owned, _ = _owned(subject, built)

    def value() -> Tensor:
        logits = run(built, inputs)
        return (logits * direction(logits)).mean()

    parameters = dict(built.named_parameters())
    groups = [{name} for name in sorted(owned)] + [parameters.keys() - owned]
    gradients = torch.autograd.grad(value(), list(parameters.values()), allow_unused=True)
    by_name = dict(zip(parameters, gradients, strict=True))
    for group in groups:
        along = {name: direction(parameters[name], seed=2) for name in group}
        stated = sum(float((g * along[name]).sum()) for name in group if (g := by_name[name]) is not None)
        for step in STEPS:
            with torch.no_grad():
                ahead, behind = (_moved(parameters, along, each, value) for each in (step, -step))
            numeric = (ahead - behind) / (2 * step)
            if abs(numeric - stated) <= 1e-4 * max(abs(numeric), abs(stated)) + 1e-8:
                break
        else:
            what = next(iter(group)) if group <= owned else "the model's own weights"
            return Broken(f"the gradient of {what} is not the derivative: {stated:.4g} along a line, not {numeric:.4g}")
    return None


def _moved(
    parameters: dict[str, torch.nn.Parameter], along: dict[str, Tensor], step: float, value: Callable[[], Tensor]
) -> float:
    for name, way in along.items():
        parameters[name].add_(way, alpha=step)
    result = float(value())
    for name, way in along.items():
        parameters[name].sub_(way, alpha=step)
    return result


# --- the same pass, run in another way


def outcome(built: LanguageModel, inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Logits and all gradients of one pass."""
    built.zero_grad(set_to_none=True)
    logits = run(built, inputs)
    (logits * direction(logits)).mean().backward()
    return logits.detach(), {name: p.grad for name, p in built.named_parameters() if p.grad is not None}


def _compare(
    one: tuple[Tensor, dict[str, Tensor]], other: tuple[Tensor, dict[str, Tensor]], how: str, limit: float
) -> Broken | None:
    if (apart := difference(other[0], one[0])) > limit:
        return Broken(f"{how}, the logits are others, by {apart:.1e}")
    for name in sorted(one[1].keys() | other[1].keys()):
        ours, theirs = one[1].get(name), other[1].get(name)
        if ours is None or theirs is None:
            present = ours if theirs is None else theirs
            if present is not None and present.any():
                return Broken(f"{how}, {name} {'loses' if theirs is None else 'gains'} its gradient")
        elif difference(theirs, ours) > limit * max(1.0, 1.0 / max(1e-3, float(ours.abs().max()))):
            return Broken(f"{how}, the gradient of {name} is another")
    return None


CHECKPOINTED = (
    Case(1, 3, 1, training=True),
    *hosts(Case(2, 6, 2, training=True)),
    Case(5, 6, 2, training=True, dropout=0.2),
)


def checkpointed(subject: Subject, case: Case) -> Outcome | None:
    """With activation checkpointing the result and the gradients are the same."""
    built, inputs = subject.build(case), tokens(case)
    plain = outcome(built, inputs)
    built.checkpoint_activations = True
    return _compare(plain, outcome(built, inputs), "with activation checkpointing", 1e-9)


COMPILED = (Case(2, 6, 2, training=True),)
COMPILED_FULLY = hosts(
    Case(2, 6, 2, training=True, dtype="float32")
)  # the CPU's attention cannot be compiled in float64


def compiled(subject: Subject, case: Case, backend: str = "eager", limit: float = 1e-7) -> Outcome | None:
    """Traced by torch.compile, the result and the gradients are the same."""
    if not subject.declared.deterministic:
        return Skipped("it draws random numbers in evaluation too, and compiled code draws others")
    built, inputs = subject.build(case), tokens(case)
    plain = outcome(built, inputs)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        built._run_stack = torch.compile(built._stack, backend=backend)
        traced = outcome(built, inputs)
    torch._dynamo.reset()
    return _compare(plain, traced, f"compiled (backend {backend})", limit)


def compiled_fully(subject: Subject, case: Case) -> Outcome | None:
    """As compiled code, too."""
    return compiled(subject, case, "inductor", 1e-3)
