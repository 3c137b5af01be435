"""A run with a tokenizer that was not trained on its corpus: trained, opened again without it, and heard."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from helpers.given_tokenizers import byte_level

from zoo.bench.arms import arms_of
from zoo.bench.suite import Suite
from zoo.cli.generate import main
from zoo.config.load import load_config
from zoo.generation.generate import generate
from zoo.generation.open_run import Run, open_run
from zoo.generation.sampling import Sampling
from zoo.training import trainer

SAYING = "one two three four five six seven eight nine ten.\n"


def _bytes(folder: Path) -> str:
    return "bytes"


def _tokenizer_json(folder: Path) -> str:
    return byte_level(folder / "tokenizer.json", [SAYING])


def written(run: Run, vocab_size: int | None) -> int:
    """The token after a prompt."""
    (text,) = generate(
        run.model, [run.encode("one")], run.tokenizer.eos, Sampling(0.0), max_tokens=1, vocab_size=vocab_size
    )
    return text.tokens[0]


@pytest.mark.parametrize("make", [_bytes, _tokenizer_json])
def test_a_run_with_a_given_tokenizer(tmp_path: Path, make, capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for split, count in (("train", 60), ("valid", 2)):
        (corpus / f"{split}.jsonl").write_text((json.dumps({"text": SAYING}) + "\n") * count)
    bindings = {
        "data.corpus": str(corpus),
        "data.format": "jsonl",
        "data.cache": str(tmp_path / "cache"),
        "data.tokenizer": make(tmp_path),
        "data.length": 24,
        "data.batch_size": 4,
        "model.depth": 1,
        "model.aspect": 16,
        "train.steps": 30,
        "train.lr": 0.01,
        "train.device": "cpu",
    }
    bound = [f"{key} = {value!r}" for key, value in bindings.items()]
    loaded = load_config([], bound)
    summary = trainer.run(loaded, tmp_path / "run", show=False)
    data = loaded.build("data")
    tokens, size = data.tokens("valid"), len(2 * SAYING)
    assert summary.bits_per_byte == pytest.approx(summary.valid_loss * tokens / size / math.log(2))

    (plain,) = arms_of([], bound, Suite(methods=(), baselines=("none",)), None)
    (tmp_path / "tokenizer.json").unlink(missing_ok=True)  # the run has its own
    run = open_run(tmp_path / "run")
    rows = run.model.output_weight().size(0)
    assert rows == run.tokenizer.padded_size == 320 > run.tokenizer.vocab_size
    assert plain.parameters == run.model.num_parameters()  # what a bench matches is what is trained

    with torch.no_grad():
        run.model.output_weight()[-1] = 1e3 * run.model.hidden(torch.tensor([run.encode("one")]))[0, -1]
    assert written(run, None) == rows - 1  # likelier than any other
    assert written(run, run.tokenizer.vocab_size) < run.tokenizer.vocab_size
    assert main(["--run", str(tmp_path / "run"), "--prompt", "one two", "--max-tokens", "10", "--greedy"]) == 0
    assert capsys.readouterr().out.startswith("one two")
