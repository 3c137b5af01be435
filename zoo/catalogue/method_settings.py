"""The settings of a method, each with its type, default and meaning; the meaning is in the method's card."""

from __future__ import annotations

from zoo.catalogue.cards import read_card
from zoo.catalogue.core_settings import Entry, Group
from zoo.config.values import describe
from zoo.plugins.registry import installed
from zoo.plugins.resources import card_file
from zoo.plugins.settings import settings_of


def of_method(name: str) -> Group:
    """The settings of a method, named as ID or SLOT.ID. Imports it, and with it torch."""
    from zoo.catalogue.describe import default

    loaded = installed().named(name)
    assert loaded.factory is not None
    path = card_file(loaded.entry)
    card = read_card(path) if path else None
    meanings = card.settings if card else {}
    entries = (
        Entry(
            key=f"{loaded.entry.name}.{setting.name}",
            kind=describe(setting.annotation),
            limits="",
            default=default(setting),
            meaning=meanings.get(setting.name, ""),
        )
        for setting in settings_of(loaded.factory)
    )
    return Group(loaded.entry.name, card.phrase if card else "", tuple(entries))
