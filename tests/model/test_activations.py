"""What extensions show of a pass: statistics, names, and nothing at other times."""

from __future__ import annotations

import pytest
import torch
from helpers.random_models import factory, random_model, tokens
from torch import Tensor, nn

from zoo.extension import Layer, Residual, TemporalMixing, preset
from zoo.model import activations
from zoo.model.activations import STATISTICS, observed_pass, statistics
from zoo.model.language_model import LanguageModel
from zoo.state import State


class Showing(TemporalMixing):
    """Shows its input, and each channel of it."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.inputs: list[Tensor] = []

    def forward(self, u: Tensor, state: State | None) -> Tensor:
        self.inputs.append(u.detach())
        self.watch("input", u)
        self.watch("channel", u[..., :3], each=True)
        return u


def model_of(**slots: object) -> LanguageModel:
    return random_model(dtype=torch.float32, **slots).eval()


def test_mean_and_quantiles_are_over_all_elements_or_of_each_channel() -> None:
    built = model_of(temporal_mixing=Showing)
    seen = built.activations(tokens(2, 12))
    assert seen.keys() == {f"{name}_{statistic}" for name in ("input", "channel") for statistic in STATISTICS}
    for number, block in enumerate(built.layers, start=1):
        (u,) = block.temporal_mixing.inputs
        torch.testing.assert_close(seen["input_mean"][number], u.mean())
        torch.testing.assert_close(seen["input_q25"][number], u.flatten().quantile(0.25))
        torch.testing.assert_close(seen["channel_q95"][number], u[..., :3].flatten(0, 1).quantile(0.95, dim=0))
        assert seen["input_mean"][number].dim() == 0 and seen["channel_mean"][number].shape == (3,)


def test_many_elements_are_sampled_over_all_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "SAMPLE", 1000)
    activations._sample.cache_clear()
    value = torch.arange(256.0).repeat(500)  # equal steps of 128 would meet two channels
    made = statistics(value, each=False)
    assert made["mean"] == pytest.approx(127.5) and made["q50"] == pytest.approx(127.5, abs=12)
    assert made["q05"] < 30 and made["q95"] > 225
    assert statistics(value, each=False) == made
    activations._sample.cache_clear()


def test_nothing_is_shown_outside_of_an_observed_pass() -> None:
    built = model_of(temporal_mixing=Showing)
    with observed_pass(built.extensions()) as shown:
        pass
    built(tokens(2, 5))
    assert not shown and all("watcher" not in extension.__dict__ for extension in built.extensions())


def test_a_pass_that_fails_leaves_no_watcher_behind() -> None:
    built = model_of(temporal_mixing=Showing)
    with pytest.raises(RuntimeError), observed_pass(built.extensions()):
        raise RuntimeError
    assert all(extension.watcher is None for extension in built.extensions())


def test_of_a_layer_that_is_run_again_its_own_pass_is_shown() -> None:
    built = model_of(temporal_mixing=Showing, residual=factory("residual", "v3_m1"))
    seen = built.activations(tokens(2, 6))
    first = built.layers[0].temporal_mixing
    assert len(first.inputs) == len(built.layers)  # once for itself, and once for each layer above
    torch.testing.assert_close(seen["input_mean"][1], first.inputs[0].mean())


def test_a_compiled_or_checkpointed_model_shows_the_same() -> None:
    built = model_of(temporal_mixing=factory("temporal_mixing", "wr_8_2"))
    plain = built.activations(tokens(2, 6))
    built.checkpoint_activations = True
    built.compile_stack()
    again = built.activations(tokens(2, 6))
    assert plain.keys() == again.keys() and all(torch.equal(plain[name][2], again[name][2]) for name in plain)


@pytest.mark.parametrize(
    ("slot", "method", "names"),
    [
        ("temporal_mixing", "wr_8_2", {"gate"}),
        ("temporal_mixing", "wr_4", {"reset_gate", "update_gate"}),
        ("temporal_mixing", "wr_7", {"kept", "input_gate"}),
        ("temporal_mixing", "wr_7_log", {"kept", "input_gate"}),
        ("temporal_mixing", "wr_7_2", {"kept", "input_gate"}),
        ("score_mixing", "v4_m1d", {"token_weight"}),
        ("temporal_mixing", "wr_1", set()),
    ],
)
def test_our_methods_show_what_depends_on_the_input(slot: str, method: str, names: set[str]) -> None:
    seen = model_of(**{slot: factory(slot, method)}).activations(tokens(2, 6))
    assert {name.removesuffix("_mean") for name in seen if name.endswith("_mean")} == names
    assert all(list(layers) == [1, 2, 3] for layers in seen.values())


def test_token_weights_are_shown_layer_by_layer_of_those_that_they_weigh() -> None:
    seen = model_of(score_mixing=factory("score_mixing", "v4_m1e")).activations(tokens(2, 6))
    assert [value.numel() for value in seen["token_weight_mean"].values()] == [1, 2, 3]


# --- names


class Gain(Residual):
    """Offers a probe that another method offers too."""

    def __init__(self, layer: Layer, name: str = "gate") -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((), float(layer.number)))
        self.name = name

    def probes(self) -> dict[str, Tensor]:
        return {self.name: self.gain}


class Pair(Residual):
    """Two extensions inside one, with probes of one name, and one of its own."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.first, self.second = Gain(layer), Gain(layer)
        with torch.no_grad():
            self.second.gain.add_(10)

    def probes(self) -> dict[str, Tensor]:
        return {"gate": self.first.gain + 100}


def test_probes_of_one_name_do_not_hide_each_other() -> None:
    built = random_model(residual=Gain, temporal_mixing=factory("temporal_mixing", "wr_1"))
    probes = built.probes()
    ids = {id.removesuffix(".gate") for id in probes}
    assert len(probes) == 2 and all(name.endswith(".gate") for name in probes), probes.keys()
    assert "Gain" in ids
    torch.testing.assert_close(probes["Gain.gate"][2], built.layers[1].residual.gain.detach())


def test_a_name_that_one_method_uses_stands_as_it_is() -> None:
    built = random_model(residual=preset(Gain, name="gain"), temporal_mixing=factory("temporal_mixing", "wr_1"))
    assert built.probes().keys() == {"gain", "gate"}


def test_extensions_inside_one_are_told_apart_by_their_place() -> None:
    built = random_model(residual=Pair)
    probes = built.probes()
    assert probes.keys() == {"gate", "first.gate", "second.gate"}
    pair = built.layers[2].residual
    torch.testing.assert_close(probes["second.gate"][3], pair.second.gain.detach())
    torch.testing.assert_close(probes["gate"][3], pair.first.gain.detach() + 100)
