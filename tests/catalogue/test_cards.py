"""Every method has a card and a Gin file, both say what is so, and the index is up to date."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers.small_sites import every_other

from zoo.catalogue.cards import Card, card_of, parse_card, read_card
from zoo.catalogue.describe import declared, describe
from zoo.catalogue.sizes import size
from zoo.config.gin_files import GinReader, Reference
from zoo.counting.flops import forward_flops, skeleton
from zoo.errors import PluginError
from zoo.extension import Layer, Residual
from zoo.model.build import model
from zoo.plugins.finder import MethodEntry
from zoo.plugins.loader import LoadedMethod
from zoo.plugins.registry import installed
from zoo.plugins.resources import card_file, gin_file
from zoo.plugins.settings import settings_of

torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parents[2]
REGISTRY = installed()
OURS = {found.id: found for found in REGISTRY.entries if found.value.startswith("zoo_plugins.")}
REQUIRED = {"What it does", "Source", "Claimed", "Cost", "Measured"}
ORDER = ("What it does", "Source", "Settings", "Hosts", "What is wrong with it", "Claimed", "Cost", "Measured")


def card(id: str) -> Card:
    path = card_file(OURS[id])
    assert path is not None, f"{id} has no card"
    return read_card(path)


def loaded(id: str) -> LoadedMethod:
    return REGISTRY.get(OURS[id].slot, id)


def index() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_method_index", ROOT / "tools" / "write_method_index.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# --- cards


def test_every_card_belongs_to_a_method() -> None:
    assert {path.stem for path in (ROOT / "plugins" / "cards").glob("*.md")} == OURS.keys()


@pytest.mark.parametrize("id", OURS)
def test_a_card_has_its_parts(id: str) -> None:
    read = card(id)
    assert read.id == id
    assert read.formula
    assert list(read.sections) == [name for name in ORDER if name in read.sections]
    assert read.sections.keys() >= REQUIRED
    assert all(text.strip() for text in read.sections.values())
    measured = read.sections["Measured"]  # at one size, on a ladder, or not at all
    compared = "against the plain block" in measured or (measured.startswith("Ladder") and "- **" in measured)
    assert compared or measured == "Nothing yet."
    assert [line.split(":")[0] for line in read.sections["Cost"].splitlines() if line.startswith("- ")][:4] == [
        "- Parameters",
        "- Arithmetic",
        "- Memory",
        "- Decoding",
    ]
    memory, _, _ = read.sections["Cost"].partition("- Memory:")[2].partition("\n- ")
    assert "T×T" in memory, "it must say whether a T×T matrix is kept"


@pytest.mark.parametrize("id", OURS)
def test_a_card_explains_the_settings_that_there_are(id: str) -> None:
    factory = loaded(id).factory
    assert factory is not None
    assert list(card(id).settings) == [setting.name for setting in settings_of(factory)]


def test_a_card_of_a_method_as_logged_says_what_is_wrong_and_what_to_use() -> None:
    for id in OURS:
        wrong = card(id).sections.get("What is wrong with it", "")
        assert bool(wrong) == id.endswith("_log"), id
        if wrong:
            (instead,) = re.findall(r"Use\s+(\w+)", wrong)
            assert instead in OURS and not instead.endswith("_log")


def test_cards_name_only_methods_that_exist() -> None:
    for id in OURS:
        text = "\n".join(card(id).sections.values())
        assert set(re.findall(r"\b(?:v[1-4]_[mv]\w+|wr_[1-9]\w*|skip_scalar\w*)\b", text)) <= OURS.keys(), id


def test_a_leak_and_chance_are_declared_and_told() -> None:
    told = {id: declared(skeleton(size("tiny").build(loaded(id)))) for id in OURS}
    assert [id for id in OURS if not told[id].causal] == ["wr_9_log"]
    assert "--allow-leak" in card("wr_9_log").sections["What is wrong with it"]
    assert {id for id in OURS if not told[id].deterministic} == {"wr_8_log", "wr_8_1_log"}
    assert [id for id in OURS if "refused" in card(id).sections["Cost"]] == [id for id in OURS if not told[id].decodes]
    for id in OURS:
        probes = set(re.findall(r"`(\w+)`", card(id).sections["What it does"])) & set(told[id].probes)
        assert probes or not re.search(r"[Pp]robe", card(id).sections["What it does"]), id


@pytest.mark.parametrize("parallel", [False, True])
def test_cards_tell_where_attention_has_no_effect(parallel: bool) -> None:
    without = set()
    tokens = torch.tensor([[1, 2, 3, 4]])
    residual = [id for id, found in OURS.items() if found.slot == "residual"]  # no other drops what attention writes
    for id in residual:
        built = model(8, 4, depth=2, aspect=4, parallel=parallel, residual=loaded(id).factory)
        built.loss(tokens, tokens).backward()
        if any(block.attention.out.grad is None for block in built.layers):
            without.add(id)
    told = {id for id in OURS if "has no effect" in card(id).first_sentence("Hosts")}
    assert without == (told if parallel else set())


def test_a_card_without_a_title_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_text("What it does\n", encoding="utf-8")
    with pytest.raises(PluginError, match="x.md does not begin with"):
        read_card(tmp_path / "x.md")


def test_a_card_is_parsed_whatever_is_missing() -> None:
    whole = parse_card(
        "# m — a method\n\n## What it does\n    y = x\n\nMore.\n\n## Settings\n- `n`: how\n  many.\n- `s`: where.\n\n"
        "## Claimed\nIt\nhelps.\n\nChecked as: better than baseline; gate ends\nbelow 0.5.\n\n## Measured\nMuch.\n"
    )
    assert (whole.id, whole.phrase, whole.formula) == ("m", "a method", "y = x")
    assert whole.settings == {"n": "how many.", "s": "where."}
    assert whole.claim == "It helps." and whole.checks == ("better than baseline", "gate ends below 0.5")
    assert list(whole.sections) == ["What it does", "Settings", "Claimed", "Measured"]
    untitled = parse_card("A method\n## Claimed\nNothing yet.\n")
    assert untitled == ("", "", {"Claimed": "Nothing yet."}) and not untitled.claim and not untitled.checks
    assert parse_card("") == ("", "", {})


def test_an_installed_method_has_a_card() -> None:
    assert card_of(OURS["v1_m3"]) == card("v1_m3")
    assert card_of(OURS["v1_m3"]._replace(id="v1_none")) is None


# --- Gin files


@pytest.mark.parametrize("id", OURS)
def test_a_gin_file_binds_its_slot_and_its_settings_alone(id: str) -> None:
    path, bound = gin_file(OURS[id]), {}
    assert path is not None
    for part in installed().parts(id):  # one, or one for each slot of a method that has several
        assert part.factory is not None
        bound[f"model.{part.entry.slot}"] = Reference(part.entry.name)
        bound |= {f"{part.entry.name}.{s.name}": s.default for s in settings_of(part.factory)}
    assert {s.key: s.value for s in GinReader([]).read_file(path, "file")} == bound


# --- what is computed


def test_the_index_is_up_to_date() -> None:
    made = index()
    assert made.INDEX.read_text(encoding="utf-8") == made.render(), "run: tools/run python tools/write_method_index.py"


@pytest.mark.parametrize("id", ["v3_m3_2", "v4_m1d", "wr_9"])
def test_the_index_counts_few_layers_and_knows_them_all(id: str) -> None:
    small = size("small")
    build = small.build(loaded(id))
    counted = sum(forward_flops(build, small.length))
    assert index()._forward_flops(build, skeleton(build), small.length) == pytest.approx(counted)


def test_the_index_counts_all_layers_of_a_hybrid() -> None:
    build = functools.partial(model, 64, 16, depth=5, width=16, head_dim=8, temporal_mixing=every_other)
    counted = sum(forward_flops(build, 16))
    assert index()._forward_flops(build, skeleton(build), 16) == counted


def test_a_size_is_read_from_its_file() -> None:
    tiny = size("tiny")
    assert (tiny.vocab_size, tiny.length, tiny.model) == (512, 32, {"depth": 2, "aspect": 16})


def test_a_method_is_described_with_what_it_costs() -> None:
    lines = describe(loaded("wr_8_2"), "tiny").splitlines()
    assert lines[:4] == [
        "Settings",
        "  n       int; default 2",
        "  random  bool; default False",
        "  site    one of 'ffn', 'attention_input', 'attention', 'output'; default 'ffn'",
    ]
    assert lines[5].startswith("At size tiny, against ")
    assert re.search(r"^  parameters +\+2,116 \(\+\d", "\n".join(lines), re.MULTILINE)  # 2 (32² + 32 + 2)
    assert lines[-1].split() == ["probes", "gate_at_zero,", "kernel"]


def test_a_method_that_does_not_fit_the_size_is_described_all_the_same() -> None:
    class Wide(Residual):
        def __init__(self, layer: Layer, factor: int = 2) -> None:
            raise ValueError(f"needs a width of {factor * 10_000}")

    strange = LoadedMethod(
        MethodEntry("residual", "wide", "elsewhere:Wide", "elsewhere", "1.0"), functools.partial(Wide)
    )
    text = describe(strange, "tiny")
    assert "factor" in text
    assert text.endswith("What it costs at size tiny cannot be computed: ValueError: needs a width of 20000")
