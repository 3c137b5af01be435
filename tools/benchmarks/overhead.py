"""What the training loop costs over a bare loop of the same model and batches.

    tools/run python tools/benchmarks/overhead.py [--rounds 9]

Both arms train the default configuration; the bare one does forward, backward, clip and step, and nothing else.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from zoo.bench.timing import Step, compare

SETTINGS = [
    "train.log_every = 10",
    "train.save_every = 1000000",
    "train.validate_every = 1000000",
    "train.steps = 1000000",
]


def zoo_loop() -> Step:
    """`train_step`, with its checks, records and bookkeeping."""
    import contextlib

    from zoo.config.load import load_config
    from zoo.runs import run_folder
    from zoo.training.ranks import join
    from zoo.training.setup import open_session
    from zoo.training.step import train_step

    loaded = load_config([], SETTINGS)
    where = Path(tempfile.mkdtemp()) / "run"
    stack = contextlib.ExitStack()
    settings = loaded.build("train")
    ranks = stack.enter_context(join(settings.device))
    stack.enter_context(run_folder.opened(where, loaded))
    session = stack.enter_context(open_session(loaded, settings, ranks, where, False))
    zoo_loop.stack = stack  # type: ignore[attr-defined]  # kept open as long as the process lives
    return lambda: train_step(session)


def bare_loop() -> Step:
    import torch

    from zoo.config.load import load_config
    from zoo.training.optimizer import make_optimizer

    loaded = load_config([], SETTINGS)
    settings, data = loaded.build("train"), loaded.build("data")
    torch.manual_seed(settings.seed)
    model = loaded.build("model", vocab_size=data.tokenizer.vocab_size, max_length=data.length, seed=settings.seed)
    optimiser = make_optimizer(model, settings)
    reader = data.train(settings.seed)

    def step() -> None:
        block = next(reader)
        model.loss(block[:, :-1], block[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    measured = compare({"bare": bare_loop, "zoo": zoo_loop}, rounds=options.rounds, steps=3, threads=options.threads)
    bare, zoo = measured["bare"], measured["zoo"]
    print(f"a bare step takes {statistics.median(bare.seconds) * 1000:.0f} ms")
    print(f"the zoo's loop takes {zoo.ratio(bare):.3f} of it (median of {options.rounds} interleaved rounds)")


if __name__ == "__main__":
    main()
