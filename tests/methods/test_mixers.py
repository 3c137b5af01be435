"""The published mixers against their references: logits, all gradients, first values; decoding, identities, bad settings."""

from __future__ import annotations

import sys

import pytest
import torch
from helpers.against_relatives import assert_equals_relative, assert_starts_as_relative
from helpers.largest_tensor import Largest
from helpers.mixer_adapters import adapter
from helpers.random_models import factory, random_model, tokens
from torch import Tensor

from zoo.errors import ZooError
from zoo.extension import preset
from zoo.generation.generate import state_bag
from zoo.model.build import model
from zoo.model.language_model import LanguageModel
from zoo.scan import channel_decay, scalar_decay
from zoo.state import State

Settings = dict[str, object]
FFN = {"site": "ffn"}
INPUT = {"site": "attention_input", "residual": False}
CHUNK = {"chunk": 4}


def both(**settings: object) -> tuple[Settings, Settings]:
    """Our settings and the reference's."""
    return settings, {name: value for name, value in settings.items() if name != "chunk"}


SETTINGS = {
    "griffin": [both(), both(width=16, blocks=2, ring="paper", **FFN), both(**INPUT)],
    "rg_lru": [both(), both(blocks=2, site="attention"), both(residual=False, ring="paper")],
    "min_gru": [both(), both(expansion=2, plain=True, **FFN), both(site="ffn", residual=False), both(**INPUT)],
    "mamba": [both(chunk=4), both(states=3, rank=2, **FFN), both(**INPUT)],
    "linear_attention": [
        both(**CHUNK), both(norm="rms", **FFN), both(**INPUT),
        ({"norm": "none", "phi": "identity", "heads": 1}, {"norm": None, "phi": "identity", "heads": 1}),
    ],
    "retention": [both(**CHUNK), both(linspace=True, heads=1, key_width=2, value_width=5, **FFN), both(key_width=6, **INPUT)],
    "gla": [both(**CHUNK), both(norm="rms", conv=True, heads=1, rank=3, **FFN), both(**INPUT)],
    "mamba2": [
        both(states=3, head_width=4, **CHUNK), ({}, {"states": 64}), both(states=2, head_width=8, **FFN), both(states=5, **INPUT),
    ],
    "deltanet": [both(**CHUNK), both(negative=True, heads=1, **FFN), both(**INPUT)],
    "gated_deltanet": [both(**CHUNK), both(gate=False, heads=2, key_width=3, value_width=5, **FFN), both(negative=True, **INPUT)],
    "cema": [
        both(), both(site="ffn", modes=3), both(site="attention"), both(site="ffn", residual=False), both(residual=False),
    ],
}  # fmt: skip
# (depth, length, key heads of 4): one token, less than a chunk of 4, one more, and two chunks and three
CASES = [(1, 1, 4), (2, 5, 2), (2, 11, 1)]


def mixer(id: str, **settings: object):
    return preset(factory("temporal_mixing", id), **settings)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("id", SETTINGS)
def test_equals_its_reference(id: str, parallel: bool) -> None:
    for i, (ours, theirs) in enumerate(SETTINGS[id]):
        for depth, length, kv_heads in CASES if i == 0 else CASES[1 + parallel :][:1]:
            shape = {"depth": depth, "num_kv_heads": kv_heads, "parallel": parallel}
            built = random_model(depth, **shape, temporal_mixing=mixer(id, **ours))
            assert_equals_relative(built, tokens(2, length), id, adapter(id), **theirs)


CROSSING: list[tuple[str, Settings, Settings]] = [
    *((id, *both(**CHUNK)) for id in ("griffin", "rg_lru", "min_gru")),
    ("rg_lru", *both(residual=False, **CHUNK)),
    ("mamba", *both(**CHUNK)),
    ("mamba2", *both(states=3, head_width=4, **CHUNK)),
    ("linear_attention", *both(norm="rms", **CHUNK)),
    ("linear_attention", {"norm": "none", "heads": 2} | CHUNK, {"norm": None, "heads": 2}),
    ("retention", *both(linspace=True, key_width=2, value_width=5, **CHUNK)),
    ("gla", *both(norm="rms", conv=True, heads=2, rank=3, **CHUNK)),
    ("deltanet", *both(negative=True, **CHUNK)),
    ("gated_deltanet", *both(negative=True, gate=False, key_width=3, value_width=5, **CHUNK)),
]


@pytest.mark.parametrize("id, ours, theirs", CROSSING)
def test_equals_its_reference_before_at_and_behind_the_border_of_a_chunk(
    id: str, ours: Settings, theirs: Settings
) -> None:
    for length in (1, 3, 4, 5, 11, 13):
        built = random_model(1, depth=1, num_kv_heads=2, temporal_mixing=mixer(id, **ours))
        assert_equals_relative(built, tokens(2, length), id, adapter(id), **theirs)


@pytest.mark.parametrize("id", SETTINGS)
def test_first_values(id: str) -> None:
    for ours, theirs in SETTINGS[id]:
        built = model(50, 16, depth=2, width=96, head_dim=24, ffn_dim=8, temporal_mixing=mixer(id, **ours))
        assert_starts_as_relative(built, id, adapter(id), **theirs)


def logits(built: LanguageModel, length: int = 9) -> torch.Tensor:
    with torch.no_grad():
        return built.eval()(tokens(2, length))


@pytest.mark.parametrize("id", SETTINGS)
@pytest.mark.parametrize("site", ["ffn", "attention_input"])
def test_added_to_its_input_it_starts_as_the_baseline(id: str, site: str) -> None:
    sizes = {"depth": 2, "width": 32, "head_dim": 8, "ffn_dim": 24}
    built = model(50, 16, **sizes, temporal_mixing=mixer(id, site=site, residual=True))
    assert torch.equal(logits(built), logits(model(50, 16, **sizes)))
    assert all(block.extension("temporal_mixing").starts_as == "baseline" for block in built.layers)
    other = model(50, 16, **sizes, temporal_mixing=mixer(id, site=site, residual=False))
    assert not torch.equal(logits(other), logits(built))
    assert other.layers[0].extension("temporal_mixing").starts_as is None


@pytest.mark.parametrize("id", ["rg_lru", "cema"])
def test_without_an_output_matrix_it_writes_in_attentions_place_as_much_as_one_would(id: str) -> None:
    built = model(50, 64, depth=3, width=96, head_dim=24, ffn_dim=64, temporal_mixing=mixer(id, site="attention"))
    u = torch.randn(4, 64, 96)
    with torch.no_grad():
        for block in built.layers:
            by_matrix = torch.randn(96, 96) * block.layer.out_std
            ours, theirs = (x.square().mean().sqrt() for x in (block.temporal_mixing(u, None), u @ by_matrix))
            assert 0.9 < ours / theirs < 1.1


# -- decoding -----------------------------------------------------------------------------------------------------------


def kept_bytes(built: LanguageModel, length: int) -> int:
    bag = state_bag(length)
    with torch.no_grad():
        built(tokens(1, length), state_bag=bag)
    return sum(State(bag)._tensors(module).size_bytes() for module in built.modules())


@pytest.mark.parametrize("id", SETTINGS)
def test_the_state_does_not_grow(id: str) -> None:
    built = random_model(depth=1, max_length=64, temporal_mixing=mixer(id, site="attention"))
    assert kept_bytes(built, 9) == kept_bytes(built, 64) > 0


# -- identities of the catalogue ----------------------------------------------------------------------------------------


def test_gated_deltanet_that_forgets_nothing_is_deltanet() -> None:
    widths = {"key_width": 8, "value_width": 8}
    gated = random_model(temporal_mixing=mixer("gated_deltanet", gate=False, **widths))
    plain = random_model(temporal_mixing=mixer("deltanet"))
    with torch.no_grad():
        for theirs, ours in zip(plain.layers, gated.layers, strict=True):
            mine, other = ours.temporal_mixing, theirs.temporal_mixing
            mine.a_log.fill_(-torch.inf)
            mine.w_in.copy_(torch.cat([other.w_in, mine.w_in[other.w_in.size(0) :]]))
            for name in ("conv", "gain", "w_out"):
                getattr(mine, name).copy_(getattr(other, name))
    rest = {name: value for name, value in plain.state_dict().items() if "temporal_mixing" not in name}
    gated.load_state_dict(rest, strict=False)
    torch.testing.assert_close(logits(gated), logits(plain), rtol=1e-10, atol=1e-10)


def test_deltanet_that_writes_nothing_answers_nothing() -> None:
    built = random_model(temporal_mixing=mixer("deltanet"))
    own = built.layers[0].temporal_mixing
    u = torch.randn(2, 7, 32, dtype=torch.float64).abs()
    with torch.no_grad():
        own.w_in[own.sizes[0] :] = -1e3  # W_β
        assert not own(u, None).abs().max()


def test_griffin_with_open_gates_is_a_bank_of_averages() -> None:
    (block,) = random_model(depth=1, temporal_mixing=mixer("griffin")).layers
    own = block.temporal_mixing
    with torch.no_grad():
        own.recurrence.w.zero_()
        own.recurrence.b.fill_(1e3)  # r = i = 1
    p = torch.randn(2, 6, own.conv.size(1), dtype=torch.float64)
    a = torch.exp(-8 * torch.nn.functional.softplus(own.recurrence.lam))
    h, rows = p[:, 0], [p[:, 0]]  # at the first token the root is 1
    for t in range(1, 6):
        h = a * h + (1 - a * a).sqrt() * p[:, t]
        rows.append(h)
    torch.testing.assert_close(own.recurrence(own, p, None), torch.stack(rows, dim=1))


def test_one_step_of_rg_lru_is_wr_7() -> None:
    (ours,) = random_model(depth=1, temporal_mixing=mixer("rg_lru", residual=False)).layers
    (theirs,) = random_model(depth=1, temporal_mixing=mixer("wr_7")).layers
    mine, other = ours.temporal_mixing.recurrence, theirs.temporal_mixing
    u = torch.randn(2, 6, 32, dtype=torch.float64)
    with torch.no_grad():
        mine.w.copy_(torch.cat([other.w_r.T, other.w_i.T], dim=1)[None])
        mine.b.copy_(torch.stack([other.b_r, other.b_i]))
        mine.lam.copy_(other.lam.expand(32))
        one, two = ours.temporal_mixing(u, None), other(u, None)
        torch.testing.assert_close(one[:, 0], two[:, 0])
        assert (one - two).abs().max() > 1e-3
        mine.lam.fill_(1e4)  # nothing is kept: no past in either
        other.lam.fill_(1e4)
        torch.testing.assert_close(ours.temporal_mixing(u, None), other(u, None))


def test_griffin_that_keeps_nothing_is_wr_7_2() -> None:
    """But for the two forms of GELU, which are one where their input is large."""
    (ours,) = random_model(depth=1, temporal_mixing=mixer("griffin", width=24, blocks=1)).layers
    (theirs,) = random_model(depth=1, temporal_mixing=mixer("wr_7_2", rnn_dim=24)).layers
    mine, other = ours.temporal_mixing, theirs.temporal_mixing
    u = torch.randn(2, 7, 32, dtype=torch.float64)
    with torch.no_grad():
        other.w_y.zero_()
        other.b_y.fill_(10.0)
        mine.w_in.copy_(torch.cat([other.w_y, other.w_x]))
        mine.b_in.copy_(torch.cat([other.b_y, other.b_x]))
        mine.conv.copy_(other.conv_w.T)
        mine.recurrence.w.copy_(torch.cat([other.w_r.T, other.w_i.T], dim=1)[None])
        mine.recurrence.b.copy_(torch.stack([other.b_r, other.b_i]))
        for into, source in ((mine.b_conv, other.conv_b), (mine.w_out, other.w_out), (mine.b_out, other.b_out)):
            into.copy_(source)
        mine.recurrence.lam.copy_(other.lam.expand(24))
        assert (mine(u, None) - other(u, None)).abs().max() > 1e-3
        mine.recurrence.lam.fill_(1e4)
        other.lam.fill_(1e4)
        torch.testing.assert_close(mine(u, None), other(u, None))


@pytest.mark.parametrize("logit, kept", [(-12.0, 0.9), (-18.0, 0.9), (-200.0, 1.0)])
def test_griffin_with_closed_gates_holds_what_it_has(logit: float, kept: float) -> None:
    """Where next to nothing is forgotten next to nothing is written, and every gradient is a number."""
    built = model(50, 16, depth=1, width=32, head_dim=8, ffn_dim=24, temporal_mixing=mixer("griffin"))
    own = built.layers[0].temporal_mixing
    with torch.no_grad():
        own.recurrence.w.zero_()
        own.recurrence.b[0] = logit
        own.recurrence.b[1] = 1e3  # i = 1
    p = torch.ones(1, 2000, own.conv.size(1), requires_grad=True)
    h = own.recurrence(own, p, None)
    log_a = -8 * torch.nn.functional.softplus(own.recurrence.lam.double()) * torch.sigmoid(torch.tensor(logit).double())
    written, exact = torch.sqrt(-torch.expm1(2 * log_a)), torch.ones_like(log_a)
    for _ in range(1999):
        exact = exact * log_a.exp() + written
    torch.testing.assert_close(h[0, -1].double(), exact, rtol=1e-3, atol=1e-5)
    assert exact.min() >= kept
    h.sum().backward()
    for each in (own.recurrence.lam, own.recurrence.b, p):
        assert each.grad.isfinite().all()


def test_min_gru_with_one_gate_is_an_average() -> None:
    built = random_model(depth=1, temporal_mixing=mixer("min_gru", plain=True, site="ffn", residual=False))
    own, u = built.layers[0].temporal_mixing, torch.randn(2, 6, 32, dtype=torch.float64)
    with torch.no_grad():
        own.w_in.copy_(torch.cat([torch.zeros(32, 32), torch.eye(32)]))  # z = ½, h̃ = u
        h, rows = torch.zeros(2, 32, dtype=torch.float64), []
        for t in range(6):
            h = (h + u[:, t]) / 2
            rows.append(h)
        torch.testing.assert_close(own(u, None), torch.stack(rows, dim=1))


def test_what_sums_of_products_are_called_elsewhere() -> None:
    """wr_9's context is linear attention, wr_mean's pool is its normalised form; one decay for all channels is a scalar one."""
    (block,) = random_model(depth=1, temporal_mixing=mixer("wr_9", values="token")).layers
    own, u = block.temporal_mixing, torch.randn(2, 9, 32, dtype=torch.float64)
    values = torch.nn.functional.linear(u, own.w_a)
    q, k, v = (x.unsqueeze(2) for x in (own.mean(u, None), u, values))
    pairs = torch.einsum("btd,bsd->bts", q.squeeze(2), u).tril()  # every earlier token by name
    torch.testing.assert_close(own.context(u, None), pairs @ values / 32)
    torch.testing.assert_close(scalar_decay(q, k, v, None, chunk=4)[0].squeeze(2), pairs @ values)
    (block,) = random_model(depth=1, temporal_mixing=mixer("wr_mean")).layers
    ones = torch.ones(2, 8, 1, 1, dtype=torch.float64)
    sums, _ = scalar_decay(ones, ones, torch.cat([u[:, :-1, None], ones], dim=-1), None, chunk=4)
    torch.testing.assert_close(block.temporal_mixing.pool(u, None)[:, 1:], (sums[..., :-1] / sums[..., -1:]).squeeze(2))
    g = -torch.rand(2, 9, 1, dtype=torch.float64)
    by_channel = channel_decay(q, k, v, g.unsqueeze(-1).expand_as(k), chunk=4)
    torch.testing.assert_close(by_channel, scalar_decay(q, k, v, g, chunk=4))


def test_the_heads_of_mamba2_by_their_number_or_their_width() -> None:
    by_number, by_width = (
        random_model(temporal_mixing=mixer("mamba2", **each)) for each in ({"heads": 4}, {"head_width": 16})
    )
    assert by_number.layers[0].temporal_mixing.a_log.numel() == 4
    assert torch.equal(logits(by_number), logits(by_width))


# -- bad settings ---------------------------------------------------------------------------------------------------------

BAD = [
    ("griffin", {"width": 10, "blocks": 4}, "width = 10 must be a multiple"),
    ("griffin", {"blocks": 0}, "blocks = 0 must be at least 1"),
    ("griffin", {"chunk": 0}, "chunk = 0 must be at least 1"),
    ("rg_lru", {"blocks": 5}, "blocks = 5 must divide"),
    ("rg_lru", {"chunk": 0}, "chunk = 0"),
    ("min_gru", {"chunk": 0}, "chunk = 0"),
    ("min_gru", {"expansion": 0}, "expansion = 0"),
    ("mamba", {"states": 0}, "states = 0"),
    ("mamba2", {"head_width": 7}, "head_width = 7 must divide"),
    ("mamba2", {"heads": 7}, "heads = 7 must divide"),
    ("mamba2", {"heads": 0}, "heads = 0 must be at least 1"),
    ("mamba2", {"heads": 4, "head_width": 16}, "head_width and heads both say"),
    ("linear_attention", {"heads": 33}, "heads = 33 must be from 1 to"),
    ("retention", {"key_width": 3}, "key_width = 3 is odd"),
    ("retention", {"chunk": 0}, "chunk = 0"),
    ("gla", {"heads": 20}, "heads = 20 must be at most half"),
    ("gla", {"rank": 0}, "rank = 0"),
    ("deltanet", {"heads": 0}, "heads = 0"),
    ("gated_deltanet", {"value_width": 0}, "value_width = 0"),
    ("cema", {"modes": 0}, "modes = 0"),
]


@pytest.mark.parametrize("id, settings, message", BAD)
def test_bad_settings_are_refused(id: str, settings: Settings, message: str) -> None:
    with pytest.raises(ZooError, match=message):
        random_model(temporal_mixing=mixer(id, **settings))


DECAYS = {  # the kernel that a mixer calls, and which of its arguments is made of learned decays
    "rg_lru": ("linear_scan", 0),
    "mamba": ("selective_scan", 2),
    "mamba2": ("scalar_decay", 3),
    "gated_deltanet": ("delta_rule", 4),
}


@pytest.mark.parametrize("id", DECAYS)
def test_a_bfloat16_model_makes_its_decays_in_float32(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At an input of 0 they come of parameters alone: those of the same model in float64, but for float32's rounding."""
    kernel, place = DECAYS[id]
    built = random_model(dtype=torch.bfloat16, depth=1, temporal_mixing=mixer(id))
    module = next(m for m in built.modules() if type(m).__module__.startswith("zoo_plugins") and hasattr(m, "mix"))
    home, decays = sys.modules[type(module).__module__], []
    real = getattr(home, kernel)

    def recording(*given: Tensor, **settings: int) -> tuple[Tensor, Tensor]:
        decays.append(given[place])
        return real(*given, **settings)

    monkeypatch.setattr(home, kernel, recording)
    for dtype in (torch.bfloat16, torch.float64):
        module.to(dtype).mix(torch.zeros(1, 3, 32, dtype=dtype), None)
    narrow, exact = decays
    torch.testing.assert_close(narrow.double(), exact, rtol=1e-6, atol=1e-6)


def test_the_average_of_a_long_prompt_needs_no_table_of_its_length() -> None:
    """What decoding starts from is made of pieces of time: no tensor holds all modes of all tokens."""
    length, width, modes = 1024, 32, 16
    module = next(m for m in random_model(depth=1, temporal_mixing=mixer("cema")).modules() if hasattr(m, "carried"))
    u, state = torch.randn(1, length, width, dtype=torch.float64), State(state_bag(2 * length))
    with Largest() as largest:
        for _ in range(2):  # from nothing, and from what the first pass left
            module.carried(u, u, state)
    assert largest.numbers < length * width * modes / 4


def test_slow_modes_turn_by_the_right_angle_after_thousands_of_tokens() -> None:
    """In float32 the angle of token 8192 would be known to 0.003."""
    built = model(50, 16, depth=1, width=32, head_dim=8, ffn_dim=24, temporal_mixing=mixer("cema", site="attention"))
    (module,) = (m for m in built.modules() if hasattr(m, "carried"))
    with torch.no_grad():
        module.delta.sub_(14)  # they keep nearly all
        single = module.kernel(8192)
        exact = module.double().kernel(8192)
    assert (single - exact).abs().max() < 2e-6 * exact.abs().max()
