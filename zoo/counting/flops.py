"""Parameters and FLOPs of a model, counted without running it.

A FLOP is a multiplication or an addition inside a matrix product, a triangular solve, a convolution, a Fourier transform
or attention; element-wise work is not counted. Torch's own counter and formulas count them in a forward and backward
pass, with these conventions:

- Attention counts the pairs that a causal mask lets through, T(T+1)/2 of T², whichever kernel would make them.
- `flops` is the method's arithmetic: nothing counts that backward makes again in order not to keep it. `flops_executed`
  counts that too: checkpointed parts, and the scores that every fused attention makes again.
- Baselines are matched in `flops`, so that a method does not pay for how little memory it takes.

Nothing is computed: the model is built and run on the meta device, where a tensor is its shape.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.autograd.graph
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

from zoo.errors import PluginError
from zoo.extension import ScoreMixing
from zoo.kernels.attend import Dense, Factors, dense_of, fuses
from zoo.kernels.layer_tail import recompute
from zoo.model.language_model import LanguageModel

# Builds a model; keywords such as ffn_dim and the slots replace those that it has.
Build = Callable[..., LanguageModel]

ALL, AGAIN = "Global", "made again"  # what a counter adds up; the first name is torch's


class TrainingCost(NamedTuple):
    """What a model costs in training; FLOPs are per token, forward and backward."""

    parameters: int
    idle: int  # of the parameters, those that no gradient reaches
    flops: float
    flops_executed: float


def count_parameters(build: Build) -> int:
    """The number of parameters of the model."""
    return skeleton(build).num_parameters()


def training_cost(build: Build, length: int) -> TrainingCost:
    """What the model costs when it is trained on rows of `length` tokens."""
    built, counter = _counted(build, functools.partial(_step, length=length))
    flops: float = counter.arithmetic()
    if counter.dense:
        (flops,) = _to_the_diagonal(lambda rows: [_step(built, length, rows).arithmetic()], length)
    idle = sum(p.numel() for p in built.parameters() if p.grad is None)
    return TrainingCost(built.num_parameters(), idle, flops / length, counter.total() / length)


def forward_flops(build: Build, length: int) -> list[float]:
    """FLOPs per token in a forward pass alone: those of each layer, and at the end those of everything else."""
    built, counter = _counted(build, functools.partial(_forward, length=length))
    parts: list[float] = counter.parts()
    if counter.dense:
        parts = _to_the_diagonal(lambda rows: _forward(built, length, rows).parts(), length)
    return [part / length for part in parts]


def _counted(build: Build, run: Callable[[LanguageModel], Counter]) -> tuple[LanguageModel, Counter]:
    """The model and what `run` counted with it, on the meta device if the model can do without values."""
    try:
        built = skeleton(build)
        return built, run(built)
    except (RuntimeError, NotImplementedError):  # a method that looks at values: count while it really computes
        built = build()
        return built, run(built)


def skeleton(build: Build) -> LanguageModel:
    """The model without its values: on the meta device, where a tensor is its shape."""
    try:
        with torch.device("meta"):
            return build()
    except (RuntimeError, NotImplementedError, PluginError):  # a constructor that looks at values
        return build().to("meta")


def _step(built: LanguageModel, length: int, rows: int | None = None) -> Counter:
    """The products of a training step. A gradient of the logits stands for the loss, in which there is no product."""
    with counting(built, rows) as counter:
        logits = built(_tokens(built, length))
        torch.autograd.backward(logits, torch.ones_like(logits))
    return counter


@torch.no_grad()
def _forward(built: LanguageModel, length: int, rows: int | None = None) -> Counter:
    """The products of a forward pass."""
    with counting(built, rows) as counter:
        built(_tokens(built, length))
    return counter


def _tokens(built: LanguageModel, length: int) -> Tensor:
    return torch.zeros(1, length, dtype=torch.int64, device=next(built.parameters()).device)


class Counter(FlopCounterMode):
    """Torch's counter, with formulas for products in place and the CPU's attention, and a total of what is made again."""

    def __init__(self) -> None:
        aten = torch.ops.aten
        formulas = {
            aten.addmm_: self._product_in_place,
            aten.baddbmm_: self._product_in_place,
            aten._scaled_dot_product_flash_attention_for_cpu: self._attention,
            aten._scaled_dot_product_flash_attention_for_cpu_backward: self._attention_backward,
            aten._fft_r2c: self._real_transform,
            aten._fft_c2r: self._real_transform_back,
            aten._fft_c2c: self._transform,
            aten.linalg_solve_triangular: self._solve,
        }
        super().__init__(display=False, custom_mapping=formulas)
        self.mod_tracker = _Phases()  # type: ignore[assignment]
        self.dense = False  # whether some scores did not factor
        self.marks = [0]  # the total after each layer of a forward pass

    def total(self, name: str = ALL) -> int:
        return sum(self.flop_counts[name].values())

    def arithmetic(self) -> int:
        """All that was counted but what backward made again."""
        return self.total() - self.total(AGAIN)

    def parts(self) -> list[float]:
        """What each layer of a forward pass added, and what came after the last."""
        ends = [*self.marks[1:], self.total()]
        return [float(end - start) for start, end in zip(self.marks, ends, strict=True)]

    def add(self, what: str, flops: int) -> None:
        for name in self.mod_tracker.parents:
            self.flop_counts[name][what] += flops

    def _product_in_place(self, into: Any, a: Any, b: Any, **_: Any) -> int:
        return 2 * math.prod(a) * int(b[-1])

    def _real_transform(self, x: Any, dims: Any, *_: Any, **__: Any) -> int:
        return transform_flops(x, dims) // 2

    def _real_transform_back(self, x: Any, dims: Any, normalization: int, last: int, **_: Any) -> int:
        whole = [*x]
        whole[dims[-1]] = last
        return transform_flops(whole, dims) // 2

    def _transform(self, x: Any, dims: Any, *_: Any, **__: Any) -> int:
        return transform_flops(x, dims)

    def _solve(self, a: Any, b: Any, *, left: bool = True, **_: Any) -> int:
        return math.prod(b) * int(a[-1])  # half the pairs of a product, two operations each

    def _attention(self, q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, **_: Any) -> int:
        return attention_flops(q, k, v, causal)

    def _attention_backward(
        self, grad: Any, q: Any, k: Any, v: Any, out: Any, norms: Any, dropout: float, causal: bool, **_: Any
    ) -> int:
        again = attention_flops(q, k, v, causal, values=False)
        self.flop_counts[AGAIN]["scores"] += again
        return 2 * attention_flops(q, k, v, causal) + again


def attention_flops(q: Any, k: Any, v: Any, causal: bool, values: bool = True) -> int:
    """FLOPs of attention's forward pass, from the shapes (B, H, T, d), (B, H, S, d), (B, H, S, d): scores and values."""
    batch, heads, rows, width = q
    pairs = rows * (rows + 1) // 2 if causal else rows * k[2]
    return 2 * batch * heads * pairs * (width + (v[3] if values else 0))


def transform_flops(shape: Any, dims: Any) -> int:
    """FLOPs of a complex Fourier transform along some dimensions: 5 n log₂ n for n numbers; a real one takes half."""
    points = math.prod(shape[dim] for dim in dims)
    return round(5 * math.prod(shape) * math.log2(points))


class _Phases:
    """Stands in for torch's tracker of modules: its totals are by whether something is being made again."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    @property
    def parents(self) -> set[str]:
        return {ALL, AGAIN} if _recomputed() else {ALL}


def _recomputed() -> bool:
    """Whether backward is under way and making something again that forward did not keep."""
    frame = sys._getframe()
    inside = False
    while frame := frame.f_back:  # type: ignore[assignment]
        file = frame.f_code.co_filename
        if file == torch.autograd.graph.__file__:  # from here the engine was called
            return inside
        inside = inside or file == torch.utils.checkpoint.__file__ or frame.f_code is recompute.__code__
    return False


@contextlib.contextmanager
def counting(built: LanguageModel, rows: int | None = None) -> Iterator[Counter]:
    """Count what is done with the model inside; dense scores are made in blocks of `rows` rows, where that is given."""
    counter = Counter()

    def look(module: nn.Module, args: object, answer: object) -> object:
        if isinstance(answer, Factors) and answer.null is not None and not fuses(answer, answer.terms[0].q):
            answer = dense_of(answer)
        if not isinstance(answer, Dense):
            return answer
        counter.dense = True
        return answer if rows is None else answer._replace(rows_at_once=rows)

    def mark(module: nn.Module, args: object, answer: object) -> None:
        counter.marks.append(counter.total())

    hooks = [m.register_forward_hook(look) for m in built.modules() if isinstance(m, ScoreMixing)]
    hooks += [layer.register_forward_hook(mark) for layer in built.layers]
    on_meta = next(built.parameters()).is_meta
    try:
        with _FusedAttention(counter) if on_meta else contextlib.nullcontext(), counter:
            yield counter
    finally:
        for hook in hooks:
            hook.remove()


class _FusedAttention(TorchFunctionMode):
    """On the meta device torch takes attention apart, over all T² pairs: here it stays one operation."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self.counter = counter

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        called = self._attend if func is F.scaled_dot_product_attention else func
        return called(*args, **(kwargs or {}))

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: object = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **_: object,
    ) -> Any:
        return _Attention.apply(self.counter, is_causal, query, key, value)


class _Attention(torch.autograd.Function):
    """Attention on shapes alone: adds its FLOPs to the counter, and computes nothing."""

    @staticmethod
    def forward(ctx: Any, counter: Counter, causal: bool, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.counter, ctx.causal = counter, causal
        ctx.save_for_backward(q, k, v)
        counter.add("attention", attention_flops(q.shape, k.shape, v.shape, causal))
        return q.new_empty(*q.shape[:-1], v.size(-1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        shapes = (None, q.shape, k.shape, v.shape, None, None, 0.0, ctx.causal)
        ctx.counter.add("attention backward", ctx.counter._attention_backward(*shapes))
        return None, None, torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _to_the_diagonal(count: Callable[[int], list[float]], length: int) -> list[float]:
    """What `count` would be in blocks of one row: linear in the number of pairs, so two sizes of block tell it."""
    if length == 1:
        return count(1)
    half = (length + 1) // 2
    whole, halves = count(length), count(half)
    share = (_pairs(length, length) - _pairs(length, 1)) / (_pairs(length, length) - _pairs(length, half))
    return [w - (w - h) * share for w, h in zip(whole, halves, strict=True)]


def _pairs(length: int, rows: int) -> int:
    """The pairs of queries and keys that are made in blocks of so many rows, each up to its last row's own key."""
    ends = [min(first + rows, length) for first in range(0, length, rows)]
    return sum(end * (end - first) for first, end in zip(range(0, length, rows), ends, strict=True))
