"""Local mixers against the naive references: logits, gradients, first values; what they are equal to; bad settings."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers.against_relatives import assert_equals_relative, assert_starts_as_relative
from helpers.random_models import extension_of, factory, random_model, tokens
from torch import Tensor

from zoo.errors import ZooError
from zoo.extension import AttentionInputs, Extension, preset
from zoo.generation.generate import state_bag
from zoo.model.block import Block
from zoo.model.build import model
from zoo.model.language_model import LanguageModel

SLOT = "temporal_mixing"
Names = dict[str, Tensor]
CONSUMERS = {"attention_input": "rkv", "ffn": ["ffn"]}


def canon_taps(own: Extension) -> Names:
    letters = {"attention_input": "a", "qkv": "b", "ffn": "c", "ffn_inner": "d"}
    return {f"w_{letters[site]}": part.w.T for site, part in own.parts.items()}


def shares(own: Extension) -> Names:
    parts = own.parts.items()
    return {f"mu_{name}": mu for site, part in parts for name, mu in zip(CONSUMERS[site], part.mu, strict=True)}


def maps(own: Extension) -> Names:
    named = {}
    for site, part in own.parts.items():
        columns = part.a.chunk(len(part.b), dim=1)
        for name, share, a, b in zip(CONSUMERS[site], part.lambdas, columns, part.b, strict=True):
            named |= {f"lambda_{name}": share, f"a_{name}": a, f"b_{name}": b}
        named[f"mu_x_{site}"] = part.mu_x
    return named


def taps_of_heads(own: Extension) -> Names:
    return {f"w_{name}": w.T for name, w in zip("qkv", own.w.split(own.widths, dim=1), strict=True)}


def gates_of_heads(own: Extension) -> Names:
    return dict(zip(["w_k", "w_v"], own.w.chunk(2, dim=1), strict=True))


def smeared(own: Extension) -> Names:
    return {"lambda": own.scale, "w": own.w} if any(True for _ in own.parameters()) else {}


# (id, our settings, the reference's settings, our parameters under the reference's names)
CASES: list[tuple[str, dict, dict, Callable[[Extension], Names]]] = [
    ("canon", {}, {}, canon_taps),
    ("canon", {"sites": "BD", "taps": 3, "residual": False}, {"sites": "BD", "taps": 3, "residual": False}, canon_taps),
    ("canon_a", {}, {}, canon_taps),
    ("canon_c", {"taps": 6}, {"taps": 6}, canon_taps),
    ("canon_ac", {}, {}, canon_taps),
    ("token_shift", {}, {}, shares),
    ("token_shift", {"sites": "ffn", "ffn_power": 4}, {"sites": ("ffn",), "ffn_power": 4}, shares),
    ("token_shift_lora", {"rank": 3}, {"rank": 3}, maps),
    ("token_shift_lora", {"sites": "attention_input"}, {"sites": ("attention_input",)}, maps),
    ("primer_dconv", {}, {}, taps_of_heads),
    ("kv_shift", {}, {}, gates_of_heads),
    ("smear", {}, {}, smeared),
    ("smear", {"dims": 40}, {"dims": 40}, smeared),
]
# (depth, length, key heads of 4)
SHAPES = [(1, 1, 4), (2, 5, 2), (3, 7, 1)]


def names(case: tuple[str, dict, dict, object]) -> str:
    return " ".join([case[0], *(f"{name}={value}" for name, value in case[1].items())])


@pytest.mark.parametrize("host", ["sequential", "parallel"])
@pytest.mark.parametrize("case", CASES, ids=names)
def test_equals_the_reference(case: tuple[str, dict, dict, Callable[[Extension], Names]], host: str) -> None:
    id, settings, theirs, named = case
    for depth, length, kv_heads in SHAPES:
        shape = {"depth": depth, "num_kv_heads": kv_heads, "parallel": host == "parallel"}
        built = random_model(depth, **shape, temporal_mixing=preset(factory(SLOT, id), **settings))
        assert_equals_relative(built, tokens(2, length), id, lambda block: named(extension_of(block, SLOT)), **theirs)


@pytest.mark.parametrize("case", CASES, ids=names)
def test_starts_as_the_reference(case: tuple[str, dict, dict, Callable[[Extension], Names]]) -> None:
    id, settings, theirs, named = case
    for depth in (1, 3):
        built = model(50, 16, depth=depth, width=32, head_dim=8, temporal_mixing=preset(factory(SLOT, id), **settings))
        assert_starts_as_relative(built, id, lambda block: named(extension_of(block, SLOT)), **theirs)


# --- identities


def fresh(id: str | None = None, **settings: object) -> LanguageModel:
    """A model whose core weights are random and the same for every method, its method as it starts."""
    chosen = {} if id is None else {SLOT: preset(factory(SLOT, id), **settings)}
    return model(50, 16, depth=3, width=32, head_dim=8, ffn_dim=48, init_std=0.3, **chosen).double()


def same(first: LanguageModel, second: LanguageModel) -> None:
    torch.testing.assert_close(first(tokens(2, 9)), second(tokens(2, 9)), rtol=1e-6, atol=1e-6)


@torch.no_grad()
def filled(source: LanguageModel, target: LanguageModel, fill: Callable[[Block, Block], None]) -> None:
    """The same function, once `fill` has given every layer's method of `target` what the source's has."""
    for one, other in zip(source.layers, target.layers, strict=True):
        fill(one, other)
    same(source, target)


@torch.no_grad()
def random_methods(built: LanguageModel) -> LanguageModel:
    generator = torch.Generator().manual_seed(3)
    for block in built.layers:
        for parameter in extension_of(block, SLOT).parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return built


@pytest.mark.parametrize(("id", "settings"), [("canon", {"zero": True}), ("canon_ac", {"zero": True}), ("smear", {})])
def test_starts_as_the_baseline(id: str, settings: dict) -> None:
    built = fresh(id, **settings)
    same(built, fresh())
    declared = extension_of(built.layers[0], SLOT).starts_as or factory(SLOT, id).starts_as
    assert declared == "baseline"


def test_token_shift_lora_starts_as_token_shift() -> None:
    same(fresh("token_shift_lora"), fresh("token_shift"))


def taps_at(block: Block, site: str) -> Tensor:
    return extension_of(block, SLOT).parts[site].w


def coefficients(block: Block) -> Tensor:
    return extension_of(block, SLOT).coefficients()[:, None]


def test_wr_1_is_token_shift_of_one_share() -> None:
    def fill(one: Block, other: Block) -> None:
        extension_of(other, SLOT).parts["ffn"].mu.copy_(coefficients(one)[:1].expand(1, 32))

    filled(random_methods(fresh("wr_1")), fresh("token_shift", sites="ffn"), fill)


@pytest.mark.parametrize(("id", "count"), [("wr_1", 2), ("wr_5", 3), ("wr_6", 3), ("wr_6_1", 3)])
def test_scalar_gates_are_canon_taps_without_the_residual(id: str, count: int) -> None:
    def fill(one: Block, other: Block) -> None:
        taps_at(other, "ffn").copy_(coefficients(one).expand(count, 32))

    filled(random_methods(fresh(id)), fresh("canon_c", taps=count, residual=False), fill)


@pytest.mark.parametrize("id", ["wr_8_2", "wr_8_3"])
def test_a_mean_with_a_constant_gate_is_canon_without_the_residual(id: str) -> None:
    source = random_methods(fresh(id, n=3))

    def fill(one: Block, other: Block) -> None:
        own = extension_of(one, SLOT)
        own.gate_w.zero_()
        gate, shares = own.gate_b.sigmoid(), own.w.softmax(dim=-1).expand(32, 3)  # wr_8_2's are those of all channels
        taps_at(other, "ffn").copy_(torch.stack([gate, *((1 - gate) * shares.T)]))

    filled(source, fresh("canon_c", taps=4, residual=False), fill)


def test_wr_3_1_with_a_constant_gate_is_token_shift() -> None:
    source = random_methods(fresh("wr_3_1"))

    def fill(one: Block, other: Block) -> None:
        own = extension_of(one, SLOT)
        own.gate_w.zero_()
        extension_of(other, SLOT).parts["ffn"].mu.copy_(own.gate_b.sigmoid()[None])

    filled(source, fresh("token_shift", sites="ffn"), fill)


def test_primer_dconv_is_canon_b_without_the_residual() -> None:
    def fill(one: Block, other: Block) -> None:
        taps_at(other, "qkv").copy_(extension_of(one, SLOT).w)

    filled(random_methods(fresh("primer_dconv")), fresh("canon", sites="B", taps=3, residual=False), fill)


@torch.no_grad()
def test_smear_of_one_is_one_and_a_half_wr_1_of_two_thirds() -> None:
    layer, u = fresh().layers[0].layer, torch.randn(2, 7, 32, dtype=torch.float64)
    smear, shift = (factory(SLOT, id)(layer).double() for id in ("smear", "wr_1"))
    smear.scale.fill_(1.0)
    shift.gamma.copy_(torch.tensor(2.0).log())  # σ = ⅔
    torch.testing.assert_close(smear(u, None), 1.5 * shift(u, None), rtol=1e-6, atol=1e-6)


# --- decoding


@pytest.mark.parametrize("id", ["canon", "token_shift", "token_shift_lora", "primer_dconv", "kv_shift", "smear"])
@torch.no_grad()
def test_what_is_kept_while_decoding_does_not_grow(id: str) -> None:
    """The state without attention's keys and values, after few tokens and after many."""
    built = random_model(depth=1, max_length=64, temporal_mixing=factory(SLOT, id)).eval()
    sizes = []
    for length in (6, 24):
        bag = state_bag(length)
        for token in tokens(1, length).split(1, dim=1):
            built(token, state_bag=bag)
            bag.increment_step_nr()
        kept = {type(module).__name__: state.size_bytes() for module, state in bag._module_states.items()}
        sizes.append({name: size for name, size in kept.items() if name != "Attention"})
    assert sizes[0] == sizes[1] and sizes[0]


# --- what is refused


@pytest.mark.parametrize(
    ("id", "settings", "sentence"),
    [
        ("canon", {"sites": "AE"}, "sites = 'AE' must be some of the letters A, B, C and D, each once"),
        ("canon", {"sites": "AA"}, "sites = 'AA'"),
        ("canon", {"sites": ""}, "sites = ''"),
        ("canon", {"taps": 0}, "taps = 0 must be a positive number"),
        ("primer_dconv", {"taps": 0}, "taps = 0 must be a positive number"),
        ("token_shift", {"sites": "output"}, "sites = 'output' must be 'both', 'attention_input' or 'ffn'"),
        ("token_shift", {"ffn_power": 0}, "ffn_power = 0 must be at least 1"),
        ("token_shift_lora", {"rank": 33}, "rank = 33 must be from 1 to the model's width, which is 32"),
        ("token_shift_lora", {"rank": 0}, "rank = 0"),
        ("smear", {"dims": 0}, "dims = 0 must be a positive number of channels"),
    ],
)
def test_bad_settings_are_refused_by_name(id: str, settings: dict, sentence: str) -> None:
    with pytest.raises(ZooError, match=sentence):
        fresh(id, **settings)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_kv_shifts_gates_read_what_keys_and_values_were_projected_from(length: int) -> None:
    built = random_model(depth=1, num_kv_heads=2, temporal_mixing=factory(SLOT, "kv_shift"))
    own, layer = extension_of(built.layers[0], SLOT), built.layers[0].layer
    d, generator = layer.head_dim, torch.Generator().manual_seed(1)
    x = torch.randn(2, length, (layer.num_heads + 4) * d, generator=generator, dtype=torch.float64)
    u = AttentionInputs(*torch.randn(3, 2, length, layer.width, generator=generator, dtype=torch.float64))
    mixed = own.inner(x, u, None)
    for number, (source, of) in enumerate([(u.key, own.w[:, :2]), (u.value, own.w[:, 2:])]):
        for head in range(2):
            first = (layer.num_heads + 2 * number + head) * d
            for t in range(length):
                share = torch.sigmoid(source[:, t] @ of[:, head])[:, None]
                before = x[:, t - 1, first : first + d] if t else torch.zeros(2, d, dtype=x.dtype)
                expected = share * before + (1 - share) * x[:, t, first : first + d]
                torch.testing.assert_close(mixed[:, t, first : first + d], expected)
    torch.testing.assert_close(mixed[..., : layer.num_heads * d], x[..., : layer.num_heads * d])
