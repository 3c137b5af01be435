"""How fast this machine's matrix products are, in the shapes of a small model's step.

    tools/run python tools/benchmarks/products.py [--rounds 30]
    ZOO_MKL_AVX512=1 tools/run python tools/benchmarks/products.py

One thread, float32: 10⁹ operations per second, the best of the rounds. On a processor that is not Intel's the second command may
print twice what the first does (docs/performance.md).
"""

from __future__ import annotations

import argparse
import time

import torch

SHAPES = {  # what → rows, inner, columns: width 96, 54 rows of 128 tokens, vocabulary 2048
    "queries, keys and values": (6912, 96, 288),
    "gate and up": (6912, 96, 512),
    "down": (6912, 256, 96),
    "logits of a chunk": (512, 96, 2048),
    "a matrix's gradient": (96, 6912, 512),
    "large and square": (1024, 1024, 1024),
}


def rate(shape: tuple[int, int, int], rounds: int) -> float:
    """10⁹ operations per second."""
    rows, inner, columns = shape
    one, other = torch.randn(rows, inner), torch.randn(inner, columns)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        one @ other
        times.append(time.perf_counter() - began)
    return 2 * rows * inner * columns / min(times) / 1e9


def main() -> None:
    """Print a line per shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    for what, shape in SHAPES.items():
        print(f"{what:26} {rate(shape, rounds):6.0f} GFLOP/s")


if __name__ == "__main__":
    main()
