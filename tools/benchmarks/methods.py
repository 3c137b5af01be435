"""Time and peak memory of a training step of every method: ratios to the baseline, and of the naive form to it.

    tools/run python tools/benchmarks/methods.py [v4_m1 v3_m1 …] [--length 256] [--depth 8] [--naive] [--rounds 5]

Each arm is a process of its own and rounds are interleaved (see zoo/bench/timing.py). `--naive` also runs the reference of
tests/reference, which keeps every layer's scores. `--together` is the quick look at all of them: the time alone, on one
core, in one process, where a method can disturb the next one's caches.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
import time
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from zoo.bench.timing import Step, compare
from zoo.slots import SLOTS

VOCAB = 1024


def shape(options: argparse.Namespace) -> dict[str, int]:
    return {"depth": options.depth, "width": options.width, "head_dim": options.head_dim}


def step(method: str | None, sizes: dict[str, int], length: int, batch: int) -> Step:
    import torch

    from zoo.model.build import model
    from zoo.training.optimizer import make_optimizer
    from zoo.training.settings import Settings

    chosen = {slot: e.load() for slot in SLOTS for e in entry_points(group=f"zoo.{slot}") if e.name == method}
    built = model(VOCAB, length, **sizes, **chosen)
    optimiser = make_optimizer(built, Settings(lr=1e-4))
    inputs = torch.randint(VOCAB, (batch, length + 1), generator=torch.Generator().manual_seed(0))

    def train() -> None:
        built.loss(inputs[:, :-1], inputs[:, 1:]).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return train


def naive_step(method: str, sizes: dict[str, int], length: int, batch: int) -> Step:
    """The same training step through the reference's forward pass."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    import reference
    import torch
    from helpers.random_models import REFERENCE_SLOTS, extension_of, reference_weights

    from zoo.model.build import model
    from zoo.training.optimizer import make_optimizer
    from zoo.training.settings import Settings

    slot, factory = next((s, e.load()) for s in SLOTS for e in entry_points(group=f"zoo.{s}") if e.name == method)
    built = model(VOCAB, length, **sizes, **{slot: factory})
    optimiser = make_optimizer(built, Settings(lr=1e-4))
    inputs = torch.randint(VOCAB, (batch, length + 1), generator=torch.Generator().manual_seed(0))
    params = [dict(extension_of(block, slot).named_parameters()) for block in built.layers]

    def train() -> None:
        chosen = {REFERENCE_SLOTS[slot]: reference.Method(method, params, {})}
        logits = reference.logits(inputs[:, :-1], reference_weights(built), host="sequential", **chosen)
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), inputs[:, 1:].flatten()).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return train


def flops_ratio(method: str, sizes: dict[str, int], length: int) -> tuple[float, float]:
    """The method's FLOPs and executed FLOPs as multiples of the baseline's."""
    from zoo.counting.flops import training_cost
    from zoo.model.build import model

    chosen = {slot: e.load() for slot in SLOTS for e in entry_points(group=f"zoo.{slot}") if e.name == method}
    plain = training_cost(functools.partial(model, VOCAB, length, **sizes), length)
    own = training_cost(functools.partial(model, VOCAB, length, **sizes, **chosen), length)
    return own.flops / plain.flops, own.flops_executed / plain.flops_executed


def together(methods: Sequence[str], sizes: dict[str, int], length: int, batch: int, rounds: int) -> None:
    """Processor time of every method's step as a multiple of the baseline's in the same round."""
    import torch

    torch.set_num_threads(1)
    steps = {method: step(method, sizes, length, batch) for method in (None, *methods)}
    seconds: dict[str | None, list[float]] = {method: [] for method in steps}
    for _ in range(1 + rounds):
        for method, train in steps.items():
            began = time.process_time()
            train()
            seconds[method].append(time.process_time() - began)
    print(f"{'method':20} {'FLOPs':>7} {'executed':>9} {'time':>7}")
    plain = seconds.pop(None)[1:]  # the first round warms up
    for method, own in seconds.items():
        flops, executed = flops_ratio(str(method), sizes, length)
        ratio = statistics.median(a / b for a, b in zip(own[1:], plain, strict=True))
        print(f"{method:20} {flops:7.2f} {executed:9.2f} {ratio:7.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help="ids (default: all)")
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--head-dim", type=int, default=32)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=2048, help="in a batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--naive", action="store_true", help="measure the naive references too")
    parser.add_argument("--together", action="store_true", help="a quick look at the times alone, in one process")
    options = parser.parse_args()
    known = [e.name for slot in SLOTS for e in entry_points(group=f"zoo.{slot}")]
    unknown = set(options.methods) - set(known)
    if unknown:
        parser.error(f"there is no method {', '.join(sorted(unknown))}; zoo-plugins lists them")
    sizes, batch = shape(options), max(1, options.tokens // options.length)
    if options.together:
        return together(options.methods or known, sizes, options.length, batch, options.rounds)
    print(
        f"{'method':20} {'FLOPs':>7} {'executed':>9} {'time':>7} {'memory':>7}"
        + ("  naive: time  memory" if options.naive else "")
    )
    for method in options.methods or known:  # a few processes at a time: each pair has a baseline of its own
        arms = {"baseline": functools.partial(step, None, sizes, options.length, batch)}
        arms["method"] = functools.partial(step, method, sizes, options.length, batch)
        if options.naive:
            arms["naive"] = functools.partial(naive_step, method, sizes, options.length, batch)
        measured = compare(arms, rounds=options.rounds, threads=options.threads)
        plain, own = measured["baseline"], measured["method"]
        flops, executed = flops_ratio(method, sizes, options.length)
        line = f"{method:20} {flops:7.2f} {executed:9.2f} {own.ratio(plain):7.2f} {own.memory / plain.memory:7.2f}"
        if options.naive:
            line += f" {measured['naive'].ratio(own):12.2f} {measured['naive'].memory / own.memory:7.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
