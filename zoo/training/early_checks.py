"""What the first steps of a run show of its methods: parameters that nothing uses, global state that a pass changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.extension import Extension, is_plain, name_of
from zoo.system import global_state
from zoo.training.parameter_names import readable

if TYPE_CHECKING:
    from torch import Tensor, nn

    from zoo.model.language_model import LanguageModel

STEPS = 10  # a gate that starts at 0 keeps the gradient from others in the first of them


class Early:
    """Looks at the gradients and at the process after each of the first steps; later it costs nothing.

    A method that changes the process's state in these steps is watched on: what it changes is set back at every step.
    """

    def __init__(self, model: LanguageModel, step: int, steps: int) -> None:
        self.last = min(STEPS, steps)
        self.methods = _methods(model)
        self.silent = _parameters(model) if step < self.last else {}  # no gradient so far
        self.before = global_state.read(global_state.OF_A_PASS) if self.methods else {}
        self.changed: set[str] = set()

    def after_backward(self, step: int) -> list[str]:
        """What there is to say after step 1, 2, …"""
        if step > self.last and not self.changed:
            return []
        new = [c for c in global_state.restore(self.before, global_state.OF_A_PASS) if c not in self.changed]
        self.changed.update(new)
        names = " and ".join(self.methods)
        messages = [f"a training step with {names} changes {change}; it is set back after every step" for change in new]
        self.silent = {name: p for name, p in self.silent.items() if p.grad is None or not _any(p.grad)}
        if step == self.last and self.silent:
            messages.append(_unused(self.silent, step))
        return messages


def _any(gradient: Tensor) -> bool:
    """Whether a gradient, of which ranks may hold parts, has a number that is not 0."""
    whole = getattr(gradient, "full_tensor", None)  # of a DTensor; all ranks come here together
    return bool((whole() if whole else gradient).any())


def _unused(silent: dict[tuple[str, str], nn.Parameter], steps: int) -> str:
    methods = " and ".join(dict.fromkeys(method for method, _ in silent))
    names = [readable(name) for _, name in silent]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return (
        f"parameters of {methods} never received a gradient in the first {steps} steps, so they learn nothing:"
        f" {', '.join(names[:4])}{more}; zoo-plugins check {methods.split()[0]} tells more"
    )


def _methods(model: LanguageModel) -> list[str]:
    return sorted({name_of(part) for part in model.all_parts() if not is_plain(part)})


def _parameters(model: LanguageModel) -> dict[tuple[str, str], nn.Parameter]:
    """The parameters of methods that are not declared idle, by the method and their name in the model."""
    parameters = {}
    names = {id(module): name for name, module in model.named_modules()}
    for part in model.all_parts():
        if is_plain(part):  # which has none, and is not a module of a block that does not attend
            continue
        idle = {
            f"{names[id(module)]}.{name}"
            for module in part.modules()
            if isinstance(module, Extension)
            for name in module.idle
        }
        for name, parameter in part.named_parameters(prefix=names[id(part)]):
            if parameter.requires_grad and name not in idle:
                parameters[name_of(part), name] = parameter
    return parameters
