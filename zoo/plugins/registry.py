"""The methods by slot and id. Naming one that is broken, or whose id is claimed twice, raises."""

from __future__ import annotations

from collections.abc import Iterable

from zoo.errors import PluginError, nearest
from zoo.plugins.finder import MethodEntry, find_methods
from zoo.plugins.loader import LoadedMethod, load_method


class UnknownMethod(PluginError):
    """A name that no plugin offers."""


class Registry:
    """The methods by slot and id. Plugins are imported one by one, when they are asked for."""

    def __init__(self, entries: Iterable[MethodEntry]) -> None:
        self.entries = tuple(entries)

    def ids(self, slot: str | None = None) -> list[str]:
        return sorted({entry.id for entry in self.entries if slot in (None, entry.slot)})

    def names(self) -> list[str]:
        return [entry.name for entry in self.entries]

    def claims(self, id: str) -> tuple[MethodEntry, ...]:
        """All the entry points that carry this id, in whatever slot."""
        return tuple(entry for entry in self.entries if entry.id == id)

    def conflict(self, id: str) -> str | None:
        """The sentence that names everyone who claims this id, if there is more than one.

        A method that changes several things has one id in several slots: the entry points of one distribution are one claim.
        """
        claims = self.claims(id)
        owners, slots = {entry.source for entry in claims}, {entry.slot for entry in claims}
        if len(owners) < 2 and len(slots) == len(claims):
            return None
        who = " and ".join(f"{entry.name} of {entry.source} ({entry.value})" for entry in claims)
        return f"the id {id} is claimed more than once: {who}; an id must be unique, uninstall all but one"

    def named(self, name: str, slot: str | None = None) -> LoadedMethod:
        """The method that a user names: ID, in whatever slot it is, or SLOT.ID."""
        qualifier, _, id = name.rpartition(".")
        claims = self.claims(id)
        if not slot and not qualifier and not claims:
            raise PluginError(f"there is no method {id}{nearest(id, self.ids())}; zoo-plugins lists those installed")
        return self.get(slot or qualifier or claims[0].slot, id)

    def parts(self, name: str) -> list[LoadedMethod]:
        """The method that a user names, in each of its slots: ID; with SLOT.ID, in that one."""
        first = self.named(name)
        if "." in name:
            return [first]
        return [self.get(entry.slot, entry.id) for entry in self.claims(first.entry.id)]

    def usable(self) -> tuple[list[LoadedMethod], list[str]]:
        """Every method, and a line for each that cannot be used."""
        loaded, broken = [], []
        for entry in self.entries:
            try:
                loaded.append(self.get(entry.slot, entry.id))
            except PluginError as error:
                broken.append(str(error).splitlines()[0])
        return loaded, list(dict.fromkeys(broken))

    def get(self, slot: str, id: str) -> LoadedMethod:
        """The method, imported; a PluginError if it is unknown, claimed twice or broken."""
        claims = self.claims(id)
        if not any(entry.slot == slot for entry in claims):
            if claims:
                other = claims[0]
                raise UnknownMethod(f"{id} is a {other.slot} method, not a {slot} method: write {other.name}")
            near = nearest(id, self.ids(slot)) or nearest(f"{slot}.{id}", self.names())
            raise UnknownMethod(f"there is no {slot} method {id}{near}; zoo-plugins lists those that are installed")
        if conflict := self.conflict(id):
            raise PluginError(conflict)
        (claim,) = (entry for entry in claims if entry.slot == slot)
        loaded = load_method(claim)
        if loaded.error:
            detail = f"\n{loaded.traceback.rstrip()}" if loaded.traceback else ""
            raise PluginError(f"{claim.name} of {claim.source} is broken: {loaded.error}{detail}")
        return loaded


def installed() -> Registry:
    return Registry(find_methods())
