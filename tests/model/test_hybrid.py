"""Different methods in different layers: built, counted, matched, checked, decoded, trained."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

from zoo.bench.selection import select_arms
from zoo.config.load import load_config
from zoo.counting.flops import count_parameters, training_cost
from zoo.errors import ZooError
from zoo.extension import called, is_plain, name_of
from zoo.model.build import model
from zoo.model.hybrid import Hybrid
from zoo.plugins.registry import installed
from zoo.testing import check

BLOCKS = """
model.temporal_mixing = (@temporal_mixing.wr_7_2, @temporal_mixing.wr_8_2, None)
temporal_mixing.wr_8_2.n = 3
model.depth = 4
"""


def method(slot: str, id: str, **settings: object) -> functools.partial:
    factory = installed().get(slot, id).factory
    assert factory is not None
    return called(id, factory, **settings)  # type: ignore[return-value]


def loaded(tmp_path: Path, text: str):  # type: ignore[no-untyped-def]
    (tmp_path / "mine.gin").write_text(text)
    return load_config(["sizes/tiny", tmp_path / "mine.gin"])


def test_the_layers_take_the_methods_in_turn(tmp_path: Path) -> None:
    config = loaded(tmp_path, BLOCKS)
    assert config.name == "hybrid(wr_7_2, wr_8_2, plain)"
    assert [plugin.id for plugin in config.plugins] == ["wr_7_2", "wr_8_2"]
    built = config.build("model", vocab_size=32, max_length=8)
    parts = built.parts("temporal_mixing")
    assert [None if is_plain(part) else name_of(part) for part in parts] == ["wr_7_2", "wr_8_2", None, "wr_7_2"]
    again = load_config([_text(tmp_path, config.text)])
    assert again.text == config.text and again.name == config.name


def _text(tmp_path: Path, text: str) -> Path:
    (tmp_path / "again.gin").write_text(text)
    return tmp_path / "again.gin"


def test_each_layer_is_what_it_is_in_a_model_of_that_method_alone() -> None:
    """Weights depend on a name and a seed, so that the layers of a hybrid are those of the models of its parts."""
    wr_1, wr_8_2 = method("temporal_mixing", "wr_1"), method("temporal_mixing", "wr_8_2", n=3)
    build = functools.partial(model, 19, 8, depth=2, aspect=8, seed=3)
    hybrid, one, other = (build(temporal_mixing=each) for each in ((wr_1, wr_8_2), wr_1, wr_8_2))
    tokens = torch.arange(8)[None]
    lower = next(value for name, value in one.inspect(tokens) if name.startswith("layer 1 output"))
    mixed = next(value for name, value in hybrid.inspect(tokens) if name.startswith("layer 1 output"))
    torch.testing.assert_close(mixed, lower)
    for name, parameter in hybrid.layers[1].named_parameters():
        torch.testing.assert_close(parameter, dict(other.layers[1].named_parameters())[name])


def test_it_is_counted_layer_by_layer_and_matched(tmp_path: Path) -> None:
    wr_7_2 = method("temporal_mixing", "wr_7_2")
    build = functools.partial(model, 19, 8, depth=2, aspect=8)
    plain, every, half = (functools.partial(build, temporal_mixing=each) for each in (None, wr_7_2, (wr_7_2, None)))
    assert 2 * count_parameters(half) == count_parameters(plain) + count_parameters(every)
    costs = [training_cost(each, 8).flops for each in (plain, every, half)]
    assert costs[2] == pytest.approx((costs[0] + costs[1]) / 2)
    file = _text(tmp_path, "model.temporal_mixing = (@temporal_mixing.wr_8_2, None)")
    arms, _ = select_arms(None, ["sizes/tiny"], ["suite.hosts=('sequential',)"], (str(file), f"{file}(n=3)"))
    names = [arm.name for arm in arms if arm.match == "method"]
    assert names == ["hybrid(wr_8_2, plain)", "hybrid(wr_8_2, plain)(n=3)"]
    assert {"parameters", "flops"} <= {arm.match for arm in arms} | {"flops"}
    assert set(arms[-1].code) == {"temporal_mixing.wr_8_2"}


@pytest.mark.parametrize(
    ("slot", "ids"), [("temporal_mixing", ("wr_8_2", None)), ("residual", ("v1_m3", "skip_scalar"))]
)
def test_the_kit_takes_a_hybrid(slot: str, ids: tuple[str | None, ...]) -> None:
    hybrid = Hybrid(slot, [None if id is None else method(slot, id) for id in ids])
    report = check(hybrid, slot, only=["builds", "causal", "rows", "cached", "gradients"])
    assert report.ok, report


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model.residual = (None, None)", r"names no method: write \(@residual\.ID, None\), or None"),
        ("model.residual = ()", r"names no method"),
        (
            "model.residual = (@temporal_mixing.wr_1, None)",
            r"wr_1 is a temporal_mixing method and cannot fill model\.residual",
        ),
        ("model.residual = ('v1_m3', None)", r"must be a method \(@residual\.ID\) or None, not 'v1_m3'"),
        ("model.residual = (@residual.v1_m3, @residual.v1_m33)", r"v1_m33"),
        (
            "model.temporal_mixing = (None, @temporal_mixing.smear)",
            r"model.temporal_mixing gives smear layer 2 alone, where it does nothing: give it another place",
        ),
        (
            "model.temporal_mixing = (@temporal_mixing.mamba2, @temporal_mixing.smear)\nmodel.depth = 4",
            r"gives smear layers 2 and 4 alone, where it does nothing",
        ),
        (
            "model.temporal_mixing = (@temporal_mixing.wr_8_2, None)\ntemporal_mixing.wr_8_2.site = 'output'",
            r"gives wr_8_2 layer 1 alone, where it does nothing",
        ),
        (
            "model.temporal_mixing = (@temporal_mixing.wr_8_2, None)\ntemporal_mixing.wr_8_2.site = 'attention'\n"
            "model.score_mixing = (None, @score_mixing.v4_m1)",
            r"gives v4_m1 no layer: give it",
        ),
        (
            "model.temporal_mixing = (@temporal_mixing.wr_1, None, None)",
            r"a pattern of 3 methods for 2 layers.* set model.depth to 3",
        ),
        (
            "model.temporal_mixing = (None, @temporal_mixing.wr_8_2)\ntemporal_mixing.wr_8_2.site = 'attention'\n"
            "model.residual = (@residual.v3_m1, None)",
            r"v3_m1 runs earlier layers again .* wr_8_2 stands in place of attention in some layers",
        ),
    ],
)
def test_what_makes_no_sense_gets_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ZooError, match=sentence):
        loaded(tmp_path, text).build("model", vocab_size=32, max_length=8)


def test_a_method_in_attention_takes_turns_among_the_layers_that_attend(tmp_path: Path) -> None:
    text = "model.temporal_mixing = (@temporal_mixing.wr_8_2, None)\ntemporal_mixing.wr_8_2.site = 'attention'\n"
    text += "model.score_mixing = (@score_mixing.v4_m1, None)\nmodel.depth = 4"
    built = loaded(tmp_path, text).build("model", vocab_size=32, max_length=8)
    parts = built.parts("score_mixing")
    assert [None if is_plain(part) else name_of(part) for part in parts] == [None, "v4_m1", None, None]
    assert built(torch.zeros(1, 4, dtype=torch.int64)).isfinite().all()
