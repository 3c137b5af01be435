"""Find, load and classify the methods that installed distributions offer as entry points.

Finding reads metadata only; loading imports one plugin and never raises; naming a plugin that is broken, or whose id is
claimed twice, does. Nothing here imports torch: a plugin does, when it is loaded.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import keyword
import re
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from zoo import api
from zoo.errors import PluginError, nearest

SLOTS = ("residual", "score_mixing", "temporal_mixing")
GROUPS = {f"zoo.{slot}": slot for slot in SLOTS}

REQUIRED = inspect.Parameter.empty  # the default of a setting that has none


class UnknownMethod(PluginError):
    """A name that no plugin offers."""


class Found(NamedTuple):
    """An entry point as its distribution declares it; nothing has been imported."""

    slot: str
    id: str
    value: str  # "package.module:attribute"
    distribution: str
    version: str

    @property
    def name(self) -> str:
        """How Gin files call it."""
        return f"{self.slot}.{self.id}"

    @property
    def source(self) -> str:
        return f"{self.distribution} {self.version}"


class Loaded(NamedTuple):
    """A plugin after its import: the factory, or why there is none."""

    found: Found
    factory: Callable[..., Any] | None
    error: str | None = None
    traceback: str | None = None


class Setting(NamedTuple):
    name: str
    annotation: Any
    default: Any  # REQUIRED if there is none


# --- find


def find() -> list[Found]:
    """Every method that an installed distribution declares, sorted by slot and id."""
    found: list[Found] = []
    seen: set[str] = set()
    for distribution in importlib.metadata.distributions():
        try:
            entries = [entry for entry in distribution.entry_points if entry.group in GROUPS]
            if not entries:
                continue
            name, version = distribution.metadata["Name"] or "unnamed", distribution.metadata["Version"] or "?"
        except Exception:  # one mangled metadata folder is not the others' fault
            continue
        # The same project twice on sys.path (egg-info of a checkout, dist-info of its install): the first counts.
        normalised = re.sub(r"[-_.]+", "-", name).lower()
        if normalised not in seen:
            seen.add(normalised)
            found += [Found(GROUPS[entry.group], entry.name, entry.value, name, version) for entry in entries]
    return sorted(set(found), key=lambda f: (SLOTS.index(f.slot), f.id, f.source))


# --- load


def load(found: Found) -> Loaded:
    """Import one plugin. Whatever it does while it is imported, short of Ctrl-C, ends up in the answer."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", found.id) or keyword.iskeyword(found.id):
        return Loaded(found, None, f"{found.id!r} cannot be an id: use letters, digits and underscores")
    if problem := api.mismatch(_sources(found)):
        return Loaded(found, None, problem)
    try:
        factory = _import(found.value)
        problem = _problem(factory)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # even sys.exit() while importing breaks this plugin alone
        return Loaded(found, None, _sentence(error), traceback.format_exc())
    return Loaded(found, None, f"{found.value} {problem}") if problem else Loaded(found, factory)


def _import(value: str) -> Any:
    module, _, attributes = value.partition("[")[0].strip().partition(":")
    target: Any = importlib.import_module(module.strip())
    for attribute in filter(None, attributes.strip().split(".")):
        target = getattr(target, attribute)
    return target


def _problem(factory: Any) -> str | None:
    """What keeps `factory` from being called as factory(layer, setting=value, …), if anything does."""
    if not callable(factory):
        return f"is not callable: it is {type(factory).__name__}"
    try:
        parameters = list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError):
        return "has no signature that Python can tell"
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return f"takes {parameter}, which would swallow misspelt settings: name each setting"
    if not parameters or parameters[0].kind == inspect.Parameter.KEYWORD_ONLY:
        return "takes no positional parameter for the layer: write (layer, …settings)"
    for parameter in parameters[1:]:
        if parameter.kind == parameter.POSITIONAL_ONLY:
            return f"takes the setting {parameter.name} by position only: it could never be set by name"
    return None


def _sentence(error: BaseException) -> str:
    return traceback.format_exception_only(type(error), error)[-1].strip()


# --- classify


class Registry:
    """The methods by slot and id. Plugins are imported one by one, when they are asked for."""

    def __init__(self, found: Iterable[Found]) -> None:
        self.found = tuple(found)

    def ids(self, slot: str | None = None) -> list[str]:
        return sorted({f.id for f in self.found if slot in (None, f.slot)})

    def names(self) -> list[str]:
        return [f.name for f in self.found]

    def claims(self, id: str) -> tuple[Found, ...]:
        """All the entry points that carry this id, in whatever slot."""
        return tuple(f for f in self.found if f.id == id)

    def conflict(self, id: str) -> str | None:
        """The sentence that names everyone who claims this id, if there is more than one."""
        claims = self.claims(id)
        if len(claims) < 2:
            return None
        who = " and ".join(f"{f.name} of {f.source} ({f.value})" for f in claims)
        return f"the id {id} is claimed more than once: {who}; an id must be unique, uninstall all but one"

    def named(self, name: str, slot: str | None = None) -> Loaded:
        """The method that a user names: ID, in whatever slot it is, or SLOT.ID."""
        qualifier, _, id = name.rpartition(".")
        claims = self.claims(id)
        if not slot and not qualifier and not claims:
            raise PluginError(f"there is no method {id}{nearest(id, self.ids())}; zoo-plugins lists those installed")
        return self.get(slot or qualifier or claims[0].slot, id)

    def usable(self) -> tuple[list[Loaded], list[str]]:
        """Every method, and a line for each that cannot be used."""
        loaded, broken = [], []
        for found in self.found:
            try:
                loaded.append(self.get(found.slot, found.id))
            except PluginError as error:
                broken.append(str(error).splitlines()[0])
        return loaded, list(dict.fromkeys(broken))

    def get(self, slot: str, id: str) -> Loaded:
        """The method, imported; a PluginError if it is unknown, claimed twice or broken."""
        claims = self.claims(id)
        if not any(f.slot == slot for f in claims):
            if claims:
                other = claims[0]
                raise UnknownMethod(f"{id} is a {other.slot} method, not a {slot} method: write {other.name}")
            near = nearest(id, self.ids(slot)) or nearest(f"{slot}.{id}", self.names())
            raise UnknownMethod(f"there is no {slot} method {id}{near}; zoo-plugins lists those that are installed")
        if conflict := self.conflict(id):
            raise PluginError(conflict)
        loaded = load(claims[0])
        if loaded.error:
            detail = f"\n{loaded.traceback.rstrip()}" if loaded.traceback else ""
            raise PluginError(f"{claims[0].name} of {claims[0].source} is broken: {loaded.error}{detail}")
        return loaded


def registry() -> Registry:
    return Registry(find())


# --- what a plugin says about itself


def settings(factory: Callable[..., Any]) -> list[Setting]:
    """What can be set on a method: its parameters after the layer."""
    parameters = list(inspect.signature(factory).parameters.values())[1:]
    return [Setting(p.name, resolve(p.annotation, factory), p.default) for p in parameters]


def resolve(annotation: Any, owner: Any) -> Any:
    """The type that an annotation written as a string means in the module of `owner`; the string itself if unknown."""
    if not isinstance(annotation, str):
        return annotation
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, globalns=dict(vars(module)) if module else {})["it"]
    except Exception:  # a name that exists for type checkers only
        return annotation


def packages(found: Found) -> list[Path]:
    """The folders of the packages around the entry point's module, innermost first. Imports nothing."""
    top, *rest = found.value.partition("[")[0].partition(":")[0].strip().split(".")
    spec = _spec(top)
    folders: list[Path] = []
    for location in (spec.submodule_search_locations or ()) if spec else ():
        nested = [Path(location, *rest[:depth]) for depth in range(len(rest), -1, -1)]
        folders += [folder for folder in nested if folder.is_dir()]
    return folders


def origin(found: Found) -> Path | None:
    """The file of the entry point's module. Imports nothing."""
    top, *rest = found.value.partition("[")[0].partition(":")[0].strip().split(".")
    spec = _spec(top)
    if spec and not rest and spec.origin:
        return Path(spec.origin)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        base = Path(location, *rest)
        for file in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
            if file.is_file():
                return file
    return None


def _sources(found: Found) -> list[Path]:
    """The file of the entry point's module and of the packages around it."""
    return [*filter(None, [origin(found)]), *(folder / "__init__.py" for folder in packages(found))]


def _spec(top: str) -> importlib.machinery.ModuleSpec | None:
    # Only for a top-level name: for a submodule, find_spec would import its parents.
    try:
        return importlib.util.find_spec(top)
    except Exception:  # an odd name, or a module without a spec
        return None


def card(found: Found) -> Path | None:
    """The method's card, <package>/cards/ID.md."""
    return _first(folder / "cards" / f"{found.id}.md" for folder in packages(found))


def gin_file(found: Found) -> Path | None:
    """The method's Gin file, <package>/gin/ID.gin, or among the project's own."""
    return _first(folder / f"{found.id}.gin" for folder in [*(p / "gin" for p in packages(found)), *project_gin()])


def _first(files: Iterable[Path]) -> Path | None:
    return next((file for file in files if file.is_file()), None)


def project_gin(root: Path | None = None) -> list[Path]:
    """The folder of the project's own Gin files: gin/ in a checkout, the package folder zoo_gin in a wheel; or none."""
    root = root or Path(__file__).resolve().parent.parent
    # Beside an installed wheel, gin/ is the code of gin-config: only the folder with our defaults is ours.
    return [root / name for name in ("gin", "zoo_gin") if (root / name / "defaults.gin").is_file()][:1]
