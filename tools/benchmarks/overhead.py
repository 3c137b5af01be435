"""What the training loop costs over a bare loop of the same model and batches, and what watching activations adds to it.

    tools/run python tools/benchmarks/overhead.py [--rounds 9] [--watched wr_8_2_gains …]

Both arms train the default configuration; the bare one does forward, backward, clip and step, and nothing else. Of every watched
method a pass that watches its activations is timed in turns with its training step, and spread over the steps between two passes.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.bench.timing import Step, compare

if TYPE_CHECKING:
    from zoo.training.session import Session

SETTINGS = [
    "train.log_every = 10",
    "train.save_every = 1000000",
    "train.validate_every = 1000000",
    "train.steps = 1000000",
]

OPEN: list[contextlib.ExitStack] = []  # what lives as long as the process


def opened_session(files: Sequence[str]) -> Session:
    """A session that has made no step, open as long as the process lives."""
    from zoo.config.load import load_config
    from zoo.runs import run_folder
    from zoo.training.ranks import join
    from zoo.training.setup import open_session

    loaded = load_config(files, SETTINGS)
    where = Path(tempfile.mkdtemp()) / "run"
    stack = contextlib.ExitStack()
    settings = loaded.build("train")
    ranks = stack.enter_context(join(settings.device))
    stack.enter_context(run_folder.opened(where, loaded))
    session = stack.enter_context(open_session(loaded, settings, ranks, where, False))
    OPEN.append(stack)
    return session


def zoo_loop(files: Sequence[str] = ()) -> Step:
    """`train_step`, with its checks, records and bookkeeping."""
    from zoo.training.step import train_step

    session = opened_session(files)
    return lambda: train_step(session)


def watching(files: Sequence[str]) -> Step:
    """A pass that watches activations, as a run makes it every so many steps."""
    from zoo.training.activations import activations

    session = opened_session(files)

    def step() -> None:
        session.watch.step = -1  # not seen yet
        if not activations(session):
            raise SystemExit(f"{' '.join(files)} has no activations to watch")

    return step


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
    parser.add_argument("--watched", nargs="*", default=["wr_8_2_gains"], metavar="METHOD")
    options = parser.parse_args()
    measured = compare({"bare": bare_loop, "zoo": zoo_loop}, rounds=options.rounds, steps=3, threads=options.threads)
    bare, zoo = measured["bare"], measured["zoo"]
    print(f"a bare step takes {statistics.median(bare.seconds) * 1000:.0f} ms")
    print(f"the zoo's loop takes {zoo.ratio(bare):.3f} of it (median of {options.rounds} interleaved rounds)")
    for method in options.watched:
        arms = {"step": functools.partial(zoo_loop, [method]), "pass": functools.partial(watching, [method])}
        measured = compare(arms, rounds=options.rounds, threads=options.threads)
        part = measured["pass"].ratio(measured["step"])
        print(
            f"{method}: a pass that watches takes {part:.2f} of a step, {part / steps_apart():.2%} of the training time"
        )


def steps_apart() -> int:
    """The steps between two passes at the default interval of logging."""
    from zoo.config.load import load_config
    from zoo.training.activations import is_due

    log_every = load_config([], []).get("train.log_every")
    endless = 10**9
    return next(step for step in range(log_every, endless, log_every) if is_due(step, endless, log_every, endless))


if __name__ == "__main__":
    main()
