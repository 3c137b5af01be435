"""The settings of a method are the parameters of its factory after the layer."""

from __future__ import annotations

from helpers.fake_distributions import Site, entry

from zoo.plugins import loader, settings
from zoo.plugins.settings import REQUIRED, Setting


def test_settings_of_functions_classes_and_written_annotations(site: Site) -> None:
    code = (
        "from __future__ import annotations\n"
        "from typing import Literal, TYPE_CHECKING\n"
        "if TYPE_CHECKING: from x import Hidden\n"
        "class Build:\n"
        "    def __init__(self, layer, first: Literal['a', 'b'] = 'a', *, gain: float | None = None, n: int): pass\n"
        "def build(layer: Hidden, hidden: Hidden = None, plain=3): pass\n"
    )
    site.install("a-method", {}, {"said.py": code})
    import typing

    build = loader.load_method(entry("said:Build")).factory
    assert build and settings.settings_of(build) == [
        Setting("first", typing.Literal["a", "b"], "a"),
        Setting("gain", typing.Optional[float], None),  # noqa: UP045 - how get_type_hints says it
        Setting("n", int, REQUIRED),
    ]
    build = loader.load_method(entry("said:build")).factory
    assert build and [(s.name, s.annotation, s.default) for s in settings.settings_of(build)] == [
        ("hidden", "Hidden", None),
        ("plain", REQUIRED, 3),
    ]
