"""First values that the catalogue states as numbers."""

import math

import pytest
import torch

from . import REFERENCES
from .cases import same, setup
from .diagonal import dt_start, ring_start
from .host import Layer
from .matrix_state import retention_decays
from .norms import DeepNorm
from .starts import draw


def sizes(index: int = 0, depth: int = 12, **changes: object) -> Layer:
    layer = Layer(index, depth, 16, 12, 4, 2, 4, 1024, parallel=False, norm_eps=1e-5)
    return layer._replace(**changes)


def first(id: str, layer: Layer, **settings: object) -> dict:
    return REFERENCES[id].build(**settings).start(layer)


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_scalars():
    assert first("ssmax", sizes())["s"][0] == pytest.approx(0.168, abs=1e-3)
    assert first("cosine_attention", sizes())["log_tau"][0] == pytest.approx(math.log(10))
    nanochat = [first("x0_lambda_nanochat", sizes(index)) for index in (0, 11)]
    assert [float(own["lambda"]) for own in nanochat] == pytest.approx([1.15, 1.05])
    assert [float(own["mu"]) for own in nanochat] == pytest.approx([0.2, 0.05])
    assert float(first("x0_lambda_nanochat", sizes(0, 1))["lambda"]) == pytest.approx(1.15)
    assert [float(first("layer_scale", sizes(0, depth))["gamma_ffn"][0]) for depth in (18, 24, 25)] == [0.1, 1e-5, 1e-6]
    assert REFERENCES["unet_skips"].build(sigmoid=True).start(sizes(11))["w"] == -1.5
    assert DeepNorm.start_divisor(2) == pytest.approx(2.0)
    model = DeepNorm()
    model.depth = 8
    assert model.alpha() == pytest.approx(2.0)


def test_streams_are_read_in_turns():
    chosen = []
    for index in range(3):
        own = first("hc_static", sizes(index), n=4)
        chosen += [int(own[f"a_m_{site}"].argmax()) for site in ("attention", "ffn")]
    assert chosen == [1, 2, 3, 0, 1, 2]
    reads = torch.sigmoid(first("mhc", sizes(1))["b_attention"][:4])
    same(reads, numbers(0.1, 0.1, 0.1, 0.7))


def test_token_shift():
    own = first("token_shift", sizes(2, 3))  # ρ = 1/3, τ = 1
    assert float(own["mu_v"][8]) == pytest.approx(0.5 ** (1 / 3) + 0.3)
    assert float(own["mu_k"][8]) == pytest.approx(0.5 ** (1 / 3))
    assert float(own["mu_r"][8]) == pytest.approx(0.5 ** (1 / 6))
    assert float(own["mu_ffn"][8]) == pytest.approx(0.5 ** (1 / 3))
    assert float(first("token_shift", sizes(2, 3), ffn_power=4)["mu_ffn"][8]) == pytest.approx(0.5 ** (1 / 81))
    assert float(own["mu_k"][0]) == 0  # the previous token only
    same(first("token_shift", sizes(0, 1))["mu_v"], torch.arange(16, dtype=torch.float64) / 16)


def test_taps():
    same(first("primer_dconv", sizes())["w_k"][0], numbers(1 / 2, 1 / 6, 1 / 6))
    kernel = first("mta", sizes(2))["theta_1"][0]
    assert kernel.shape == (6, 11)
    assert float(kernel[5, 5]) == kernel.sum() == 1


def test_low_rank():
    p = first("laurel_lr", sizes(), rank=2)["p_ffn"]
    same(p[:2], torch.eye(2, dtype=torch.float64) / math.sqrt(2 * 16))
    same(p.square().sum(), numbers(0.5)[0])  # D entries of 1 / (rD)


def test_decays():
    same(retention_decays(3, linspace=False), 1 - numbers(1 / 32, 1 / 64, 1 / 128))
    same(retention_decays(2, linspace=True), 1 - numbers(1 / 32, 1 / 512))
    generator = torch.Generator().manual_seed(0)
    code = torch.exp(-8 * torch.nn.functional.softplus(draw(ring_start("code"), (4000,), generator)))
    assert float(code.min()) == pytest.approx(0.43, abs=0.01)
    assert float(code.max()) == pytest.approx(0.992, abs=0.001)
    paper = torch.exp(-8 * torch.nn.functional.softplus(draw(ring_start("paper"), (4000,), generator)))
    assert (float(paper.min()), float(paper.max())) == pytest.approx((0.9, 0.999), abs=1e-3)
    dt = torch.nn.functional.softplus(draw(dt_start(), (4000,), generator))
    assert (float(dt.min()), float(dt.max())) == pytest.approx((1e-3, 0.1), rel=0.02)
    alpha = torch.sigmoid(numbers(0.0)) ** (1 / 16)
    assert float(alpha) == pytest.approx(0.958, abs=1e-3)  # what GLA's gate starts near


def test_own_layer_first():
    layer = setup().layers[2]
    r = draw(first("lime", layer)["r"], (2, 6), torch.Generator().manual_seed(0))
    same(r[:, 4:], torch.eye(2, dtype=torch.float64))
    assert 0 < r[:, :4].abs().max() < math.sqrt(3 / 6)
