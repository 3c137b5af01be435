"""Parameters and FLOPs of a model, counted without running it.

A FLOP is a multiplication or an addition inside a matrix product, a triangular solve, a convolution, a Fourier transform
or attention; element-wise work is not counted. Torch's own counter and formulas count them in a forward and backward
pass, with these conventions:

- Attention counts the pairs that its mask lets through, whichever kernel would make them: T(T+1)/2 of T² where it is
  causal, those of the band where a mask leaves a sliding window.
- A fast Fourier transform of n numbers counts 5 n log₂ n, of real numbers half of that; a triangular solve with n unknowns
  counts n² per right-hand side.
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
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.autograd.graph
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import FlopCounterMode

from zoo.counting.counted_build import counted_once
from zoo.errors import PluginError, ZooError
from zoo.extension import ScoreMixing, is_plain, name_of
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

    @property
    def live(self) -> int:
        """The parameters that a gradient reaches: those that a model is matched in."""
        return self.parameters - self.idle


def count_parameters(build: Build) -> int:
    """The number of parameters of the model."""
    return skeleton(build).num_parameters()


def training_cost(build: Build, length: int) -> TrainingCost:
    """What the model costs when it is trained on rows of `length` tokens."""
    return counted_once(f"training, {length} tokens", build, lambda: _training_cost(build, length))


def _training_cost(build: Build, length: int) -> TrainingCost:
    built, counter = _counted(build, functools.partial(_step, length=length))
    flops: float = counter.arithmetic()
    if counter.dense:
        (flops,) = _to_the_diagonal(lambda rows: [_step(built, length, rows).arithmetic()], length)
    idle = sum(p.numel() for p in _idle(built))
    return TrainingCost(built.num_parameters(), idle, flops / length, counter.total() / length)


def _idle(built: LanguageModel) -> list[nn.Parameter]:
    """The parameters that got no gradient in a step, or that a method declares idle."""
    declared = {id(extension.get_parameter(name)) for extension in built.extensions() for name in extension.idle}
    return [p for p in built.parameters() if p.grad is None or id(p) in declared]


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
    except ZooError:
        raise
    except Exception:  # a method that looks at values: count while it really computes
        built = build()
        try:
            return built, run(built)
        except Exception as error:
            raise _uncountable(built, error) from error


def _uncountable(built: LanguageModel, error: Exception) -> Exception:
    """What to raise where a pass through the model ends with an error: it names the methods there are, and the place."""
    names = dict.fromkeys(name_of(each) for each in built.extensions() if not is_plain(each))
    if isinstance(error, ZooError) or not names:
        return error
    frame = traceback.extract_tb(error.__traceback__)[-1]
    told = f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
    return PluginError(f"{' with '.join(names)}: a training step ends with {told}; zoo-plugins check examines a method")


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
        return attention_flops(q, k, v, causal_pairs(q, k) if causal else None)

    def _attention_backward(
        self, grad: Any, q: Any, k: Any, v: Any, out: Any, norms: Any, dropout: float, causal: bool, **_: Any
    ) -> int:
        return self.attention_backward(q, k, v, causal_pairs(q, k) if causal else None)

    def attention_backward(self, q: Any, k: Any, v: Any, pairs: float | None) -> int:
        """FLOPs of attention's backward pass; notes how many of them make the scores again."""
        again = attention_flops(q, k, v, pairs, values=False)
        self.flop_counts[AGAIN]["scores"] += again
        return 2 * attention_flops(q, k, v, pairs) + again


def causal_pairs(q: Any, k: Any) -> int:
    """The pairs of a query and a key up to its own, from the shapes (B, H, T, d) and (B, H, S, d)."""
    rows: int = q[2]
    return rows * (rows + 1) // 2


def attention_flops(q: Any, k: Any, v: Any, pairs: float | None, values: bool = True) -> int:
    """FLOPs of attention's forward pass, scores and values, from the shapes (B, H, T, d), (B, H, S, d), (B, H, S, d).

    `pairs` is how many of the T·S pairs each head attends to; None: all.
    """
    batch, heads, rows, width = q
    seen = rows * k[2] if pairs is None else pairs
    return round(2 * batch * heads * seen * (width + (v[3] if values else 0)))


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
    try:
        with _FusedAttention(counter), counter:
            yield counter
    finally:
        for hook in hooks:
            hook.remove()


class _FusedAttention(TorchFunctionMode):
    """Attention as one operation where torch would not tell what it costs.

    On the meta device torch takes it apart, over all T² pairs; and of a mask the counter sees the shape alone.
    """

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
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **others: Any,
    ) -> Any:
        learned = attn_mask is not None and attn_mask.requires_grad
        if learned or (attn_mask is None and not query.is_meta):
            return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **others)
        pairs: float | None = None
        if is_causal:
            pairs = causal_pairs(query.shape, key.shape)
        elif attn_mask is not None:
            pairs = _visible(attn_mask)
        return _Attention.apply(self.counter, pairs, attn_mask, others.get("scale"), query, key, value)


def _visible(mask: Tensor) -> float:
    """How many pairs a mask lets through, on average over sequences and heads."""
    if mask.is_meta:
        raise NotImplementedError("a mask has no values on the meta device")  # then the model is counted as it computes
    seen = mask if mask.dtype == torch.bool else mask > float("-inf")
    return float(seen.sum()) / math.prod(seen.shape[:-2])


@contextlib.contextmanager
def _uncounted() -> Iterator[None]:
    """Compute without being counted."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


class _Attention(torch.autograd.Function):
    """Attention that adds its FLOPs to the counter; on the meta device it computes nothing."""

    @staticmethod
    def forward(
        ctx: Any,
        counter: Counter,
        pairs: float | None,
        mask: Tensor | None,
        scale: float | None,
        q: Tensor,
        k: Tensor,
        v: Tensor,
    ) -> Tensor:
        ctx.counter, ctx.pairs, ctx.mask, ctx.scale = counter, pairs, mask, scale
        ctx.save_for_backward(q, k, v)
        counter.add("attention", attention_flops(q.shape, k.shape, v.shape, pairs))
        if q.is_meta:
            return q.new_empty(*q.shape[:-1], v.size(-1))
        with _uncounted():
            return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        ctx.counter.add("attention backward", ctx.counter.attention_backward(q.shape, k.shape, v.shape, ctx.pairs))
        if q.is_meta:
            return None, None, None, None, *(torch.empty_like(x) for x in (q, k, v))
        with _uncounted(), torch.enable_grad():
            q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
            out = F.scaled_dot_product_attention(q, k, v, ctx.mask, scale=ctx.scale)
            return None, None, None, None, *torch.autograd.grad(out, (q, k, v), grad)


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
