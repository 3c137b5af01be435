"""Which method an id means, and what is said where it means none, or two."""

from __future__ import annotations

import pytest
from helpers.fake_distributions import FINE, Site, entry

from zoo.errors import PluginError
from zoo.plugins import registry as registry_module
from zoo.plugins.registry import Registry


def test_a_broken_plugin_hurts_nobody_until_it_is_named(site: Site) -> None:
    site.install("a-method", {"residual": {"fine": "fine:build"}}, {"fine.py": FINE})
    site.install("bad-method", {"residual": {"bad": "bad:build"}}, {"bad.py": "import no_such_thing"}, version="0.3")
    registry = registry_module.installed()
    assert registry.get("residual", "fine").factory
    with pytest.raises(PluginError) as caught:
        registry.get("residual", "bad")
    message = str(caught.value)
    assert "residual.bad of bad-method 0.3 is broken: ModuleNotFoundError" in message
    assert "Traceback" in message and "bad.py" in message


def test_two_distributions_with_one_id_are_both_named(site: Site) -> None:
    site.install("a-method", {"residual": {"same": "a:build", "own": "fine:build"}}, {"fine.py": FINE})
    site.install("b-method", {"residual": {"same": "b:build"}}, version="2.0")
    registry = registry_module.installed()
    assert registry.get("residual", "own").factory
    with pytest.raises(PluginError, match=r"residual.same of a-method 1.0 \(a:build\) and .* b-method 2.0 \(b:build\)"):
        registry.get("residual", "same")


def test_one_id_in_two_slots_is_told(site: Site) -> None:
    site.install("a-method", {"residual": {"same": "a:build"}})
    site.install("b-method", {"score_mixing": {"same": "b:build"}})
    with pytest.raises(PluginError, match="residual.same of a-method 1.0 .* score_mixing.same of b-method 1.0"):
        registry_module.installed().get("score_mixing", "same")


def test_one_distribution_may_have_one_id_in_several_slots(site: Site) -> None:
    entries = {"residual": {"both": "fine:build"}, "head_mixing": {"both": "fine:other"}}
    site.install("a-method", entries, {"fine.py": FINE + "other = build\n"})
    registry = registry_module.installed()
    assert registry.conflict("both") is None
    assert [part.entry.name for part in registry.parts("both")] == ["residual.both", "head_mixing.both"]
    assert [part.entry.value for part in registry.parts("head_mixing.both")] == ["fine:other"]
    assert registry.get("head_mixing", "both").entry.slot == "head_mixing"
    with pytest.raises(PluginError, match="both is a residual method, not a score_mixing method: write residual.both"):
        registry.get("score_mixing", "both")


def test_an_unknown_id_suggests_the_nearest() -> None:
    registry = Registry([entry(id="gated"), entry(id="gates"), entry(slot="score_mixing", id="other")])
    with pytest.raises(PluginError, match=r"no residual method gatd \(nearest: gated, gates\)"):
        registry.get("residual", "gatd")
    with pytest.raises(PluginError, match=r"nearest: score_mixing.other"):
        registry.get("score_mixng", "othr")
    with pytest.raises(
        PluginError, match="other is a score_mixing method, not a residual method: write score_mixing.other"
    ):
        registry.get("residual", "other")
