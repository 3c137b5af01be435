"""What it costs to prepare a text and to start from it: time, memory, tokens/s, beside Hugging Face on the same text.

    tools/run python tools/benchmarks/data.py [--megabytes 10 100 1000] [--vocab 4096] [--folder DIR] [--theirs PYTHON]

Every measurement is a process of its own. Memory is the peak of the process and of those it starts, beyond what it had
after its imports. Hugging Face's `datasets` reads and maps, its `tokenizers` trains a BPE of the same size on the same
sample and encodes; where `datasets` is not installed, the text is read line by line. It would move packages that
fairseq2 needs as they are: make an environment of its own (python -m venv DIR; DIR/bin/pip install datasets tokenizers) and
name its Python with --theirs. Two cores and other processes make timings noise: compare
ratios of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SAMPLE = 64 << 20  # characters that a tokenizer is trained on


def write_text(path: Path, megabytes: int) -> None:
    """Records of made-up words with the frequencies of a language, the same each time."""
    if path.exists() and path.stat().st_size >= megabytes * 1_000_000:
        return
    pick = random.Random(1)
    letters, ends = "etaoinshrdlucmfwypvbgk", (" ", " ", " ", " ", " ", " ", ", ", ". ", ".\n")
    words = ["".join(pick.choices(letters, k=pick.randint(2, 9))) for _ in range(30_000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    pieces = [word + pick.choice(ends) for word in pick.choices(words, weights, k=2_000_000)]
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1_000_000:
            start = pick.randrange(len(pieces) - 3000)
            file.write(json.dumps({"text": "".join(pieces[start : start + pick.randint(50, 3000)])}) + "\n")


class Memory:
    """The largest memory of this process and those it starts, looked at ten times a second."""

    def __init__(self) -> None:
        self.before = self.most = self._now()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self.most = max(self.most, self._now())
            time.sleep(0.1)

    def _now(self) -> int:
        own = [os.getpid(), *map(int, Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())]
        total = 0
        for process in own:
            try:
                rows = dict(
                    line.split(":", 1) for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
                )
                total += 1024 * (int(rows["Pss"].split()[0]) - int(rows["Pss_File"].split()[0]))
            except (OSError, KeyError, ValueError):
                continue
        return total

    def megabytes(self) -> float:
        return max(self.most, self._now()) / 1e6 - self.before / 1e6


def ours(text: Path, folder: Path, vocab: int) -> dict[str, float]:
    """Prepare the text."""
    import numpy  # noqa: F401

    from zoo.data import survey, tokenizer  # noqa: F401
    from zoo.data.corpus import Reading, open_corpus
    from zoo.data.manifest import read_manifest
    from zoo.data.prepare import Choice, prepared

    memory, began, used = Memory(), time.perf_counter(), os.times()
    made = prepared(open_corpus(Reading(str(text))), Choice(vocab_size=vocab), folder / "cache")
    return figures(memory, began, used, sum(split.tokens for split in read_manifest(made).splits.values()))


def start(text: Path, folder: Path, vocab: int) -> dict[str, float]:
    """Open what is prepared, and read the first batch."""
    import torch  # noqa: F401

    from zoo.data.batches import data
    from zoo.system import fairseq2_setup  # noqa: F401

    # isort: split
    from fairseq2.data.data_pipeline import read_sequence  # noqa: F401

    memory, began, used = Memory(), time.perf_counter(), os.times()
    opened = data(str(text), vocab_size=vocab, cache=str(folder / "cache"))
    next(opened.train(1))
    next(opened.evaluate("valid"))
    return figures(memory, began, used, 0)


def theirs(text: Path, folder: Path, vocab: int) -> dict[str, float]:
    """The same with Hugging Face: train a BPE on the same sample, encode everything, write the tokens."""
    import numpy as np
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    try:
        import datasets
    except ImportError:
        datasets = None

    memory, began, used = Memory(), time.perf_counter(), os.times()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=["</s>"], show_progress=False)
    step = 1 + text.stat().st_size // SAMPLE

    def texts(every: int = 1):
        with text.open(encoding="utf-8") as file:
            for number, line in enumerate(file):
                if number % every == 0:
                    yield json.loads(line)["text"]

    tokenizer.train_from_iterator(texts(step), trainer)
    count = 0
    with (folder / "theirs.bin").open("wb") as file:
        if datasets is not None:
            rows = datasets.load_dataset(
                "json", data_files=str(text), split="train", cache_dir=str(folder / "datasets")
            )
            done = rows.map(
                lambda batch: {"ids": [e.ids + [0] for e in tokenizer.encode_batch(batch["text"])]},
                batched=True,
                remove_columns=rows.column_names,
            )
            for batch in done.with_format("numpy").iter(1000):
                joined = np.concatenate(list(batch["ids"])).astype(np.uint16)
                count += len(joined)
                file.write(joined.tobytes())
        else:
            waiting: list[str] = []
            for each in texts():
                waiting.append(each)
                if len(waiting) == 1000:
                    count += _write(tokenizer, waiting, file)
                    waiting = []
            count += _write(tokenizer, waiting, file) if waiting else 0
    return figures(memory, began, used, count) | {"datasets": float(datasets is not None)}


def _write(tokenizer: object, texts: list[str], file: object) -> int:
    import numpy as np

    parts = [np.array([*each.ids, 0], np.uint16) for each in tokenizer.encode_batch(texts)]  # type: ignore[attr-defined]
    joined = np.concatenate(parts)
    file.write(joined.tobytes())  # type: ignore[attr-defined]
    return len(joined)


def figures(memory: Memory, began: float, used: os.times_result, tokens: int) -> dict[str, float]:
    now = os.times()
    return {
        "seconds": time.perf_counter() - began,
        "cpu": sum(now[:4]) - sum(used[:4]),
        "megabytes": memory.megabytes(),
        "tokens": tokens,
    }


JOBS = {"ours": ours, "theirs": theirs, "start": start}


def measured(python: str, job: str, text: Path, folder: Path, vocab: int) -> dict[str, float]:
    command = [
        python,
        __file__,
        "--job",
        job,
        "--text",
        str(text),
        "--folder",
        str(folder),
        "--vocab",
        str(vocab),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{job} failed: {done.stderr}")
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--theirs", metavar="PYTHON", help="an environment with datasets and tokenizers")
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--text", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        print(json.dumps(JOBS[given.job](given.text, given.folder, given.vocab)))
        return
    folder = given.folder or Path(tempfile.mkdtemp(prefix="zoo-data-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{'MB':>6} {'what':<8} {'seconds':>9} {'CPU s':>8} {'MB memory':>10} {'tokens/s':>12} {'tokens/CPU s':>13}")
    for size in given.megabytes:
        text = folder / f"{size}.jsonl"
        write_text(text, size)
        for job in given.only:
            python = given.theirs if job == "theirs" and given.theirs else sys.executable
            row = measured(python, job, text, folder, given.vocab)
            speed = [f"{row['tokens'] / row[unit]:,.0f}" if row["tokens"] else "" for unit in ("seconds", "cpu")]
            numbers = (
                f"{row['seconds']:>9.2f} {row['cpu']:>8.1f} {row['megabytes']:>10.0f} {speed[0]:>12} {speed[1]:>13}"
            )
            note = "" if job != "theirs" or row["datasets"] else "  (tokenizers alone)"
            print(f"{size:>6} {job:<8} {numbers}{note}", flush=True)


if __name__ == "__main__":
    main()
