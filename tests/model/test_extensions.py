"""What is built for which layer, and what is refused together."""

from __future__ import annotations

import re

import pytest
import torch
from helpers import small_methods as small, small_sites as sites
from helpers.random_models import extension_of, factory, random_model, tokens
from torch import Tensor, nn

from zoo.errors import ConfigError
from zoo.extension import (
    ATTENTION,
    AttentionInputs,
    HeadMixing,
    Layer,
    Residual,
    ScoreMixing,
    Site,
    Stream,
    TemporalMixing,
    called,
    preset,
)
from zoo.history import History
from zoo.model.build import model
from zoo.model.language_model import unbuilt
from zoo.model.positions import NoPositions, Rotary
from zoo.state import State
from zoo.testing.decoding import decode


def refusal(**slots: object) -> str:
    with pytest.raises(ConfigError) as caught:
        random_model(depth=3, **slots)(tokens(1, 4))
    return str(caught.value)


# --- layers without attention


def in_place(layer: Layer) -> TemporalMixing:
    return sites.Shift(layer.width, "attention")


def test_where_a_method_stands_in_place_of_attention_none_is_built() -> None:
    plain, built = random_model(depth=2), random_model(depth=2, temporal_mixing=in_place)
    attention = sum(p.numel() for p in plain.layers[0].attention.parameters())
    assert built.num_parameters() == plain.num_parameters() - 2 * attention + 2 * 32
    assert all(block.attention is None for block in built.layers)
    built(tokens(2, 4)).sum().backward()
    assert all(p.grad is not None for p in built.parameters())


def test_only_the_layers_that_attend_have_methods_inside_attention() -> None:
    seen: list[tuple[int, int]] = []

    def scores(layer: Layer) -> ScoreMixing:
        seen.append((layer.index, layer.num_layers))
        return small.Sink(layer)

    built = random_model(depth=5, temporal_mixing=sites.every_other, score_mixing=scores)
    assert seen == [(0, 2), (1, 2)]  # they are counted alone
    kinds = [type(part) for part in built.parts("score_mixing")]
    assert kinds == [ScoreMixing, small.Sink, ScoreMixing, small.Sink, ScoreMixing]


def test_the_weights_of_an_idle_attention_in_an_older_checkpoint_are_known() -> None:
    older = random_model(depth=2, qk_norm=True).state_dict()
    built = random_model(depth=2, qk_norm=True, temporal_mixing=sites.every_other)
    idle = unbuilt(built, older)
    assert idle == [name for name in older if name.startswith("layers.0.attention.")] and len(idle) == 4
    assert unbuilt(random_model(depth=2), older) == []


# --- starts and positions


def test_a_method_scales_the_start_of_named_weights() -> None:
    plain, built = (model(50, 8, depth=2, residual=method) for method in (None, sites.PostNorm))
    for one, other in zip(plain.layers, built.layers, strict=True):
        q, k, v = (one.attention.qkv.chunk(3), other.attention.qkv.chunk(3))[1]
        assert torch.equal(torch.cat([q, k]), one.attention.qkv[: 2 * v.size(0)])
        assert torch.equal(v, one.attention.qkv.chunk(3)[2] * 0.5)
        assert torch.equal(other.attention.out, one.attention.out * 0.25)
        assert torch.equal(other.ffn.gate_up.chunk(2)[1], one.ffn.gate_up.chunk(2)[1] * 2.0)
        assert torch.equal(other.ffn.down, one.ffn.down)
    with pytest.raises(ConfigError, match="odd scales the start of fc1, which a layer does not have; it has q, k, v,"):
        model(50, 8, depth=1, residual=called("odd", preset(Scaled, name="fc1")))


class Scaled(Residual):
    def __init__(self, layer: Layer, name: str) -> None:
        super().__init__()
        self.start_scale = {name: 2.0}


def test_a_layer_knows_how_its_host_starts() -> None:
    layers: list[Layer] = []

    def method(layer: Layer) -> Residual:
        layers.append(layer)
        return Residual()

    model(50, 8, depth=2, width=192, init_std=0.5, residual=method)
    assert layers[0].init_std == 0.5 and layers[0].out_std == 0.25
    model(50, 8, depth=1, width=192, aspect=32, residual=method)
    assert layers[-1].init_std == pytest.approx(0.04)


def test_a_method_goes_without_rotary_positions_where_it_says_so() -> None:
    def some(layer: Layer) -> ScoreMixing:
        return sites.Unturned(layer) if layer.index else ScoreMixing()

    positions = [block.attention.positions for block in random_model(depth=3, score_mixing=some).layers]
    assert isinstance(positions[0], Rotary) and positions[1:] == [NoPositions()] * 2


# --- what makes no sense together


@pytest.mark.parametrize("method", [small.GatedOutput, small.FirstValues])
def test_layers_are_not_run_again_where_heads_are_mixed(method: type[HeadMixing]) -> None:
    told = refusal(residual=called("again", factory("residual", "v3_m1")), head_mixing=called("heads", method))
    assert told.startswith("again runs earlier layers again") and "heads changes what a layer attends to" in told
    assert "changes what" in refusal(residual=factory("residual", "v3_m1"), score_mixing=small.MixedWeights)


def test_layers_are_not_run_again_where_some_have_no_attention_or_other_values() -> None:
    again = called("again", factory("residual", "v3_m1"))
    told = refusal(residual=again, temporal_mixing=called("half", sites.every_other))
    assert "again runs earlier layers again" in told and "half stands in place of attention in some layers" in told
    mixing = called("joined", lambda layer: sites.Shift(sum((4, 4, 4)) * 8, "qkv"))
    assert "joined mixes the values that a layer attends to" in refusal(residual=again, temporal_mixing=mixing)


def test_what_is_mixed_inside_attention_needs_one() -> None:
    for slot, method, what in (("score_mixing", small.Sink, "scores"), ("head_mixing", small.GatedOutput, "heads")):
        told = refusal(temporal_mixing=called("instead", in_place), **{slot: called("mine", method)})
        assert told == f"mine has no {what} to mix: the temporal_mixing method instead stands in place of attention"
        random_model(depth=3, temporal_mixing=sites.every_other, **{slot: method})  # some layers have it


def test_three_inputs_need_attention_and_pass_through_each_other() -> None:
    class Three(Residual):
        def __init__(self, layer: Layer) -> None:
            super().__init__()

        def read(self, site: str, stream: Tensor, history: History) -> Tensor | AttentionInputs:
            return AttentionInputs(stream, 2 * stream, stream + 1) if site == "attention" else stream

    assert "have no place where nothing attends" in refusal(residual=Three, temporal_mixing=in_place)
    built, inputs = random_model(depth=2, residual=Three, temporal_mixing=sites.ThreeInputs), tokens(2, 5)
    assert built(inputs).isfinite().all()
    at_ffn = called("parts", lambda layer: _at(sites.ThreeInputs(layer), "ffn"))
    assert "parts gives query, key and value inputs of their own, and at the site ffn" in refusal(
        temporal_mixing=at_ffn
    )
    random_model(depth=2, residual=factory("residual", "v3_m1"), temporal_mixing=sites.ThreeInputs)(inputs)


def _at(mixing: TemporalMixing, site: str) -> TemporalMixing:
    mixing.site = site
    return mixing


class KeepsWhatItAnswers(TemporalMixing):
    """At `qkv`, y_t = x_t + w y_{t−1}: keeps a view of what it answers."""

    site = "qkv"

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(()))

    def inner(self, x: Tensor, u: AttentionInputs, state: State | None) -> Tensor:
        last = None if state is None else state.get(self, "last")
        rows = []
        for row in x.unbind(dim=1):
            last = row if last is None else row + self.w * last
            rows.append(last)
        answer = torch.stack(rows, dim=1)
        if state is not None:
            state.set(self, "last", answer[:, -1])
        return answer


class ThreeStreams(Residual):
    """Queries, keys and values read three multiples of the stream."""

    separates = True

    def read(self, site: Site, stream: Stream, history: History) -> Tensor | AttentionInputs:
        return AttentionInputs(stream, 2 * stream - 1, 1 - stream) if site == ATTENTION else stream


class NotesInputs(TemporalMixing):
    """Notes what it is called with inside attention, and changes nothing."""

    site = "qkv"

    def inner(self, x: Tensor, u: AttentionInputs, state: State | None) -> Tensor:
        self.noted = (x, u)
        return x


def test_inside_attention_a_mixing_is_given_what_each_of_the_three_was_projected_from() -> None:
    of = {"residual": lambda _: ThreeStreams(), "temporal_mixing": lambda _: NotesInputs()}
    built = random_model(depth=2, num_kv_heads=2, **of).eval()
    built(tokens(2, 5))
    for block in built.layers:
        x, u = extension_of(block, "temporal_mixing").noted
        weights = block.attention.qkv.split([n * block.layer.head_dim for n in block.attention.heads])
        torch.testing.assert_close(torch.cat([each @ w.T for each, w in zip(u, weights, strict=True)], dim=-1), x)
        assert not torch.allclose(u.query, u.key) and not torch.allclose(u.key, u.value)


def test_what_a_mixing_keeps_of_queries_and_keys_is_not_turned() -> None:
    built, inputs = random_model(depth=2, temporal_mixing=KeepsWhatItAnswers).eval(), tokens(2, 5)
    with torch.no_grad():
        torch.testing.assert_close(decode(built, inputs, [1] * 5), built(inputs))
        torch.testing.assert_close(decode(built, inputs, [3, 2]), built(inputs))


# --- methods that are wrong in themselves


def test_heads_that_are_added_must_be_taken_back() -> None:
    class Adds(small.TwiceTheQueries):
        output = HeadMixing.output

    told = refusal(head_mixing=called("adds", Adds))
    assert told.startswith("adds leaves 8 heads for an output projection of 4")
    joined = called("joined", lambda layer: sites.Shift(12 * 8, "qkv"))
    told = refusal(head_mixing=called("adds", small.TwiceTheQueries), temporal_mixing=joined)
    assert re.search("of 12 heads, and adds leaves 16", told)


def test_a_site_is_served_by_a_module_of_the_method() -> None:
    class Fresh(TemporalMixing):
        def __init__(self, layer: Layer) -> None:
            super().__init__()

        def at(self, site: str) -> TemporalMixing | None:
            return sites.Shift(32) if site == "ffn" else None

    told = refusal(temporal_mixing=called("fresh", Fresh))
    assert told.startswith("fresh: at('ffn') answers with a Shift that is no module of its own")


def test_a_function_with_a_name_of_the_slot_takes_what_the_slot_gives() -> None:
    class Named(ScoreMixing):
        def __init__(self, layer: Layer) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.zeros(3))

        def project(self, x: Tensor) -> Tensor:
            return x

    told = refusal(score_mixing=called("named", Named))
    assert told.startswith("model.score_mixing: named: project of Named must take (heads, normed, history, state)")


def test_a_method_is_of_the_slot_it_is_put_in() -> None:
    assert "built a Sink, not a HeadMixing" in refusal(head_mixing=small.Sink)
    assert "built a GatedOutput, not a ScoreMixing" in refusal(score_mixing=small.GatedOutput)


def test_undeclared_tokens_are_not_read() -> None:
    class Reads(HeadMixing):
        def __init__(self, layer: Layer) -> None:
            super().__init__()

        def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
            return heads * len(history.tokens)

    assert "reads history.tokens without declaring it" in _told(Reads)


def _told(method: type[HeadMixing]) -> str:
    with pytest.raises(Exception, match="without declaring") as caught:
        random_model(depth=1, head_mixing=method)(tokens(1, 2))
    return str(caught.value)
