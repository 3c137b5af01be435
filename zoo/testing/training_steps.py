"""A few steps of training leave everything finite."""

from __future__ import annotations

from zoo.testing.cases import Broken, Case, Outcome
from zoo.testing.method_under_test import Subject, seeded, tokens
from zoo.training.optimizer import make_optimizer
from zoo.training.settings import Settings


def trains(subject: Subject, case: Case, steps: int = 3) -> Outcome | None:
    """A few steps of the optimiser leave the loss, the gradients and all parameters finite."""
    built = subject.build(case, fresh=True)
    optimizer = make_optimizer(built, Settings(lr=1e-2, weight_decay=0.1))
    for step in range(steps):
        inputs = tokens(case.but(length=case.length + 1), step)
        with seeded(step):
            loss = built.loss(inputs[:, :-1], inputs[:, 1:])
        if not loss.isfinite():
            return Broken(f"the loss is not finite in step {step + 1}")
        loss.backward()
        for name, parameter in built.named_parameters():
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                return Broken(f"the gradient of {name} is not finite in step {step + 1}")
        optimizer.step()
        optimizer.zero_grad()
    for name, parameter in built.named_parameters():
        if not parameter.isfinite().all():
            return Broken(f"{name} is not finite after {steps} steps")
    return None
