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

from zoo import cards, match, plugins
from zoo.errors import PluginError
from zoo.extension import Layer, Residual
from zoo.gin_files import Reader, Reference
from zoo.model import model
from zoo.plugins import Found, Loaded

torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parent.parent
REGISTRY = plugins.registry()
OURS = {found.id: found for found in REGISTRY.found if found.value.startswith("zoo_plugins.")}
ALL = (*cards.SECTIONS[:2], *cards.OPTIONAL, *cards.SECTIONS[2:])


def card(id: str) -> cards.Card:
    path = plugins.card(OURS[id])
    assert path is not None, f"{id} has no card"
    return cards.read(path)


def loaded(id: str) -> Loaded:
    return REGISTRY.get(OURS[id].slot, id)


def index() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_index", ROOT / "tools" / "make_index.py")
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
    assert list(read.sections) == [name for name in ALL if name in read.sections]
    assert set(cards.SECTIONS) <= read.sections.keys()
    assert all(text.strip() for text in read.sections.values())
    assert "against the plain block" in read.sections["Measured"]
    assert [line.split(":")[0] for line in read.sections["Cost"].splitlines() if line.startswith("- ")][:4] == [
        "- Parameters",
        "- Arithmetic",
        "- Memory",
        "- Decoding",
    ]


@pytest.mark.parametrize("id", OURS)
def test_a_card_explains_the_settings_that_there_are(id: str) -> None:
    explained = re.findall(r"^- `(\w+)`:", card(id).sections.get("Settings", ""), re.MULTILINE)
    factory = loaded(id).factory
    assert factory is not None
    assert explained == [setting.name for setting in plugins.settings(factory)]


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
    told = {id: cards.declared(match.skeleton(cards.size("tiny").build(loaded(id)))) for id in OURS}
    assert [id for id in OURS if not told[id].causal] == ["wr_9_log"]
    assert "--allow-leak" in card("wr_9_log").sections["What is wrong with it"]
    assert [id for id in OURS if not told[id].deterministic] == ["wr_8_log"]
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
        cards.read(tmp_path / "x.md")


# --- Gin files


@pytest.mark.parametrize("id", OURS)
def test_a_gin_file_binds_its_slot_and_its_settings_alone(id: str) -> None:
    found, factory = OURS[id], loaded(id).factory
    path = plugins.gin_file(found)
    assert path is not None and factory is not None
    statements = {s.key: s.value for s in Reader([]).read_file(path, "file")}
    assert statements.pop(f"model.{found.slot}") == Reference(found.name)
    assert statements == {f"{found.name}.{s.name}": s.default for s in plugins.settings(factory)}


# --- what is computed


def test_the_index_is_up_to_date() -> None:
    made = index()
    assert made.INDEX.read_text(encoding="utf-8") == made.render(), "run: tools/run python tools/make_index.py"


@pytest.mark.parametrize("id", ["v3_m3_2", "v4_m1d", "wr_9"])
def test_the_index_counts_few_layers_and_knows_them_all(id: str) -> None:
    small = cards.size("small")
    build = small.build(loaded(id))
    counted = sum(match.forward_flops(build, small.length))
    assert index()._forward_flops(build, match.skeleton(build), small.length) == pytest.approx(counted)


def test_a_size_is_read_from_its_file() -> None:
    tiny = cards.size("tiny")
    assert (tiny.vocab_size, tiny.length, tiny.model) == (512, 32, {"depth": 2, "aspect": 16})


def test_a_method_is_described_with_what_it_costs() -> None:
    lines = cards.describe(loaded("wr_8_2"), "tiny").splitlines()
    assert lines[:4] == [
        "Settings",
        "  n       int; default 4",
        "  random  bool; default False",
        "  site    one of 'ffn', 'attention_input', 'attention'; default 'ffn'",
    ]
    assert lines[5].startswith("At size tiny, against ")
    assert re.search(r"^  parameters +\+2,120 \(\+\d", "\n".join(lines), re.MULTILINE)  # 2 (32² + 32 + 4)
    assert lines[-1].split() == ["probes", "gate_bias,", "kernel"]


def test_a_method_that_does_not_fit_the_size_is_described_all_the_same() -> None:
    class Wide(Residual):
        def __init__(self, layer: Layer, factor: int = 2) -> None:
            raise ValueError(f"needs a width of {factor * 10_000}")

    strange = Loaded(Found("residual", "wide", "elsewhere:Wide", "elsewhere", "1.0"), functools.partial(Wide))
    text = cards.describe(strange, "tiny")
    assert "factor" in text
    assert text.endswith("What it costs at size tiny cannot be computed: ValueError: needs a width of 20000")
