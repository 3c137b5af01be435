"""A model, data and configuration that train in no time, for tests of the trainer; a test can make them misbehave."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.data.batches import Evaluation
from zoo.kernels.cross_entropy import Score
from zoo.runs import checkpoint
from zoo.runs.metrics import read_rows
from zoo.runs.summary import Summary
from zoo.runs.trackers import RecordSettings
from zoo.training import settings as settings_module, trainer

VOCABULARY, LENGTH, BATCH = 13, 8, 4
TIMES = {"tokens_per_second", "peak_memory"}  # what no two runs share


class SpoiltGradient(torch.autograd.Function):
    """The identity, whose gradient is infinite."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * float("inf")


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.gate = nn.Parameter(torch.ones(()))
        self.scale = nn.Parameter(torch.ones(width))
        self.rate = 0.1  # of dropout
        self.spoilt = ""  # "forward" or "backward", of training, or "evaluation"

    def forward(self, x: Tensor) -> Tensor:
        branch = self.inner(x).tanh()
        if self.rate:
            branch = F.dropout(branch, self.rate, self.training)
        if self.spoilt == ("forward" if self.training else "evaluation"):
            branch = branch * float("nan")
        y = x + self.gate * self.scale * branch
        return SpoiltGradient.apply(y) if self.spoilt == "backward" else y


class Model(nn.Module):
    """Two layers, with all that the trainer asks of a model."""

    def __init__(self, vocab_size: int, max_length: int, seed: int = 0, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(vocab_size, width)
        self.layers = nn.ModuleList([Layer(width), Layer(width)])
        self.norm = nn.LayerNorm(width)
        self.unused = nn.Parameter(torch.ones(3))  # methods may leave one
        self.checkpoint_activations = False
        self.compiled = False
        self.notes = ()

    def hidden(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def logits(self, tokens: Tensor) -> Tensor:
        return self.hidden(tokens) @ self.embed.weight.T

    def forward(
        self, tokens: Tensor, targets: Tensor | None = None, reduction: str = "sum", z_loss: float = 0.0
    ) -> Tensor:
        logits = self.logits(tokens)
        return (
            logits if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)
        )

    def evaluate(self, tokens: Tensor, targets: Tensor) -> Score:
        logits, flat = self.logits(tokens).flatten(0, 1), targets.flatten()
        nll = F.cross_entropy(logits, flat, reduction="sum", ignore_index=-100)
        return Score(nll, (logits.argmax(-1) == flat).sum(), int((flat != -100).sum()))

    def inspect(self, tokens: Tensor, targets: Tensor) -> Iterator[tuple[str, Tensor]]:
        x = self.embed(tokens)
        yield "embedding", x
        for number, layer in enumerate(self.layers, start=1):
            x = layer(x)
            yield f"layer {number} output", x
        yield "loss", F.cross_entropy((self.norm(x) @ self.embed.weight.T).flatten(0, 1), targets.flatten())

    def probes(self) -> dict[str, dict[int, Tensor]]:
        layers = list(enumerate(self.layers, start=1))
        gates = {number: layer.gate.detach() for number, layer in layers}
        return {"gate": gates, "scale": {number: layer.scale.detach() for number, layer in layers}}

    def activations(self, tokens: Tensor) -> dict[str, dict[int, Tensor]]:
        return {}

    def all_parts(self) -> list[Any]:
        return []

    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def compile_stack(self) -> None:
        self.compiled = True


def without_dropout(vocab_size: int, max_length: int, seed: int) -> Model:
    """A model whose steps need no random numbers."""
    model = Model(vocab_size, max_length, seed)
    for layer in model.layers:
        layer.rate = 0.0
    return model


class Reader:
    """Endless batches; what a batch holds depends on seed, rank and its number alone."""

    def __init__(self, seed: int, rank: int, world: int, before: Callable[[int], None]) -> None:
        self.seed, self.rank, self.world, self.before = seed, rank, world, before
        self.number = 0

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> Tensor:
        self.number += 1
        self.before(self.number)
        generator = torch.Generator().manual_seed(1000 * self.seed + (self.number - 1) * self.world + self.rank)
        start = torch.randint(VOCABULARY, (BATCH, 1), generator=generator)
        return (start + torch.arange(LENGTH + 1)) % VOCABULARY  # counting: easy to learn

    def state_dict(self) -> dict[str, Any]:
        return {"number": self.number}

    def load_states(self, states: list[dict[str, Any]]) -> None:
        self.number = states[0]["number"] * len(states) // self.world


def nothing(number: int) -> None:
    """Do nothing before a batch."""


class Data:
    """A corpus that counts."""

    def __init__(self, tokenizer: Path, before: Callable[[int], None] = nothing, fingerprint: str = "counting") -> None:
        self.tokenizer = SimpleNamespace(
            path=tokenizer,
            content=tokenizer.read_bytes(),
            identity=hashlib.sha256(tokenizer.read_bytes()).hexdigest(),
            vocab_size=VOCABULARY,
            padded_size=VOCABULARY,
        )
        self.length, self.batch_size, self.fingerprint, self.before = LENGTH, BATCH, fingerprint, before
        self.cross_documents = True
        self.name, self.notes = "counting", ("this corpus only counts",)

    def train(self, seed: int, rank: int = 0, world: int = 1) -> Reader:
        return Reader(seed, rank, world, self.before)

    def evaluate(self, split: str) -> Iterator[tuple[Tensor, Tensor]]:
        block = torch.arange(LENGTH + 1)
        for start in range(0, VOCABULARY, 3):
            rows = torch.stack([(block + start + row) % VOCABULARY for row in range(3)])
            targets = rows[:, 1:].clone()
            targets[0, -2:] = -100
            yield rows[:, :-1], targets

    def evaluations(self, split: str) -> list[Evaluation]:
        return [Evaluation("counting", 1.0, self.tokens(split), 1000, self.evaluate(split))]

    def passes(self, tokens: Tensor, targets: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [(tokens, targets)]

    def tokens(self, split: str) -> int:
        return 5 * (3 * LENGTH - 2)

    def unigram_entropy(self, split: str) -> float:
        return 2.56

    def compressed_bits(self, split: str) -> float:
        return 0.0


@dataclasses.dataclass
class Config:
    """What `zoo.config.load.load_config` returns, as far as the trainer looks."""

    data: Data
    settings: dict[str, Any]
    model: Callable[..., nn.Module] = Model
    writers: tuple[str, ...] = ()
    files: tuple[tuple[Path, str], ...] = ((Path("gin/some.gin"), "train.steps = 1\n"),)
    bindings: tuple[str, ...] = ("train.lr = 1.0",)
    plugins: tuple[Any, ...] = ()
    restated: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    built: list[Any] = dataclasses.field(default_factory=list)

    @property
    def values(self) -> dict[str, Any]:
        records = {"records.writers": self.writers} if self.writers else {}
        return {**records, **{f"train.{name}": value for name, value in sorted(self.settings.items())}}

    @property
    def text(self) -> str:
        return "".join(f"{key} = {value!r}\n" for key, value in self.values.items())

    def build(self, name: str, **arguments: Any) -> Any:
        made = {
            "train": lambda: settings_module.Settings(**self.settings),
            "records": lambda: RecordSettings(self.writers),
            "data": lambda: self.data,
            "model": self.model,
        }[name](**arguments)
        self.built.append(made)
        return made

    def operative(self) -> str:
        return self.text + "train.of_old = 1\n"

    def whole(self) -> dict[str, str]:
        return {key: repr(value) for key, value in self.values.items()} | {"train.of_late": "2"}

    def unused(self) -> list[str]:
        return []


def config(
    folder: Path,
    before: Callable[[int], None] = nothing,
    fingerprint: str = "counting",
    writers: tuple[str, ...] = (),
    **settings: Any,
) -> Config:
    """A short run: a validation every 4 steps, a checkpoint every 3, a row every 2."""
    tokenizer = folder / "tokenizer"
    if not tokenizer.exists():
        tokenizer.write_bytes(b"one two three")
    short = {"steps": 12, "lr": 0.05, "validate_every": 4, "save_every": 3, "log_every": 2, "device": "cpu"}
    return Config(Data(tokenizer, before, fingerprint), {**short, **settings}, writers=writers)


def outcome(run: Path) -> dict[str, Any]:
    """All of a run that must be the same bit for bit in an equal run: rows, last weights, optimiser, final figures."""
    rows = [{key: value for key, value in row.items() if key not in TIMES} for row in read_rows(run)]
    kept = checkpoint.read(checkpoint.listed(run / "checkpoints")[-1])
    summary = json.loads((run / "summary.json").read_text())
    speeds = ("tokens_per_second", "steps_per_second", "samples_per_second", "evaluation_seconds")
    for changing in ("seconds", "stamps", "peak_memory", *speeds):
        del summary[changing]
    return {
        "rows": rows,
        "summary": summary,
        "model": digest(kept["model"]),
        "optimizer": digest(kept["optimizer"].get("state", kept["optimizer"])),
    }


def digest(tensors: Any) -> str:
    """A hash of every tensor in nested dictionaries."""
    if isinstance(tensors, dict):
        return hashlib.sha256("".join(f"{key}:{digest(value)}" for key, value in tensors.items()).encode()).hexdigest()
    return hashlib.sha256(tensors.contiguous().numpy().tobytes()).hexdigest()


def go(config: Config, run: Path) -> Summary:
    """Run quietly."""
    return trainer.run(config, run, show=False)  # type: ignore[arg-type]


def write_corpus(folder: Path) -> Path:
    """A little text that real runs can learn: a folder with its splits."""
    words = ["red", "green", "blue", "one", "two", "three", "north", "south", "east", "west"]
    for split, count in (("train", 1500), ("valid", 60), ("test", 60)):
        lines = [" ".join(words[(i * k + k) % 10] for k in range(1, 9)) + f" {i * 7919 % 997}." for i in range(count)]
        (folder / f"{split}.txt").write_text("\n".join(lines))
    return folder


def saved(run: Path, index: int = -1) -> dict[str, Any]:
    """What a checkpoint of a run holds; the last one unless told."""
    return checkpoint.read(checkpoint.listed(run / "checkpoints")[index])
