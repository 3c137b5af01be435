"""What `import zoo` offers is typed for others (`py.typed`): mypy takes a right script, and finds what is wrong in another."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

RIGHT = """\
from collections.abc import Iterator

import torch
import zoo


def batches() -> Iterator[torch.Tensor]:
    while True:
        yield torch.randint(64, (8, 33))


model: zoo.Model = zoo.build("a", zoo.method("b", n=6), vocab_size=64, depth=2, parallel=True, residual=("c", None))
losses: list[float] = zoo.fit(model, batches(), steps=8, lr=3e-3, optimizer="muon")
logits: torch.Tensor = model(torch.zeros(1, 4, dtype=torch.long))
run: zoo.Run = zoo.train("a", folder="runs/mine", gin=["sizes/tiny"], settings={"train.steps": 20})
summary: zoo.Summary | None = run.summary
one: str = zoo.generate(run, "The state of", temperature=0.8, max_tokens=20)
several: list[str] = zoo.generate(zoo.load("runs/mine"), ["a", "b"])
accuracy: float = zoo.evaluate(run, "pairs", "blimp.jsonl").figures["accuracy"]
p: float = zoo.compare(zoo.results("bench", "a"), zoo.results("bench", "baseline")).p
names: list[str] = zoo.methods("residual")
version: str = zoo.__version__
"""
WRONG = {  # a part of the script, something else in its place, and what mypy says of that
    "depth=2": ("depht=2", 'Unexpected keyword argument "depht" for "build"'),
    "steps=8": ('steps="8"', 'Argument "steps" to "fit" has incompatible type "str"'),
    "temperature=0.8": ("temperature=None", "No overload variant"),
    "several: list[str]": ("several: str", 'variable has type "str"'),
    "p: float": ("p: str", 'variable has type "str"'),
    "summary: zoo.Summary | None": ("summary: zoo.Summary", 'variable has type "Summary"'),
}


@pytest.mark.slow
def test_mypy_knows_the_types(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT, "utf-8")
    wrong = RIGHT
    for part, (other, _) in WRONG.items():
        assert wrong.count(part) == 1, part
        wrong = wrong.replace(part, other)
    (tmp_path / "wrong.py").write_text(wrong, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "right.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    complaints = re.findall(r"^(\w+\.py):(\d+): error: (.*)$", done.stdout, re.M)
    assert {file for file, _, _ in complaints} == {"wrong.py"}, done.stdout + done.stderr
    assert len({line for _, line, _ in complaints}) == len(WRONG), done.stdout
    for part, (_, sentence) in WRONG.items():
        assert any(sentence in text for _, _, text in complaints), (part, done.stdout)
