"""What is forgotten or changed behind one's back is noticed: undeclared reads, unused parameters, global state."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from helpers import tiny_training
from helpers.fake_distributions import Site, forget_modules
from torch import Tensor, nn

from zoo.config.gin_bridge import reset_config
from zoo.config.load import load_config
from zoo.errors import ConfigError, ZooError
from zoo.extension import AttentionInputs, Layer, Residual, ScoreMixing, Site as At, TemporalMixing, attach_name, called
from zoo.history import READABLE, History, UndeclaredRead
from zoo.kernels.attend import Scores
from zoo.model.build import model
from zoo.model.language_model import LanguageModel
from zoo.plugins.finder import MethodEntry
from zoo.plugins.loader import load_method
from zoo.state import State
from zoo.system import global_state
from zoo.testing.decoding import decode
from zoo.training import trainer
from zoo.training.early_checks import STEPS, Early

TOKENS = torch.arange(12).view(2, 6)


def build(**slots: Any) -> LanguageModel:
    torch.set_num_threads(1)
    return model(16, 8, depth=3, width=16, head_dim=8, **slots)


# --- reading what was not declared


class SumsLayers(Residual):
    """Σ of the FFN outputs below; `declares` is what it says that it reads."""

    def __init__(self, layer: Layer, declares: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.reads = frozenset(declares)

    def write(self, site: At, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return sum(history.ffn, start=stream + branch)


class ReadsHeads(ScoreMixing):
    def __init__(self, layer: Layer) -> None:
        super().__init__()

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        assert history.current.block is not None and history.embedding is not None and history.state is state
        return super().forward(q, k + len(history.heads), inputs, history, state)


TOLD = r'^sums reads history.ffn without declaring it, .*: write reads = frozenset\(\{"ffn"\}\) in SumsLayers$'


def test_what_is_declared_may_be_read() -> None:
    built = build(residual=called("sums", SumsLayers, declares=("ffn",)))
    assert built(TOKENS).isfinite().all()


@pytest.mark.parametrize("how", ["plain", "checkpointed", "compiled", "decoding", "inspected"])
def test_an_undeclared_read_is_an_error_however_it_runs(how: str) -> None:
    built = build(residual=called("sums", SumsLayers)).train(how != "decoding")
    built.checkpoint_activations = how == "checkpointed"
    if how == "compiled":
        built._run_stack = torch.compile(built._stack, backend="eager")
    with pytest.raises(UndeclaredRead, match=TOLD):
        if how == "decoding":
            decode(built, TOKENS, [1] * 6)
        elif how == "inspected":
            list(built.inspect(TOKENS))
        else:
            built.loss(TOKENS, TOKENS)


def test_that_another_method_keeps_it_does_not_help() -> None:
    slots = {"residual": called("sums", SumsLayers, declares=("ffn", "heads"))}
    with pytest.raises(UndeclaredRead, match="^peeks reads history.heads without declaring it"):
        build(**slots, score_mixing=called("peeks", ReadsHeads))(TOKENS)


def test_what_to_write_names_what_is_declared_already() -> None:
    with pytest.raises(UndeclaredRead, match=r'reads = frozenset\(\{"ffn", "ffn_sum"\}\)'):
        build(residual=called("sums", SumsLayers, declares=("ffn_sum",)))(TOKENS)


def test_a_method_may_hand_its_history_to_one_inside_it() -> None:
    class Wraps(Residual):
        def __init__(self, layer: Layer) -> None:
            super().__init__()
            self.inner = SumsLayers(layer, ("ffn",))

        def write(self, site: At, stream: Tensor, branch: Tensor, history: History) -> Tensor:
            return self.inner.write(site, stream, branch, history)

    assert build(residual=Wraps)(TOKENS).isfinite().all()


def test_every_readable_field_is_guarded_and_a_view_can_be_replaced() -> None:
    view = History(torch.zeros(1)).read_by(SumsLayers(None))  # type: ignore[arg-type]
    for told in READABLE.values():
        with pytest.raises(UndeclaredRead):
            getattr(view, told.partition(":")[0].removeprefix("history."))
    assert dataclasses.replace(view, reads=frozenset({"ffn"})).reader is view.reader
    assert view.state is None and view.embedding is not None


def test_the_plain_block_gets_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(History, "read_by", lambda self, reader: pytest.fail("a view for nobody"))
    build()(TOKENS)


# --- names


def test_refusals_name_ids() -> None:
    class Stays(TemporalMixing):
        decodes = False
        site = "attention"

        def __init__(self, layer: Layer) -> None:
            super().__init__()

    with pytest.raises(ZooError, match="^an_id cannot be decoded"):
        decode(build(temporal_mixing=called("an_id", Stays)), TOKENS, [6])
    with pytest.raises(ConfigError, match="^other_id has no scores to mix: the temporal_mixing method an_id stands"):
        build(temporal_mixing=called("an_id", Stays), score_mixing=called("other_id", ReadsHeads))
    loaded = load_config(["wr_9_log"])
    try:
        assert loaded.build("model", vocab_size=16, max_length=8, depth=2).refuses == ["wr_9_log"]
    finally:
        reset_config()


# --- parameters that nothing uses


class HalfUsed(Residual):
    idle = frozenset({"known"})

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.w, self.dead, self.known = (nn.Parameter(torch.ones(())) for _ in range(3))

    def write(self, site: At, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        return stream + branch * self.w


def _told(built: LanguageModel, first: int = 0, steps: int = 100) -> dict[int, list[str]]:
    early, told = Early(built, first, steps), {}
    for step in range(first + 1, min(steps, 12) + 1):
        built.loss(TOKENS, TOKENS).backward()
        told[step] = early.after_backward(step)
        built.zero_grad()
    return {step: lines for step, lines in told.items() if lines}


def test_parameters_without_a_gradient_are_told_once() -> None:
    built = build(residual=called("half", HalfUsed))
    ((step, (line,)),) = _told(built).items()
    assert step == STEPS and line.startswith("parameters of half never received a gradient in the first 10 steps")
    assert "layer 1 residual.dead, layer 2 residual.dead, layer 3 residual.dead;" in line
    assert "known" not in line and "residual.w" not in line
    assert list(_told(built, steps=3)) == [3]  # a short run is told at its end
    assert not _told(built, first=11)  # one that goes on, not again
    assert not _told(build())


def test_a_gate_that_starts_at_zero_is_no_alarm() -> None:
    class Gate(Residual):
        def __init__(self, layer: Layer) -> None:
            super().__init__()
            self.gate, self.w = nn.Parameter(torch.zeros(())), nn.Parameter(torch.ones(()))

        def write(self, site: At, stream: Tensor, branch: Tensor, history: History) -> Tensor:
            return stream + branch * (1 + self.gate * self.w)

    built = build(residual=Gate)
    early, optimizer = Early(built, 0, 100), torch.optim.SGD(built.parameters(), 0.1)
    for step in range(1, 11):
        built.loss(TOKENS, TOKENS).backward()
        assert not early.after_backward(step)
        optimizer.step()
        optimizer.zero_grad()


# --- global state


def _changes(folder: Path) -> dict[str, Callable[[], object]]:
    return {
        "torch's default dtype from float32 to float64": lambda: torch.set_default_dtype(torch.float64),
        "torch's default device from cpu to meta": lambda: torch.set_default_device("meta"),
        "torch's float32 matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
        "torch's deterministic algorithms": lambda: torch.use_deterministic_algorithms(True),
        "torch's cuDNN flags (benchmark)": lambda: setattr(torch.backends.cudnn, "benchmark", True),
        "torch's number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
        "torch's grad mode from True to False": lambda: torch.set_grad_enabled(False),
        "torch's flushing of denormals": lambda: torch.set_flush_denormal(True),
        "torch's default generator": lambda: setattr(torch, "default_generator", torch.Generator()),
        "torch's random state": lambda: torch.manual_seed(77),
        "Python's random state": lambda: random.seed(77),
        "numpy's random state": lambda: numpy.random.seed(77),
        "numpy's error handling (divide": lambda: numpy.seterr(all="raise"),
        "the warnings filters": lambda: warnings.simplefilter("ignore"),
        "signal handlers (SIGTERM)": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
        "the environment (A_NEW_ONE)": lambda: os.environ.update(A_NEW_ONE="1"),
        "the working folder": lambda: os.chdir(folder),
        f"the order of sys.path ({folder} comes": lambda: sys.path.insert(0, str(folder)),
    }


@pytest.mark.parametrize("index", range(18))
def test_every_change_is_named_and_set_back(index: int, tmp_path: Path) -> None:
    name, change = list(_changes(tmp_path).items())[index]
    before = global_state.read()
    with global_state.contained() as changed:
        change()
    assert len(changed) == 1 and changed[0].startswith(name)
    assert not global_state.restore(before)


def test_what_hides_nothing_is_no_change(tmp_path: Path) -> None:
    with global_state.contained() as changed:
        sys.path.append(str(tmp_path))
        warnings.filterwarnings("ignore", message="of a library's own")
    assert not changed
    sys.path.remove(str(tmp_path))


def test_a_method_that_sets_the_dtype_when_it_is_built_is_refused() -> None:
    class Doubles(HalfUsed):
        def __init__(self, layer: Layer) -> None:
            torch.set_default_dtype(torch.float64)
            super().__init__(layer)

    with pytest.raises(ConfigError, match="^twice: w of layer 1 is float64, the model's dtype is float32.*while it is"):
        build(residual=called("twice", Doubles))
    assert torch.get_default_dtype() == torch.float32


def test_what_a_method_changes_when_it_is_built_is_noted() -> None:
    class Seeds(HalfUsed):
        def __init__(self, layer: Layer) -> None:
            super().__init__(layer)
            random.seed(3)

    before = random.getstate()
    assert build(residual=called("seeds", Seeds)).notes == (
        "seeds changes Python's random state while it is built; it is set back",
    )
    assert random.getstate() == before
    assert build(residual=HalfUsed).notes == () == build().notes


def test_what_a_step_changes_is_told_once_and_set_back_always() -> None:
    class Threads(HalfUsed):
        idle = frozenset({"known", "dead"})

        def write(self, site: At, stream: Tensor, branch: Tensor, history: History) -> Tensor:
            torch.set_num_threads(2)
            return super().write(site, stream, branch, history)

    ((step, (line,)),) = _told(build(residual=called("threads", Threads))).items()
    assert step == 1
    assert line == (
        "a training step with threads changes torch's number of threads from 1 to 2; it is set back after every step"
    )
    assert torch.get_num_threads() == 1  # after step 12


# --- at import

CODE = """
import random
import torch
from zoo.extension import Residual
torch.set_default_dtype(torch.bfloat16)
random.seed(1)
print("I am here")


class Method(Residual):
    def __init__(self, layer):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(()))

    def write(self, site, stream, branch, history):
        return stream + branch * self.w
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield Site(tmp_path / "site")
    forget_modules(tmp_path / "site")


def test_an_import_changes_nothing_and_is_reported(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.install("rude", {"residual": {"rude": "rude_module:Method"}}, {"rude_module.py": CODE})
    random.seed(987654321)  # other than the module's, whatever ran before
    before = random.getstate()
    loaded = load_config([], ["model.residual=@residual.rude"])
    try:
        assert loaded.warnings == (
            "importing residual.rude of rude 1.0 changes torch's default dtype from float32 to bfloat16; it is set back",
            "importing residual.rude of rude 1.0 changes Python's random state; it is set back",
        )
        built = loaded.build("model", vocab_size=16, max_length=8, depth=2)
        assert {p.dtype for p in built.parameters()} == {torch.float32}
    finally:
        reset_config()
    assert random.getstate() == before and torch.get_default_dtype() == torch.float32
    from zoo.testing import check

    told = check("rude", only=["contained"])["contained"]  # imported long ago, and still known
    assert told.status == "failed" and "importing it changes torch's default dtype" in told.detail
    out, err = capsys.readouterr()
    assert "I am here" not in out and "I am here" in err


def test_a_failed_import_is_contained_too(site: Site) -> None:
    site.install("rude", {}, {"rude_failing.py": "import torch\ntorch.set_num_threads(7)\nraise ValueError('so')"})
    threads = torch.get_num_threads()
    assert load_method(MethodEntry("residual", "rude", "rude_failing:M", "rude", "1")).error == "ValueError: so"
    assert torch.get_num_threads() == threads


# --- in a run


def test_a_run_says_what_was_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class WithMethod(tiny_training.Model):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            factory = called("half", HalfUsed)
            self.extra = factory(None)  # type: ignore[arg-type]
            attach_name(self.extra, factory)
            self.notes = ("half changes something while it is built; it is set back",)

        def all_parts(self) -> list[Any]:
            return [self.extra]

    made = tiny_training.config(tmp_path, steps=3)
    made.model = WithMethod
    trainer.run(made, tmp_path / "run")  # type: ignore[arg-type]
    err = capsys.readouterr().err
    assert "half changes something while it is built" in err
    assert "parameters of half never received a gradient in the first 3 steps" in err and "extra.dead" in err
