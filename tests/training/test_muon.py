"""Muon for hidden matrices, AdamW for the rest."""

from __future__ import annotations

import copy
import math
import subprocess
import sys

import torch

from zoo.extension import hint
from zoo.model.build import model
from zoo.training.muon import Joined
from zoo.training.optimizer import OPTIMIZERS, make_optimizer
from zoo.training.settings import Settings

SETTINGS = Settings(optimizer="muon", lr=0.01, weight_decay=0.1, momentum=0.9)


def built(**settings: object) -> torch.nn.Module:
    return model(17, 8, depth=2, aspect=8, qk_norm=True, **settings)  # type: ignore[arg-type]


def names(of: torch.nn.Module, optimizer: torch.optim.Optimizer) -> set[str]:
    by_id = {id(parameter): name for name, parameter in of.named_parameters()}
    return {by_id[id(p)] for group in optimizer.param_groups for p in group["params"]}


def test_each_parameter_has_the_optimiser_that_it_should_have() -> None:
    of = built(tied=False)
    hint(of.layers[1].ffn.down, decay=True, lr_factor=2.0)  # type: ignore[union-attr, arg-type]
    made = make_optimizer(of, SETTINGS)
    assert isinstance(made, Joined)
    muon, adamw = made.parts
    matrices = {"attention.qkv", "attention.out", "ffn.gate_up", "ffn.down"}
    assert names(of, muon) == {f"layers.{i}.{name}" for i in (0, 1) for name in matrices} - {"layers.1.ffn.down"}
    assert names(of, muon) | names(of, adamw) == {name for name, _ in of.named_parameters()}
    assert {"embed.weight", "output", "norm.gain", "layers.1.ffn.down"} <= names(of, adamw)
    by_factor = {group["lr_factor"]: group["lr"] for group in adamw.param_groups}
    assert by_factor == {1.0: 0.01, 2.0: 0.02}


def test_a_step_is_the_orthogonal_factor_of_the_mean_gradient_at_adamws_size() -> None:
    of = built()
    weight = of.layers[0].attention.out  # type: ignore[union-attr]
    before = weight.detach().clone()
    gradient = torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    weight.grad = gradient.clone()
    make_optimizer(of, SETTINGS).step()
    update = (before * (1 - 0.01 * 0.1) - weight.detach()) / 0.01
    u, _, vh = torch.linalg.svd(gradient)
    scale = 0.2 * math.sqrt(max(weight.shape))
    values = torch.linalg.svdvals(update) / scale
    assert float(values.min()) > 0.6 and float(values.max()) < 1.3  # five Newton–Schulz steps are no exact ones
    aligned = torch.sum(update * (u @ vh)) / (update.norm() * math.sqrt(weight.size(0)))
    assert aligned > 0.97
    assert 0.1 < float(update.square().mean().sqrt()) < 0.3  # AdamW's is about 0.2


def test_its_state_returns_and_goes_on_in_the_same_bits() -> None:
    def train(of: torch.nn.Module, optimizer: Joined, steps: int) -> None:
        for _ in range(steps):
            of.loss(torch.arange(8)[None], torch.arange(1, 9)[None]).backward()  # type: ignore[operator]
            optimizer.step()
            optimizer.zero_grad()

    whole = built()
    first = make_optimizer(whole, SETTINGS)
    assert isinstance(first, Joined)
    train(whole, first, 2)
    saved = copy.deepcopy((whole.state_dict(), first.state_dict()))
    train(whole, first, 2)
    again = built()
    second = make_optimizer(again, SETTINGS)
    assert isinstance(second, Joined)
    again.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    train(again, second, 2)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_it_keeps_no_more_than_it_says() -> None:
    of = built()
    made = make_optimizer(of, SETTINGS)
    of.loss(torch.arange(8)[None], torch.arange(1, 9)[None]).backward()  # type: ignore[operator]
    made.step()
    assert isinstance(made, Joined)
    tensors = [v for part in made.parts for state in part.state.values() for v in state.values() if v.numel() > 1]
    assert sum(t.numel() for t in tensors) <= OPTIMIZERS["muon"].numbers * sum(p.numel() for p in of.parameters())


def test_the_embedding_decays_unless_it_is_told_not_to() -> None:
    of = built()
    for optimizer in ("adamw", "muon"):
        for decays in (True, False):
            made = make_optimizer(of, Settings(optimizer=optimizer, decay_embeddings=decays))
            embedding = id(of.embed.weight)  # type: ignore[union-attr]
            (group,) = [g for g in made.param_groups if embedding in map(id, g["params"])]
            assert group["weight_decay"] == (0.1 if decays else 0.0)


def test_torchs_compiler_is_not_imported_for_it() -> None:
    code = (
        "import sys, torch; from zoo.training.optimizer import make_optimizer; from zoo.training.settings import Settings;"
        "m = torch.nn.Linear(3, 2); o = make_optimizer(m, Settings(optimizer='muon')); m(torch.ones(1, 3)).sum().backward();"
        "o.step(); o.zero_grad(); o.load_state_dict(o.state_dict()); assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
