"""The recurrences of `zoo.scan` against their loops: any chunk and length, gradients, and what breaks the obvious forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import naive_recurrences as naive
from torch import Tensor

from zoo import scan
from zoo.kernels import channel_decay

CHUNK = 4
LENGTHS = [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3]


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64).to(dtype)


def given(kernel: str, length: int, strength: float = 1.0) -> list[Tensor]:
    """What a kernel takes, in float64: the start is the last."""
    batch, heads, keys, values = 2, 2, 3, 5
    q, k, v = (normal(batch, length, heads, n, seed=i) for i, n in enumerate((keys, keys, values)))
    k = F.normalize(k, dim=-1)
    start = normal(batch, heads, keys, values, seed=9)
    decay = -strength * normal(batch, length, heads, seed=4).exp()
    if kernel == "linear_scan":
        return [torch.sigmoid(normal(batch, length, 6) / strength), normal(batch, length, 6, seed=1), normal(batch, 6)]
    if kernel == "scalar_decay":
        return [q, k, v, decay, start]
    if kernel == "shared_keys":
        return [q[:, :, :1], k[:, :, :1], v, decay, start]
    if kernel == "weighted":
        weight, skip = normal(batch, length, heads, seed=6), normal(heads)
        return [q[:, :, :1], k[:, :, :1], v, decay, weight, skip, start]
    if kernel == "channel_decay":
        return [q, k, v, -strength * normal(batch, length, heads, keys, seed=5).exp(), start]
    if kernel == "delta_rule":
        return [q, k, v, 2 * torch.sigmoid(normal(batch, length, heads, seed=6)), decay, start]
    x, delta = normal(batch, length, 6), strength * normal(batch, length, 6, seed=1).exp()
    b, c = normal(batch, length, 3, seed=2), normal(batch, length, 3, seed=3)
    return [x, delta, -normal(6, 3).exp(), b, c, normal(batch, 6, 3)]


def weighted(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    weight: Tensor,
    skip: Tensor,
    start: Tensor | None = None,
    **settings: int,
) -> tuple[Tensor, Tensor]:
    return scan.scalar_decay(q, k, v, g, start, weight=weight, skip=skip, **settings)


KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "linear_scan": (scan.linear_scan, naive.linear_scan),
    "scalar_decay": (scan.scalar_decay, naive.decayed),
    "shared_keys": (scan.scalar_decay, naive.decayed),
    "weighted": (weighted, naive.weighted),
    "channel_decay": (scan.channel_decay, naive.decayed),
    "delta_rule": (scan.delta_rule, naive.delta_rule),
    "selective_scan": (scan.selective_scan, naive.selective_scan),
}


def same(left: Tensor, right: Tensor, tolerance: float = 1e-11) -> None:
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def gradients(answer: tuple[Tensor, Tensor], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    total = sum((x * normal(*x.shape, seed=7)).sum() for x in answer)
    return torch.autograd.grad(total, inputs)


@pytest.mark.parametrize("strength", [0.1, 300.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_equals_its_loop(kernel: str, strength: float) -> None:
    """Values, states and all gradients, that of the first state too; with a strong decay as well."""
    ours, loop = KERNELS[kernel]
    for length in LENGTHS:
        inputs = [x.requires_grad_() for x in given(kernel, length, strength)]
        theirs = loop(*inputs)
        wanted = gradients(theirs, inputs)
        for chunk in (1, CHUNK, length, 64):
            mine = ours(*inputs, chunk=chunk)
            for left, right in zip((*mine, *gradients(mine, inputs)), (*theirs, *wanted), strict=True):
                same(left, right)


@pytest.mark.parametrize("kernel", KERNELS)
def test_any_split_of_a_sequence_gives_the_whole(kernel: str) -> None:
    ours, _ = KERNELS[kernel]
    inputs = given(kernel, 11)
    whole, last = ours(*inputs, chunk=CHUNK)
    *rest, state = inputs
    rows, first = [], 0
    for size in (2, 5, 1, 3):
        part = [x[:, first : first + size] if x.dim() > 2 else x for x in rest]
        out, state = ours(*part, state, chunk=CHUNK)
        rows.append(out)
        first += size
    same(torch.cat(rows, dim=1), whole)
    same(state, last)


@pytest.mark.parametrize("kernel", KERNELS)
def test_without_a_start_it_is_zero(kernel: str) -> None:
    ours, _ = KERNELS[kernel]
    *rest, start = given(kernel, 5)
    for mine, zero in zip(ours(*rest, chunk=2), ours(*rest, torch.zeros_like(start), chunk=2), strict=True):
        same(mine, zero)


@pytest.mark.parametrize("kernel", KERNELS)
def test_compiled_it_is_the_same(kernel: str) -> None:
    ours, _ = KERNELS[kernel]
    inputs = [x.requires_grad_() for x in given(kernel, 7)]
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    mine, eager = compiled(*inputs, chunk=CHUNK), ours(*inputs, chunk=CHUNK)
    for left, right in zip((*mine, *gradients(mine, inputs)), (*eager, *gradients(eager, inputs)), strict=True):
        same(left, right)
    *rest, start = inputs
    start.requires_grad_(False)  # no gradient of the start is asked for, none comes of the rows or of the state
    for part in (0, 1):
        outs = [f(*inputs, chunk=CHUNK)[part] for f in (compiled, ours)]
        for left, right in zip(
            *(torch.autograd.grad(x.square().sum(), rest, allow_unused=True) for x in outs), strict=True
        ):
            same(torch.zeros(()) if left is None else left, torch.zeros(()) if right is None else right)


@pytest.mark.parametrize("kernel", KERNELS)
def test_compiled_its_length_costs_no_operations(kernel: str) -> None:
    """A compiler sees one operator, however long the sequence is: a loop that it wrote out would take minutes to trace."""
    counts: list[int] = []

    def counting(module: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        counts.append(len(module.graph.nodes))
        return module

    ours, _ = KERNELS[kernel]
    for length in (8, 256):
        torch._dynamo.reset()
        torch.compile(ours, backend=counting, fullgraph=True)(*given(kernel, length), chunk=CHUNK)
    assert counts[0] == counts[1] < 40


@pytest.mark.parametrize("decays", [False, True])
def test_a_weight_or_a_skip_alone(decays: bool) -> None:
    q, k, v, g, weight, skip, start = (x.requires_grad_() for x in given("weighted", 11))
    none, nothing = torch.ones_like(weight), torch.zeros_like(skip)
    log_decay = g if decays else torch.zeros_like(g)
    for each in ({"weight": weight}, {"skip": skip}, {"weight": weight, "skip": skip}):
        inputs = [q, k, v, *each.values(), start, *([g] if decays else [])]
        mine = scan.scalar_decay(q, k, v, g if decays else None, start, **each, chunk=4)
        theirs = naive.weighted(q, k, v, log_decay, each.get("weight", none), each.get("skip", nothing), start)
        for left, right in zip((*mine, *gradients(mine, inputs)), (*theirs, *gradients(theirs, inputs)), strict=True):
            same(left, right)


def test_a_decay_that_never_changes() -> None:
    q, k, v, _, start = given("scalar_decay", 11)
    for length in (8, 11):  # with whole chunks it is spread over them, else written out
        rows = [x[:, :length] for x in (q, k, v)]
        g = torch.tensor([-0.1, -3.0], dtype=torch.float64, requires_grad=True)
        theirs = naive.decayed(*rows, g.expand(2, length, 2), start)
        for mine in (scan.scalar_decay(*rows, g.detach(), start, chunk=4), scan.scalar_decay(*rows, g, start, chunk=4)):
            same(mine[0], theirs[0])
            same(mine[1], theirs[1])
        same(*(gradients(each, [g])[0] for each in (mine, theirs)))
    plain, nothing = (
        scan.scalar_decay(q, k, v, None, start, chunk=4),
        naive.decayed(q, k, v, torch.zeros(2, 11, 2), start),
    )
    same(plain[0], nothing[0])
    same(plain[1], nothing[1])


def test_long_convolution() -> None:
    u, kernel = normal(2, 9, 3).requires_grad_(), normal(12, 3).requires_grad_()
    mine, theirs = scan.long_convolution(u, kernel), naive.long_convolution(u, kernel)
    same(mine, theirs)
    for left, right in zip(gradients((mine, mine), [u, kernel]), gradients((theirs, theirs), [u, kernel]), strict=True):
        same(left, right)
    for inputs in ([u, kernel.detach()], [u.detach(), kernel]):  # one gradient alone
        needs = [x for x in inputs if x.requires_grad]
        both = [function(*inputs) for function in (scan.long_convolution, naive.long_convolution)]
        same(*(gradients((rows, rows), needs)[0] for rows in both))


def test_a_kernel_shorter_than_the_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="a kernel of 8 rows is too short for 9 tokens: give it a row per token"):
        scan.long_convolution(normal(2, 9, 3), normal(8, 3))


def test_long_convolution_in_float32() -> None:
    """Its error, and how far rounding reaches backwards in time: a change of 100 from token 300 on, seen before it."""
    u, kernel = normal(2, 509, 8), normal(509, 8, seed=1) * 0.9 ** torch.arange(509).unsqueeze(1)
    exact, single = naive.long_convolution(u, kernel), scan.long_convolution(u.float(), kernel.float())
    assert error(single, exact) < 2e-6
    for dtype, moved in ((torch.float32, 5e-4), (torch.float64, 1e-12)):
        now, later = u.to(dtype), u.to(dtype)[:, :300]
        later = torch.cat([later, now[:, 300:] + 100], dim=1)
        change = scan.long_convolution(later, kernel.to(dtype)) - scan.long_convolution(now, kernel.to(dtype))
        assert change[:, :300].abs().max() < moved < change[:, 300:].abs().max()


@pytest.mark.parametrize("chunk", [16, 64])
@pytest.mark.parametrize("strong", ["later tokens", "another row"])
def test_how_far_a_strong_decay_reaches(strong: str, chunk: int) -> None:
    """It halves the chunks of all rows and tokens of `channel_decay`: in float32 outputs that it is not in change by rounding."""
    q, k, v, g = (x.float() for x in given("channel_decay", 509)[:4])
    other = g.clone()
    if strong == "later tokens":
        other[:, 300:] = -100
    else:
        other[1] = -100
    rows, untouched = scan.channel_decay(q, k, v, g, chunk=chunk)[0], (slice(0, 1), slice(0, 300))
    change = (scan.channel_decay(q, k, v, other, chunk=chunk)[0] - rows)[untouched].abs().max()
    assert 0 < change < 3e-6 * rows.abs().max()


# -- what makes the obvious forms fail ----------------------------------------------------------------------------------

HARD = {  # kernel, strength of the decay, relative error in float32: up to thrice what it is
    "linear_scan": (0.3, 3e-7),
    "scalar_decay": (15.0, 3e-7),
    "shared_keys": (15.0, 3e-7),
    "weighted": (15.0, 3e-7),
    "channel_decay": (100.0, 4e-7),
    "delta_rule": (5.0, 4e-7),
    "selective_scan": (20.0, 4e-7),
}


def error(mine: Tensor, exact: Tensor) -> float:
    return float((mine.double() - exact).detach().abs().max() / exact.detach().abs().max())


@pytest.mark.parametrize("kernel", KERNELS)
def test_strong_decay_in_float32(kernel: str) -> None:
    ours, loop = KERNELS[kernel]
    strength, allowed = HARD[kernel]
    inputs = [x.requires_grad_() for x in given(kernel, 509, strength)]
    single = [x.detach().float().requires_grad_() for x in inputs]
    exact, mine = loop(*inputs), ours(*single)
    assert max(error(x, y) for x, y in zip(mine, exact, strict=True)) < allowed
    theirs, own = gradients(exact, inputs), gradients((mine[0].double(), mine[1].double()), single)
    assert all(torch.isfinite(x).all() for x in own)
    largest = max(float(x.abs().max()) for x in theirs)  # gradients of strong decays are next to nothing
    assert max(float((x - y).abs().max()) for x, y in zip(own, theirs, strict=True)) < 3 * allowed * largest


@pytest.mark.parametrize("each", [-4.9, -9.9, -39.0, -79.0, -500.0])
def test_large_gradients_of_channels_that_decay_fast(each: float) -> None:
    """The factors that grow in a chunk have room for what gradients multiply them with."""
    inputs = given("channel_decay", 40)[:4]
    inputs[3] = torch.full_like(inputs[3], each)
    inputs = [x.requires_grad_() for x in inputs]
    single = [x.detach().float().requires_grad_() for x in inputs]
    for chunk in (2, 16):
        exact, mine = naive.decayed(*inputs, torch.zeros(2, 2, 3, 5)), scan.channel_decay(*single, chunk=chunk)
        theirs = torch.autograd.grad(1e6 * exact[0].square().sum(), inputs)
        own = torch.autograd.grad(1e6 * mine[0].square().sum(), single)
        largest = max(float(x.abs().max()) for x in theirs)
        assert max(float((x - y).abs().max()) for x, y in zip(own, theirs, strict=True)) < 1e-6 * largest


def test_a_decay_without_end_beside_weak_ones_halves_no_chunk() -> None:
    g = torch.full((2, 64, 2, 3), -0.1)
    g[:, 20] = -math.inf
    assert channel_decay._safe_size(g.clamp(min=-channel_decay.STRONGEST), 16) == 16


@pytest.mark.parametrize(
    "spread, beta, allowed", [(0.0, 1.0, 1.2e-6), (0.0, 2.0, 3e-5), (1e-3, 2.0, 2e-5), (1e-3, 1.0, 2e-6)]
)
def test_equal_keys(spread: float, beta: float, allowed: float) -> None:
    """Nearly equal keys make the triangular systems as bad as they get; β = 2 turns a state round instead of erasing it."""
    q, k, v, _, _, _ = given("delta_rule", 200)
    k = F.normalize(k[:, :1] + spread * k, dim=-1)
    weights, none = torch.full(k.shape[:3], beta, dtype=k.dtype), torch.zeros(k.shape[:3], dtype=k.dtype)
    exact = naive.delta_rule(q, k, v, weights, none, torch.zeros(2, 2, 3, 5, dtype=k.dtype))
    for chunk in (16, 64):
        single = scan.delta_rule(q.float(), k.float(), v.float(), weights.float(), chunk=chunk)
        assert max(error(x, y) for x, y in zip(single, exact, strict=True)) < allowed
        for mine, theirs in zip(scan.delta_rule(q, k, v, weights, chunk=chunk), exact, strict=True):
            same(mine, theirs, 1e-10)


@pytest.mark.parametrize("kernel", ["scalar_decay", "shared_keys", "weighted", "channel_decay", "delta_rule"])
@pytest.mark.parametrize("strongest", [-1e4, -1e16, -1e30, -math.inf])
def test_a_decay_without_end_forgets_what_was_and_nothing_else(kernel: str, strongest: float) -> None:
    """At a document's start: what comes after it is what comes of it alone, its decays too."""
    ours, loop = KERNELS[kernel]
    inputs = given(kernel, 11)
    (place,) = (i for i, x in enumerate(inputs) if x.max() < 0)  # the log-decays
    inputs[place][:, 5] = strongest
    inputs = [x.requires_grad_() for x in inputs]
    for mine, theirs in zip(ours(*inputs, chunk=CHUNK), loop(*inputs), strict=True):
        same(mine, theirs)
    later = [x[:, 5:].detach() if x.dim() > 1 and x.size(1) == 11 else x.detach() for x in inputs]
    later[-1] = torch.zeros_like(later[-1])
    same(ours(*inputs, chunk=CHUNK)[0][:, 5:].detach(), ours(*later)[0])
    assert all(torch.isfinite(x).all() for x in gradients(ours(*inputs, chunk=CHUNK), inputs))


@pytest.mark.parametrize("kernel", KERNELS)
def test_long_silence(kernel: str) -> None:
    """After thousands of tokens of nothing a state has decayed to 0: no token is lost, and no gradient is no number."""
    ours, _ = KERNELS[kernel]
    inputs = [x.float() for x in given(kernel, 3000, 0.5)]
    quiet = (
        inputs[1]
        if kernel in ("linear_scan", "shared_keys", "weighted")
        else inputs[0 if kernel == "selective_scan" else 2]
    )
    quiet[:, 1:-1] = 0
    inputs = [x.requires_grad_() for x in inputs]
    out, last = ours(*inputs)
    assert torch.isfinite(out).all() and torch.isfinite(last).all() and out[:, -1].abs().max() > 1e-3
    assert all(torch.isfinite(x).all() for x in torch.autograd.grad(out.sum() + last.sum(), inputs))


@pytest.mark.parametrize("kernel", [*KERNELS, "long_convolution"])
def test_bfloat16_and_autocast(kernel: str) -> None:
    """Small types go in and out; inside nothing is narrower than float32, whatever autocast wants."""
    if kernel == "long_convolution":
        inputs = [normal(2, 9, 3), normal(9, 3)]
        ours = scan.long_convolution
    else:
        inputs, ours = given(kernel, 9), KERNELS[kernel][0]
    single = [x.float().requires_grad_() for x in inputs]
    plain = ours(*single)
    with torch.autocast("cpu", torch.bfloat16):
        cast = ours(*single)
        narrow = ours(*(x.bfloat16() for x in inputs))
    for left, right in zip(*((x if isinstance(x, tuple) else (x,)) for x in (cast, plain)), strict=True):
        assert torch.equal(left, right)
    out = narrow if isinstance(narrow, Tensor) else narrow[0]
    assert out.dtype == torch.bfloat16
    if isinstance(narrow, tuple):
        assert narrow[1].dtype == torch.float32
        with torch.autocast("cpu", torch.bfloat16):
            inside = torch.autograd.grad(cast[0].sum() + cast[1].sum(), single)
        outside = torch.autograd.grad(plain[0].sum() + plain[1].sum(), single)
        assert all(torch.equal(x, y) for x, y in zip(inside, outside, strict=True))


def test_the_state_is_a_copy() -> None:
    """What decoding keeps does not keep the whole sequence alive."""
    inputs = given("linear_scan", 50)
    out, last = scan.linear_scan(*inputs)
    assert last.untyped_storage().size() < out.untyped_storage().size() / 10


@pytest.mark.parametrize("chunk", [0, -1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_chunk_of_nothing_is_refused(kernel: str, chunk: int) -> None:
    with pytest.raises(ValueError, match=f"a chunk has at least one row, not {chunk}$"):
        KERNELS[kernel][0](*given(kernel, 3), chunk=chunk)


def test_equal_keys_of_many_channels_for_long() -> None:
    """The worst case at a usual size: the same key 509 times, turned round each time."""
    q, v, key = normal(2, 509, 2, 32), normal(2, 509, 2, 32, seed=1), normal(2, 1, 2, 32, seed=2)
    k, beta = F.normalize(key, dim=-1).expand_as(q), torch.full((2, 509, 2), 2.0, dtype=torch.float64)
    exact = naive.delta_rule(q, k, v, beta, torch.zeros_like(beta), torch.zeros(2, 2, 32, 32, dtype=torch.float64))
    single = scan.delta_rule(q.float(), k.float(), v.float(), beta.float())
    assert max(error(x, y) for x, y in zip(single, exact, strict=True)) < 1.5e-4


MISFITS: list[tuple[str, int, tuple[int, ...], str]] = [
    ("scalar_decay", 0, (2, 5, 2, 4), r"q is of shape \(2, 5, 2, 4\); it must be \(2, 5, 2, 3\)"),
    ("scalar_decay", 1, (2, 5, 3, 3), "v has 2 heads; it must have a multiple of the 3 heads of keys"),
    ("scalar_decay", 2, (2, 5, 10), "v has 3 dimensions; it must have 4"),
    ("scalar_decay", 3, (3,), "g is of shape"),
    ("scalar_decay", 4, (1, 2, 3, 5), "start is of shape"),
    ("weighted", 4, (2, 5, 1), "weight is of shape"),
    ("weighted", 5, (1,), "skip is of shape"),
    ("channel_decay", 3, (2, 5, 2), "g is of shape"),
    ("channel_decay", 2, (2, 5, 4, 5), "v has 4 heads; it must have 2, as keys have"),
    ("delta_rule", 3, (2, 4, 2), "beta is of shape"),
    ("delta_rule", 2, (2, 4, 2, 5), "v is of shape"),
    ("linear_scan", 2, (1, 6), "start is of shape"),
    ("selective_scan", 3, (2, 5, 4), "b is of shape"),
]


@pytest.mark.parametrize("kernel, place, shape, message", MISFITS)
def test_shapes_that_do_not_fit_are_refused(kernel: str, place: int, shape: tuple[int, ...], message: str) -> None:
    inputs = given(kernel, 5)
    inputs[place] = torch.zeros(shape, dtype=torch.float64)
    with pytest.raises(ValueError, match=message):
        KERNELS[kernel][0](*inputs)


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_token_is_refused(kernel: str) -> None:
    inputs = [x[:, :0] if x.dim() > 1 and x.size(1) == 5 else x for x in given(kernel, 5)]
    with pytest.raises(ValueError, match="at least one token"):
        KERNELS[kernel][0](*inputs)


def test_a_long_convolution_of_other_channels_or_of_no_token_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel is of shape"):
        scan.long_convolution(normal(2, 5, 3), normal(5, 4))
    with pytest.raises(ValueError, match="at least one token"):
        scan.long_convolution(normal(2, 5, 3)[:, :0], normal(5, 3))
