"""Decoding: tokens/s with and without the state, against the baseline, and the bytes of state that a token costs.

    tools/run python tools/benchmarks/decode.py [METHOD…] [--lengths 128 512 2048]

A token is made after a text of each length: with the state from the last token alone, without it from the whole text.
The last table shows how the baseline's time for a token grows with the length, next to that of its attention alone,
which must read every key and value.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from zoo.bench.timing import Measurement, Step, compare
from zoo.slots import SLOTS

DEPTH, WIDTH, HEADS, FFN, VOCAB = 8, 256, 8, 688, 8192
BASELINE = "baseline"
METHODS = ["v3_m1", "v3_m4_2", "v4_m1", "v4_m1e", "wr_8_2", "wr_9", "wr_attend"]


def build(method: str, length: int) -> Any:
    """The model with one method, in evaluation mode."""
    from zoo.model.build import model

    chosen = {}
    if method != BASELINE:
        claims = {slot: entry_points(group=f"zoo.{slot}", name=method) for slot in SLOTS}
        chosen = {slot: next(iter(entries)).load() for slot, entries in claims.items() if entries}
        if not chosen:
            raise SystemExit(f"there is no method {method}; zoo-plugins lists those that are installed")
    shape = {"depth": DEPTH, "width": WIDTH, "num_heads": HEADS, "head_dim": WIDTH // HEADS, "ffn_dim": FFN}
    return model(VOCAB, length, **shape, **chosen).eval()


def text(length: int) -> Any:
    import torch

    return torch.randint(VOCAB, (1, length), generator=torch.Generator().manual_seed(0))


def cached(method: str, length: int) -> Step:
    """One more token after `length` others, from the state. The text grows, but by little compared with its length."""
    import torch

    from zoo.generation.generate import state_bag

    room = length + 1000
    built, bag = build(method, room), state_bag(room)

    @torch.inference_mode()
    def step() -> None:
        built(text(1), state_bag=bag)
        bag.increment_step_nr()

    with torch.inference_mode():
        built(text(length), state_bag=bag)
        bag.increment_step_nr(length)
    return step


def whole(method: str, length: int) -> Step:
    """The same token from the whole text."""
    import torch
    import torch.nn.functional as F

    built, tokens = build(method, length + 1), text(length + 1)

    @torch.inference_mode()
    def step() -> None:
        F.linear(built.hidden(tokens)[:, -1], built.output_weight())

    return step


def attention(length: int) -> Step:
    """What attention itself requires for a token: one query over all keys and values, in every layer."""
    import torch
    import torch.nn.functional as F

    q = torch.randn(1, HEADS, 1, WIDTH // HEADS)
    past = [torch.randn(2, 1, HEADS, length + 1, WIDTH // HEADS) for _ in range(DEPTH)]

    @torch.inference_mode()
    def step() -> None:
        for k, v in past:
            F.scaled_dot_product_attention(q, k, v)

    return step


def bytes_of_state(method: str) -> tuple[int, int]:
    """What each token adds to the state, and what is there once."""
    import torch

    from zoo.generation.generate import state_bag

    sizes = []
    for length in (32, 33):
        bag = state_bag(length)
        with torch.inference_mode():
            build(method, length)(text(length), state_bag=bag)
        sizes.append(bag.size_bytes())
    growth = sizes[1] - sizes[0]
    return growth, sizes[0] - 32 * growth


def in_turns(arms: dict[Any, Callable[[], Step]], options: argparse.Namespace, steps: int) -> dict[Any, Measurement]:
    measured = compare(
        {str(name): arm for name, arm in arms.items()}, rounds=options.rounds, steps=steps, threads=options.threads
    )
    return {name: measured[str(name)] for name in arms}


def speed(measured: Measurement) -> float:
    return 1 / sorted(measured.seconds)[len(measured.seconds) // 2]


def show_methods(
    length: int, methods: list[str], sizes: dict[str, tuple[int, int]], options: argparse.Namespace
) -> None:
    with_state = in_turns({m: functools.partial(cached, m, length) for m in methods}, options, steps=16)
    without = in_turns({m: functools.partial(whole, m, length) for m in methods}, options, steps=1)
    print(f"\nafter {length:,} tokens: a token's time as a ratio to the baseline's; state in bytes (float32)")
    print(
        f"{'method':14} {'with state':>10} {'tokens/s':>9} {'without':>9} {'tokens/s':>9} {'per token':>9} {'once':>9}"
    )
    for m in methods:
        ratios = with_state[m].ratio(with_state[BASELINE]), without[m].ratio(without[BASELINE])
        print(
            f"{m:14} {ratios[0]:9.2f}x {speed(with_state[m]):9,.0f} {ratios[1]:8.2f}x {speed(without[m]):9,.1f}"
            f" {sizes[m][0]:9,} {sizes[m][1]:9,}"
        )


def show_growth(options: argparse.Namespace) -> None:
    arms: dict[Any, Callable[[], Step]] = {}
    for length in options.lengths:
        arms["token", length] = functools.partial(cached, BASELINE, length)
        arms["attention", length] = functools.partial(attention, length)
    measured = in_turns(arms, options, steps=16)
    shortest = options.lengths[0]
    print(f"\nthe baseline's time for a token, and its growth over that after {shortest:,} tokens")
    print(f"{'length':>7} {'token µs':>9} {'attention alone µs':>19} {'token grows by':>15} {'attention by':>13}")
    for length in options.lengths:
        token, alone = (1e6 / speed(measured[what, length]) for what in ("token", "attention"))
        first = [1e6 / speed(measured[what, shortest]) for what in ("token", "attention")]
        print(f"{length:7,} {token:9.0f} {alone:19.0f} {token - first[0]:12.0f} µs {alone - first[1]:10.0f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    parser.add_argument("--lengths", nargs="+", type=int, default=[128, 512, 2048], metavar="N")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    options.lengths.sort()
    methods = [BASELINE, *(m for m in options.methods if m != BASELINE)]
    sizes = {m: bytes_of_state(m) for m in methods}
    for length in options.lengths:
        show_methods(length, methods, sizes, options)
    show_growth(options)


if __name__ == "__main__":
    main()
