"""Models from Python: the same as those of Gin files, in any loop that takes a module."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import zoo
from zoo.api.models import ModelSettings
from zoo.catalogue.sizes import size
from zoo.config.load import load_config
from zoo.extension import Residual
from zoo.model.build import model as built_by_gin

SMALL = {"vocab_size": 40, "max_length": 16, "depth": 2, "width": 32, "head_dim": 8, "ffn_dim": 48}


def batch(rows: int = 3, length: int = 16, seed: int = 0) -> Tensor:
    return torch.randint(40, (rows, length + 1), generator=torch.Generator().manual_seed(seed))


class Damped(Residual):
    """x + g · branch: a method that no plugin offers."""

    def __init__(self, layer: object) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(0.5))

    def write(self, site: str, stream: Tensor, branch: Tensor, history: object) -> Tensor:
        return torch.addcmul(stream, branch, self.gain)


def test_the_names_are_there_and_cheap() -> None:
    for name in zoo.__all__:
        assert getattr(zoo, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'bild'"):
        zoo.bild  # type: ignore[attr-defined]  # noqa: B018
    code = "import zoo, sys; zoo.methods(); print(sorted({'torch', 'gin', 'fairseq2'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == "[]\n"


def test_the_settings_are_those_of_the_model() -> None:
    of_model = list(inspect.signature(built_by_gin).parameters)[2:]
    assert list(ModelSettings.__annotations__) == of_model


def test_a_model_is_that_of_the_gin_files() -> None:
    loaded = load_config(["v1_m3", "wr_8_2", "sizes/tiny"], ["temporal_mixing.wr_8_2.n = 3", "model.seed = 5"])
    wanted = loaded.build("model", vocab_size=40, max_length=16)
    shape = dict(size("tiny").model)
    found = zoo.build("v1_m3", zoo.method("wr_8_2", n=3), vocab_size=40, max_length=16, seed=5, **shape)
    weights = wanted.state_dict()
    assert weights.keys() == found.state_dict().keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in found.state_dict().items())
    tokens = batch()[:, :-1]
    assert torch.equal(wanted(tokens), found(tokens))


def test_slots_take_names_patterns_and_factories() -> None:
    assert "v1_m3" in zoo.methods("residual") and "wr_8_2" not in zoo.methods("residual")
    hybrid = zoo.build(**SMALL, temporal_mixing=("wr_8_2", None))
    assert [type(part).__name__ for part in hybrid.parts("temporal_mixing")][1] == "TemporalMixing"
    own = zoo.build(**SMALL, residual=Damped)
    assert isinstance(own, zoo.Model) and isinstance(own.parts("residual")[0], Damped)
    assert own.loss(batch()[:, :-1], batch()[:, 1:]).isfinite()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (lambda: zoo.build("v1_mm3", vocab_size=4), "there is no method v1_mm3 (nearest: v1_m3"),
        (lambda: zoo.build("v1_m3", "v1_m4", vocab_size=4), "both stand in the slot residual"),
        (lambda: zoo.build(vocab_size=4, depht=2), "zoo.build has no setting depht (nearest: depth)"),
        (lambda: zoo.build(vocab_size=4, residual="wr_8_2"), "wr_8_2 is a temporal_mixing method"),
        (lambda: zoo.build(Damped, vocab_size=4), "is given to a slot, such as residual="),
        (lambda: zoo.build(vocab_size=0), "model.vocab_size = 0 must be from 1"),
        (lambda: zoo.method("wr_8_2", m=3), "temporal_mixing.wr_8_2 has no setting m"),
        (lambda: zoo.method("wr_8_2", n="3"), "temporal_mixing.wr_8_2.n must be int, not '3'"),
        (lambda: zoo.method(None), "a method is named by a text, not by None"),
        (lambda: zoo.build(vocab_size=4, residual={"gain": 1}), "residual={'gain': 1} is no method: give an id"),
        (lambda: zoo.build(vocab_size=4, residual=()), "residual=() is no method"),
        (lambda: zoo.build(vocab_size=4, residual=(Damped, 3)), "residual=3 is no method"),
        (lambda: zoo.build(vocab_size=4, residual=nn.Identity()), "residual=Identity() is no method"),
        (lambda: zoo.build(vocab_size=4, residual=nn.Linear), "residual.Linear cannot be built: TypeError"),
        (lambda: zoo.build(vocab_size=4, residual=nn.Identity), "the method built a Identity, not a Residual"),
        (lambda: zoo.build(vocab_size=4, init_std=float("nan")), "model.init_std must be float or None, not nan"),
        (lambda: zoo.build(vocab_size=4, start_from=Path("nowhere")), "'nowhere': there is no such folder"),
        (lambda: zoo.methods("residuals"), "there is no slot residuals (nearest: residual)"),
    ],
)
def test_what_cannot_be_built(given: object, complaint: str) -> None:
    with pytest.raises(zoo.ZooError) as error:
        given()  # type: ignore[operator]
    assert complaint in str(error.value)


def test_a_plain_loop_trains_it() -> None:
    model, tokens = zoo.build("v4_m1", **SMALL), batch()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        loss = model.loss(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 1
    twin = copy.deepcopy(model)
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(tokens), model(tokens))


class Lightning(nn.Module):
    """What a LightningModule does with a model, without the library: the trainer calls these by name."""

    def __init__(self, model: zoo.Model) -> None:
        super().__init__()
        self.model = model

    def training_step(self, batch: tuple[Tensor, Tensor], batch_index: int) -> Tensor:
        return self.model.loss(*batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def test_a_lightning_style_caller_trains_it() -> None:
    module, tokens = Lightning(zoo.build("hc_dynamic", **SMALL)), batch()
    module = module.to("cpu").train()
    optimizer, losses = module.configure_optimizers(), []
    for index in range(10):
        with torch.autocast("cpu", torch.bfloat16):  # its precision="bf16-mixed"
            loss = module.training_step((tokens[:, :-1], tokens[:, 1:]), index)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.5
    assert {name.split(".")[0] for name in module.state_dict()} == {"model"}


def test_torch_compile_computes_the_same() -> None:
    model, tokens = zoo.build("wr_8_2", **{**SMALL, "depth": 1}), batch()
    compiled = torch.compile(model, backend="eager")
    assert torch.allclose(compiled(tokens[:, :-1]), model(tokens[:, :-1]), atol=1e-5)
    plain = model.loss(tokens[:, :-1], tokens[:, 1:])
    loss = compiled(tokens[:, :-1], targets=tokens[:, 1:], reduction="mean")
    assert loss.item() == pytest.approx(plain.item(), abs=1e-5)
    gradients = torch.autograd.grad(plain, list(model.parameters()), allow_unused=True)
    loss.backward()
    for parameter, wanted in zip(model.parameters(), gradients, strict=True):
        assert (parameter.grad is None) == (wanted is None)
        assert wanted is None or torch.allclose(parameter.grad, wanted, atol=1e-5)


def test_fit_trains_on_own_batches() -> None:
    model, steps = zoo.build("wr_8_2_gains", **SMALL), []
    losses = zoo.fit(model, [batch(), batch(seed=1)], steps=12, lr=1e-2, on_step=lambda n, loss: steps.append(n))
    assert losses[-1] < losses[0] - 0.5 and steps == list(range(1, 13)) and model.training
    pairs = iter([(batch()[:, :-1], batch()[:, 1:])] * 3)
    assert len(zoo.fit(model, pairs, steps=3, optimizer="muon", schedule="wsd", decay=0.4)) == 3


def test_fit_is_a_run_s_own_step() -> None:
    """The same weights as AdamW with the groups and rates of a run, written out."""
    one, other = zoo.build(**SMALL), zoo.build(**SMALL)
    zoo.fit(one, [batch()], steps=2, lr=0.01, warmup=0.5, weight_decay=0.0, clip=0.0, final_lr=0.1)
    optimizer = torch.optim.AdamW(other.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.0)
    for lr in (0.01, 0.001):  # the warm-up is over after one step of two; then the cosine's end
        optimizer.zero_grad()
        other.loss(batch()[:, :-1], batch()[:, 1:]).backward()
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.step()
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6), name


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (lambda m: zoo.fit(m, iter([batch()]), steps=2), "fewer batches than steps"),
        (
            lambda m: zoo.fit(m, [torch.zeros(3, dtype=torch.long)], steps=1),
            "has the shape (rows, tokens + 1), not (3,)",
        ),
        (lambda m: zoo.fit(m, [(batch(), batch()[:, 1:])], steps=1), "a pair of tensors of one shape"),
        (lambda m: zoo.fit(m, [batch()], steps=1, warmupp=0.1), "has no setting warmupp (nearest: warmup)"),
        (lambda m: zoo.fit(m, None, steps=1), "takes a list of batches, or an iterator of them, and not a NoneType"),
        (lambda m: zoo.fit(m, [None], steps=1), "a batch is a tensor of tokens, or a pair of tensors"),
        (lambda m: zoo.fit(m, [batch()[:0]], steps=1), "a batch of the shape (0, 16) has no tokens"),
        (lambda m: zoo.fit(m, [batch().bool()], steps=1), "tokens are whole numbers, and this batch is of bool"),
        (lambda m: zoo.fit(m, [batch()], steps=1, on_step=3), "on_step is a function of a step and its loss, not 3"),
        (
            lambda m: zoo.fit(m, [batch(length=17)], steps=1),
            "a batch has rows of 17 tokens, and the model is built for 16: give shorter ones, or build it with a larger",
        ),
        (lambda m: zoo.fit(m, [batch()], steps=0), "train.steps = 0 must be at least 1"),
    ],
)
def test_what_cannot_be_fitted(given: object, complaint: str) -> None:
    with pytest.raises(zoo.ZooError) as error:
        given(zoo.build(**SMALL))  # type: ignore[operator]
    assert complaint in str(error.value)


def test_a_setting_of_another_type_is_refused_with_a_sentence() -> None:
    for given, sentence in (
        ({"vocab_size": "64"}, "model.vocab_size must be int, not '64'"),
        ({"depth": 2.0}, "model.depth must be int, not 2.0"),
        ({"tied": 1}, "model.tied must be bool, not 1"),
    ):
        with pytest.raises(zoo.ZooError, match=sentence):
            zoo.build(**{**SMALL, **given})
    assert zoo.build(**{**SMALL, "depth": np.int64(1)}).num_parameters()


@pytest.mark.parametrize(
    ("batches", "sentence"),
    [
        ([torch.full((2, 9), 40)], "tokens from 40 to 40, and the model has those from 0 to 39"),
        ([(torch.zeros(2, 9).long(), torch.full((2, 9), -1))], "tokens from -1 to -1"),
        ([torch.rand(2, 9)], "tokens are whole numbers, and this batch is of float32"),
    ],
    ids=["too large", "negative", "float"],
)
def test_a_batch_that_the_model_has_no_rows_for_is_refused(batches: list[Tensor], sentence: str) -> None:
    with pytest.raises(zoo.ZooError, match=sentence):
        zoo.fit(zoo.build(**SMALL), batches, steps=1)


def test_fit_refuses_another_model_and_settings_of_another_type() -> None:
    with pytest.raises(zoo.ZooError, match="zoo.fit trains a model of zoo.build, or that of a run, and not a Linear"):
        zoo.fit(nn.Linear(2, 2), [batch()], steps=1)  # type: ignore[arg-type]
    with pytest.raises(zoo.ZooError, match="train.lr must be float, not '1e-3'"):
        zoo.fit(zoo.build(**SMALL), [batch()], steps=1, lr="1e-3")  # type: ignore[arg-type]
