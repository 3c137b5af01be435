"""Method cards: what they say, and what is computed beside them, which is never typed in.

A card is Markdown, `# ID — a phrase`, then sections; the first line of its first code block is the method's formula.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo import plugins
from zoo.errors import ConfigError, PluginError, ZooError
from zoo.gin_files import Reader
from zoo.gin_values import describe as in_words, render
from zoo.plugins import REQUIRED, Loaded, Setting

if TYPE_CHECKING:
    from zoo.match import Build
    from zoo.model import LanguageModel

SECTIONS = ("What it does", "Source", "Claimed", "Cost", "Measured")  # every card has these, in this order
OPTIONAL = ("Settings", "Hosts", "What is wrong with it")  # between the second and the third of them


class Card(NamedTuple):
    id: str
    phrase: str
    sections: Mapping[str, str]

    @property
    def formula(self) -> str:
        """The first line of the first code block; empty if there is none."""
        lines = [line for line in self.sections.get("What it does", "").splitlines() if line.startswith("    ")]
        return " ".join(lines[0].split()) if lines else ""

    def first_sentence(self, section: str) -> str:
        text = " ".join(self.sections.get(section, "").split())
        return re.split(r"(?<=[.:;])\s", text)[0].rstrip(".:;")


def read(path: Path) -> Card:
    title, *rest = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = re.fullmatch(r"# (\S+) — (.+)\n\n", title)
    if found is None:
        raise PluginError(f"{path} does not begin with '# ID — a phrase' and an empty line")
    parts = [section.partition("\n") for section in rest]
    return Card(found[1], found[2], {name.strip(): text.strip("\n") for name, _, text in parts})


# --- what is computed


class Size(NamedTuple):
    """A file of sizes, as far as a model's shape goes."""

    name: str
    vocab_size: int
    length: int
    model: Mapping[str, Any]

    def build(self, loaded: Loaded | None = None) -> Build:
        """How a model of this size is made, with a method at its default settings or without."""
        from zoo.model import model

        slots = {} if loaded is None else {loaded.found.slot: loaded.factory}
        return partial(model, self.vocab_size, self.length, **self.model, **slots)


def size(name: str = "base") -> Size:
    """What the project's sizes/NAME.gin says."""
    for folder in plugins.project_gin():
        statements = list(Reader([folder]).read_file(folder / "sizes" / f"{name}.gin", "file"))
        values = {statement.key: statement.value for statement in statements}
        model = {key.removeprefix("model."): value for key, value in values.items() if key.startswith("model.")}
        return Size(name, values["data.vocab_size"], values["data.length"], model)
    raise ConfigError("this installation lacks its Gin files: install it again")


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


def describe(loaded: Loaded, size_name: str = "base") -> str:
    """A method's settings and what it costs, in lines to be read after its card."""
    assert loaded.factory is not None
    lines = ["Settings", *(_settings(plugins.settings(loaded.factory)) or ["  none"]), ""]
    try:
        lines += _computed(loaded, size(size_name))
    except Exception as error:  # a stranger's method may not fit this size: the rest is still worth showing
        told = error if isinstance(error, ZooError) else f"{type(error).__name__}: {error}"
        lines.append(f"What it costs at size {size_name} cannot be computed: {told}")
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


def _computed(loaded: Loaded, size: Size) -> list[str]:
    from zoo import match

    build = size.build(loaded)
    with_it, without = match.cost(build, size.length), match.cost(size.build(), size.length)
    matched = match.by_parameters(build)
    more = with_it.parameters - without.parameters
    told = declared(match.skeleton(build))
    yes = {True: "yes", False: "no"}
    rows = {
        "parameters": f"{more:+,} ({more / without.parameters:+.2%}){_idle(with_it.idle)}",
        "FLOPs a token": f"{with_it.flops / without.flops:.2f} of the baseline's",
        "with what backward makes again": f"{with_it.flops_executed / without.flops_executed:.2f}",
        "baseline of as many parameters": f"model.ffn_dim = {matched.ffn_dim} ({matched.relative:+.3%})",
        "causal, deterministic, decodes": ", ".join(yes[each] for each in told[:3]),
        "probes": ", ".join(told.probes) or "none",
    }
    width = max(map(len, rows))
    title = f"At size {size.name}, against {without.parameters:,} parameters and {without.flops:,.0f} FLOPs a token"
    return [title, *(f"  {name.ljust(width)}  {value}" for name, value in rows.items())]


def _idle(idle: int) -> str:
    return f"; {idle:,} in all get no gradient" if idle else ""
