"""Methods are found in the metadata of distributions; nothing is imported."""

from __future__ import annotations

import sys

from helpers.fake_distributions import FINE, Site

from zoo.plugins import finder, registry as registry_module
from zoo.plugins.finder import MethodEntry


def test_an_entry_point_is_found_without_importing_it(site: Site) -> None:
    site.install("a-method", {"residual": {"fine": "fine:build"}}, {"fine.py": "raise SystemError"}, version="1.2")
    assert finder.find_methods() == [MethodEntry("residual", "fine", "fine:build", "a-method", "1.2")]
    assert "fine" not in sys.modules


def test_methods_are_sorted_by_slot_and_id(site: Site) -> None:
    site.install("one", {"temporal_mixing": {"a": "m:a"}, "residual": {"c": "m:c", "b": "m:b"}})
    site.install("two", {"score_mixing": {"d": "n:d"}, "elsewhere": {"e": "n:e"}})
    assert [f.name for f in finder.find_methods()] == [
        "residual.b",
        "residual.c",
        "score_mixing.d",
        "temporal_mixing.a",
    ]


def test_one_project_seen_twice_is_one(site: Site) -> None:
    entries = {"residual": {"fine": "fine:build"}}
    site.install("A.Method", entries, {"fine.py": FINE})
    site.install("a-method", entries, kind="egg-info")
    assert len(finder.find_methods()) == 1
    assert registry_module.installed().get("residual", "fine").factory


def test_mangled_metadata_hides_only_itself(site: Site) -> None:
    site.install("a-method", {"residual": {"fine": "fine:build"}})
    site.install("mangled", {})
    (site.folder / "mangled-1.0.dist-info/entry_points.txt").write_text("[zoo.residual]\nthis is no entry\n")
    assert [f.id for f in finder.find_methods()] == ["fine"]
