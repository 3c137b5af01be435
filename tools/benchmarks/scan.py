"""The recurrences of `zoo.scan` against Python loops over tokens, and how their time grows with the length.

    tools/run python tools/benchmarks/scan.py [--length 512] [--rounds 5] [--only delta_rule …] [--chunks 16 32 64]

Forward and backward in float32 on one thread; CPU time, the least of interleaved rounds, so that a busy machine disturbs the
ratios little. The loops are those of the tests. The second line is the relative error at 509 tokens in float32, of the kernel
and of its loop, against the loop in float64. The third is the time per token at 1024, 2048, 4096 and 8192 tokens over that at
512: 1 is linear.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo import scan

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from helpers import naive_recurrences as naive

LENGTHS = (1024, 2048, 4096, 8192)
WANTED = {"linear_scan": 25, "scalar_decay": 20, "delta_rule": 12}  # over a loop at 512 tokens


def heads(length: int, batch: int = 4) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys and values of 6 heads of 32, and a number per token and head."""
    q, k, v = (torch.randn(batch, length, 6, 32) for _ in range(3))
    return q, F.normalize(k, dim=-1), v, torch.randn(batch, length, 6)


def given(kernel: str, length: int, batch: int = 4) -> list[Tensor]:
    """What a kernel takes; the start is the last, if there is one."""
    q, k, v, number = heads(length, batch)
    start = torch.zeros(batch, 6, 32, 32)
    if kernel == "linear_scan":
        shape = (batch, length, 192)
        return [torch.rand(shape) * 0.1 + 0.9, torch.randn(shape), torch.zeros(batch, 192)]
    if kernel == "scalar_decay":
        return [q, k, v, F.logsigmoid(number), start]
    if kernel == "channel_decay":
        return [q, k, v, F.logsigmoid(torch.randn_like(k)) / 16, start]
    if kernel == "delta_rule":
        return [q, k, v, number.sigmoid(), F.logsigmoid(number), start]
    if kernel == "long_convolution":
        return [torch.randn(batch, length, 192), torch.randn(length, 192) * 0.99 ** torch.arange(length)[:, None]]
    x, delta = torch.randn(batch, length, 384), torch.rand(batch, length, 384) * 0.1
    b, c = torch.randn(batch, length, 16), torch.randn(batch, length, 16)
    return [x, delta, -torch.rand(384, 16) * 16, b, c, torch.zeros(batch, 384, 16)]


Recurrence = Callable[..., tuple[Tensor, Tensor] | Tensor]

LOOPS: dict[str, Recurrence] = {
    "linear_scan": naive.linear_scan,
    "scalar_decay": naive.decayed,
    "channel_decay": naive.decayed,
    "delta_rule": naive.delta_rule,
    "selective_scan": naive.selective_scan,
    "long_convolution": naive.long_convolution,
}


def results(function: Recurrence, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """The rows, and the last state where there is one."""
    answer = function(*inputs)
    return answer if isinstance(answer, tuple) else (answer,)


def seconds(function: Recurrence, inputs: list[Tensor]) -> float:
    """CPU time of forward and backward."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    begin = time.process_time()
    every = results(function, inputs)
    torch.autograd.backward(every, [torch.ones_like(x) for x in every])
    return time.process_time() - begin


def error(function: Recurrence, inputs: list[Tensor], exact: tuple[Tensor, ...]) -> float:
    """The largest difference in rows or state, relative to the largest number there."""
    pairs = zip(results(function, inputs), exact, strict=True)
    return max(float((mine.double() - right).abs().max() / right.abs().max()) for mine, right in pairs)


def fastest(functions: list[Callable[[], float]], rounds: int) -> list[float]:
    """The least of each, measured in turns, after a first turn that does not count."""
    times = [[function() for function in functions] for _ in range(rounds + 1)][1:]
    return [min(column) for column in zip(*times, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=LOOPS, default=list(LOOPS))
    parser.add_argument("--chunks", type=int, nargs="+", help="chunks to compare; otherwise each kernel's own")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for kernel in options.only:
        ours = getattr(scan, kernel)
        inputs = given(kernel, options.length)
        chunks = [] if kernel == "long_convolution" else options.chunks or []
        settings: list[dict[str, int]] = [{"chunk": size} for size in chunks] or [{}]
        forms = [partial(ours, **own) for own in settings]
        loop, *times = fastest([partial(seconds, form, inputs) for form in (LOOPS[kernel], *forms)], options.rounds)
        for own, each in zip(settings, times, strict=True):
            wanted = f" (wanted: {WANTED[kernel]})" if kernel in WANTED and options.length == 512 else ""
            print(f"{kernel} {own or ''}: {loop / each:.1f}× a loop{wanted}, {1000 * each:.1f} ms", flush=True)
        inputs = given(kernel, 509)
        exact = results(LOOPS[kernel], [x.double() for x in inputs])
        for own, form in zip(settings, forms, strict=True):
            print(f"    error in float32 {own or ''}: {error(form, inputs, exact):.1e}", end=", ")
        print(f"the loop's {error(LOOPS[kernel], inputs, exact):.1e}", flush=True)
        if not options.chunks:
            lengths = (512, *LENGTHS)
            growth = fastest([partial(seconds, ours, given(kernel, n, batch=1)) for n in lengths], 3)
            per_token = [t / n for t, n in zip(growth, lengths, strict=True)]
            print(
                "    per token, of 512:",
                *(f"{n}: {t / per_token[0]:.2f}" for n, t in zip(lengths, per_token, strict=True)),
            )


if __name__ == "__main__":
    main()
