"""The identities at the end of the catalogue."""

from __future__ import annotations

import pytest
import torch
from helpers.random_models import extension_of, factory, random_model, tokens

from zoo.extension import preset
from zoo.kernels.norm import rms_norm
from zoo.model.build import model
from zoo.model.language_model import LanguageModel

HOSTS = [False, True]


def fresh(
    slot: str | None = None, method: str | None = None, *, parallel: bool = False, **settings: object
) -> LanguageModel:
    """A model whose core weights are random and the same for every method, its method as it starts."""
    chosen = {} if slot is None else {slot: preset(factory(slot, method), **settings)}
    shape = {"depth": 4, "width": 32, "head_dim": 8, "ffn_dim": 48, "init_std": 0.3}
    return model(50, 16, **shape, parallel=parallel, **chosen).double()


def same(first: LanguageModel, second: LanguageModel) -> None:
    """Equal up to the float32 in which parameters are first made (log √d is one of them)."""
    inputs = tokens(2, 12)
    torch.testing.assert_close(first(inputs), second(inputs), rtol=1e-6, atol=1e-6)


def different(first: LanguageModel, second: LanguageModel) -> None:
    inputs = tokens(2, 12)
    assert (first(inputs) - second(inputs)).abs().max() > 1e-3


def copy_shared(source: LanguageModel, target: LanguageModel) -> None:
    """Give `target` every parameter that `source` has under the same name."""
    target.load_state_dict(source.state_dict() | {}, strict=False)


@pytest.mark.parametrize("parallel", HOSTS)
@pytest.mark.parametrize(
    ("slot", "method", "start"),
    [("score_mixing", f"v4_{m}", "v4_m1") for m in ("m5", "m6", "m7", "m1a", "m1b", "m1c", "m1d", "m1e")]
    + [("score_mixing", "v4_m4", "v4_m3")]
    + [("residual", "v2_m3", "v2_m1"), ("residual", "v3_m3_2", "v3_m3_1"), ("residual", "v3_m4_2", "v3_m4_1")],
)
def test_starts_as_another(slot: str, method: str, start: str, parallel: bool) -> None:
    same(fresh(slot, method, parallel=parallel), fresh(slot, start, parallel=parallel))


@pytest.mark.parametrize("parallel", HOSTS)
@pytest.mark.parametrize(
    ("slot", "method"),
    [("score_mixing", "v4_mc"), ("score_mixing", "v4_md")]
    + [("residual", f"skip_{m}") for m in ("scalar", "vector", "gains", "attention_gain", "normed")]
    + [("residual", "v2_clt")],
)
def test_starts_as_baseline(slot: str, method: str, parallel: bool) -> None:
    same(fresh(slot, method, parallel=parallel), fresh(parallel=parallel))


def test_a_method_is_not_the_baseline() -> None:
    for slot, method in (
        ("score_mixing", "v4_m1"),
        ("residual", "v2_m1"),
        ("residual", "v3_m1"),
        ("residual", "skip_scalar_2"),
    ):
        different(fresh(slot, method), fresh())


def gates(built: LanguageModel) -> None:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for block in built.layers:
            for parameter in extension_of(block, "temporal_mixing").parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))


def test_wr_5_is_wr_6() -> None:
    first, second = fresh("temporal_mixing", "wr_5"), fresh("temporal_mixing", "wr_6")
    gates(first), copy_shared(first, second)
    same(first, second)


def test_wr_3_1_is_wr_8_2_with_one_tap() -> None:
    first, second = fresh("temporal_mixing", "wr_3_1"), fresh("temporal_mixing", "wr_8_2", n=1)
    gates(first), copy_shared(first, second)
    same(first, second)


def test_wr_3_2_is_wr_8_2_with_two_taps() -> None:
    first, second = fresh("temporal_mixing", "wr_3_2"), fresh("temporal_mixing", "wr_8_2", n=2)
    gates(first), copy_shared(first, second)
    for mine, theirs in zip(first.layers, second.layers, strict=True):
        theirs.temporal_mixing.w.data = torch.stack([mine.temporal_mixing.gamma.data, torch.zeros(()).double()])
    same(first, second)


def test_wr_8_2_1_is_wr_8_2_2_once_all_taps_exist() -> None:
    layer = fresh().layers[0].layer
    before, after = (factory("temporal_mixing", m)(layer, n=3).double() for m in ("wr_8_2_2", "wr_8_2_1"))
    for parameter in before.parameters():
        torch.nn.init.normal_(parameter)
    after.load_state_dict(before.state_dict())
    u = torch.randn(2, 9, layer.width, dtype=torch.float64)
    torch.testing.assert_close(before(u, None)[:, 3:], after(u, None)[:, 3:])
    assert (before(u, None)[:, :3] - after(u, None)[:, :3]).abs().max() > 1e-3


def test_wr_example_is_wr_8_2_with_four_taps() -> None:
    first, second = fresh("temporal_mixing", "wr_example"), fresh("temporal_mixing", "wr_8_2", n=4)
    gates(first), copy_shared(first, second)
    same(first, second)
    assert torch.equal(fresh("temporal_mixing", "wr_example").layers[0].temporal_mixing.w, torch.zeros(4).double())


def test_input_gain_is_wr_8_2_gains_without_its_mean() -> None:
    gain, whole = fresh("temporal_mixing", "input_gain"), fresh("temporal_mixing", "wr_8_2_gains")
    for block, other in zip(gain.layers, whole.layers, strict=True):
        block.temporal_mixing.rho.data.fill_(1.7)
        other.temporal_mixing.rho.data.fill_(1.7)
        other.temporal_mixing.kappa.data.zero_()
    copy_shared(gain, whole)
    same(gain, whole)


def test_site_output_has_one_mixing_after_the_last_layer() -> None:
    built = fresh("temporal_mixing", "wr_8_2", site="output")
    *below, last = (sum(p.numel() for p in block.temporal_mixing.parameters()) for block in built.layers)
    assert last > 0 and not any(below)


def test_second_order_mixing_starts_near_the_baseline_and_closes_to_it() -> None:
    built = fresh("score_mixing", "wr_attatt")
    assert built.layers[0].attention.score_mixing.gamma.unique().tolist() == [-4.0]
    for block in built.layers:
        block.attention.score_mixing.gamma.data.fill_(-1e3)
    same(built, fresh())


def test_custom_2_is_wr_8_2_gains_at_its_start() -> None:
    """z = u + Rec(u), ρ fixed: "block skip alone" in the log had this inside."""
    same(
        fresh("temporal_mixing", "wr_8_2_skip", start=1.0, fixed=True, n=2),
        fresh("temporal_mixing", "wr_8_2_gains", n=2),
    )


@pytest.mark.parametrize("parallel", HOSTS)
def test_skip_gains_log_is_skip_gains_from_two(parallel: bool) -> None:
    same(
        fresh("residual", "skip_gains_log", parallel=parallel),
        fresh("residual", "skip_gains", parallel=parallel, start=2.0),
    )
    same(
        fresh("residual", "skip_scalar_2", parallel=parallel),
        fresh("residual", "skip_scalar", parallel=parallel, start=2.0),
    )


@pytest.mark.parametrize(("head_dim", "inner"), [(8, 48), (16, 48), (32, 64)])
def test_the_inner_width_of_wr_7_2_is_larger_and_whole_heads(head_dim: int, inner: int) -> None:
    """4D/3 = 42.7, rounded up to a multiple of the head width."""
    chosen = preset(factory("temporal_mixing", "wr_7_2"))
    built = model(50, 16, depth=1, width=32, head_dim=head_dim, ffn_dim=48, temporal_mixing=chosen)
    assert built.layers[0].temporal_mixing.w_x.shape == (inner, 32)


def test_v1_with_the_embedding_is_the_two_hop_residual() -> None:
    """v1_m3 ≡ v1_m6 ≡ x_{m+1} = x_m + FFN(N2(x_m + a_m)) with first = "embedding"."""
    third, sixth = (fresh("residual", m, first="embedding") for m in ("v1_m3", "v1_m6"))
    same(third, sixth)
    inputs = tokens(2, 12)
    x = third.embed(inputs)
    plain = fresh()
    from zoo.extension import AttentionInputs
    from zoo.history import History

    for block in plain.layers:
        a, _ = block.attend(AttentionInputs(x, x, x), History(x), None)
        x = x + block.feed_forward(x + a, None)
    logits = rms_norm(x, plain.norm.gain, plain.norm.eps) @ plain.output_weight().T
    torch.testing.assert_close(third(inputs), logits, rtol=1e-10, atol=1e-10)


def test_shared_weights_start_equal_whatever_the_method() -> None:
    plain = dict(fresh().named_parameters())
    for slot, method in (("residual", "v3_m3_2"), ("score_mixing", "v4_m1d"), ("temporal_mixing", "wr_7_2")):
        other = dict(fresh(slot, method).named_parameters())
        assert plain.keys() <= other.keys()
        assert all(torch.equal(other[name], value) for name, value in plain.items())


def test_every_parameter_of_a_method_gets_a_gradient() -> None:
    from helpers.random_models import METHODS

    for slot, method in METHODS:
        built = random_model(depth=3, **{slot: factory(slot, method)})
        built.loss(tokens(3, 16), tokens(3, 16, seed=1)).backward()
        for number, block in enumerate(built.layers, start=1):
            extension = extension_of(block, slot)
            for name, parameter in extension.named_parameters():
                assert name in extension.idle or (parameter.grad is not None and parameter.grad.abs().max() > 0), (
                    method,
                    number,
                    name,
                )
