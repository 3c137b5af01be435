"""What a method declares and what it costs, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zoo.config.values import describe as in_words, render
from zoo.errors import ZooError
from zoo.plugins.loader import LoadedMethod
from zoo.plugins.settings import REQUIRED, Setting, settings_of

if TYPE_CHECKING:
    from zoo.model.language_model import LanguageModel
from zoo.catalogue.sizes import Size, size


class Declared(NamedTuple):
    """What a method says of itself."""

    causal: bool
    deterministic: bool
    decodes: bool
    probes: tuple[str, ...]


def declared(built: LanguageModel) -> Declared:
    extensions = list(built.extensions())
    return Declared(
        causal=all(extension.causal for extension in extensions),
        deterministic=all(extension.deterministic for extension in extensions),
        decodes=all(extension.decodes for extension in extensions),
        probes=tuple(sorted({name for extension in extensions for name in extension.probes()})),
    )


def describe(loaded: LoadedMethod, size_name: str = "base") -> str:
    """A method's settings and what it costs, in lines to be read after its card."""
    assert loaded.factory is not None
    lines = ["Settings", *(_settings(settings_of(loaded.factory)) or ["  none"]), ""]
    try:
        lines += _computed(loaded, size(size_name))
    except Exception as error:  # a stranger's method may not fit this size: the rest is still worth showing
        reason = error if isinstance(error, ZooError) else f"{type(error).__name__}: {error}"
        lines.append(f"What it costs at size {size_name} cannot be computed: {reason}")
    return "\n".join(lines)


def _settings(settings: list[Setting]) -> list[str]:
    width = max((len(setting.name) for setting in settings), default=0)
    return [f"  {s.name.ljust(width)}  {in_words(s.annotation)}; default {default(s)}" for s in settings]


def default(setting: Setting) -> str:
    """A setting's default as a Gin file would have it."""
    if setting.default is REQUIRED:
        return "%gin.REQUIRED"
    try:
        return render(setting.default)
    except TypeError:
        return str(setting.default)


def _computed(loaded: LoadedMethod, size: Size) -> list[str]:
    from zoo.counting.flops import forward_flops, skeleton, training_cost
    from zoo.counting.matching import by_parameters

    build = size.build(loaded)
    with_it, without = training_cost(build, size.length), training_cost(size.build(), size.length)
    matched = by_parameters(build, size.length)
    more = with_it.parameters - without.parameters
    declaration = declared(skeleton(build))
    yes = {True: "yes", False: "no"}
    rows = {
        "parameters": f"{more:+,} ({more / without.parameters:+.2%}){_idle(with_it.idle)}",
        "training FLOPs per token": f"{with_it.flops / without.flops:.2f} of the baseline's",
        "with what backward makes again": f"{with_it.flops_executed / without.flops_executed:.2f}",
        "baseline of as many parameters": f"model.ffn_dim = {matched.ffn_dim} ({matched.relative:+.3%})",
        "causal, deterministic, decodes": ", ".join(yes[each] for each in declaration[:3]),
        "probes": ", ".join(declaration.probes) or "none",
    }
    width = max(map(len, rows))
    forward = sum(forward_flops(size.build(), size.length))
    title = (
        f"At size {size.name}, against {without.parameters:,} parameters and, per token, {without.flops:,.0f} FLOPs in"
        f" training, {forward:,.0f} of them forward"
    )
    return [title, *(f"  {name.ljust(width)}  {value}" for name, value in rows.items())]


def _idle(idle: int) -> str:
    return f"; {idle:,} in all get no gradient" if idle else ""
