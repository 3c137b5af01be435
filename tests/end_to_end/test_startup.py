"""A small run is small: what it imports and takes before its first step, beyond what torch itself takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from helpers import tiny_training
from torch import nn

from zoo.data.batches import data
from zoo.training.adamw import AdamW

# Reports seconds and megabytes after `import torch` and before the first step, and what is imported by the end.
CHILD = """
import json, sys, time
from zoo.system.memory import peak_memory

def taken():
    return time.process_time(), peak_memory("cpu") / 1e6

import torch
seen = {"torch": taken()}
from zoo.training import step
from zoo.cli import train

def first_step(session, train_step=step.train_step):
    seen.setdefault("first step", taken())
    train_step(session)

step.train_step = first_step
seen["exit code"] = train.main(sys.argv[1:])
seen["modules"] = [name for name in sys.modules if name.count(".") < 3]

from zoo.model.language_model import LanguageModel
from fairseq2.models.clm import CausalLM
from fairseq2.models import ModelHub, clm  # with all that this imports
seen["same class"] = issubclass(LanguageModel, CausalLM) and clm.CausalLM is CausalLM
seen["siblings"] = "fairseq2.models.family" in sys.modules
print(json.dumps(seen))
"""

UNUSED = {
    "transformers", "wandb", "pandas", "torcheval", "pyarrow", "scipy", "huggingface_hub", "requests", "sympy",
    "torch._dynamo", "torch._inductor", "fairseq2.models", "fairseq2.trainer", "matplotlib", "PIL", "rich",
}  # fmt: skip


def test_what_a_tiny_run_takes_before_its_first_step(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    corpus = tiny_training.write_corpus(tmp_path / "corpus")
    data(str(corpus), vocab_size=512, length=32, cache=str(tmp_path / "cache"))  # the child finds it all there
    given = [f"data.corpus='{corpus}'", f"data.cache='{tmp_path / 'cache'}'", "train.steps=2", "train.device='cpu'"]
    command = [sys.executable, "-c", CHILD, "--gin", "sizes/tiny", "--set", *given, "--run", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["exit code"] == 0
    imported = UNUSED.intersection(seen["modules"])
    assert imported == set()
    (torch_seconds, torch_size), (seconds, size) = seen["torch"], seen["first step"]
    # torch alone takes 1.3 s and 530 MB, and a slower machine or another build more; 0.3 s and 20 MB are ours.
    assert seconds < max(3, torch_seconds + 1), seen
    assert size < max(570, torch_size + 45), seen
    assert seen["same class"] and seen["siblings"]


def test_the_optimizer_computes_what_that_of_torch_does() -> None:
    def trained(kind: type[torch.optim.AdamW], switch: bool = False) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
        groups = [{"params": [*model[0].parameters()], "weight_decay": 0.0}, {"params": [*model[2].parameters()]}]
        optimizer = kind(groups, lr=0.1, betas=(0.8, 0.9), weight_decay=0.1, fused=True)
        for _ in range(4):
            model(torch.randn(2, 5)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            kept = optimizer.state_dict()
            if switch:  # what one wrote, the other reads
                kind = torch.optim.AdamW if kind is AdamW else AdamW
                optimizer = kind(optimizer.param_groups)
                optimizer.load_state_dict(kept)
        assert all(p.grad is None for p in model.parameters())
        return [p.detach() for p in model.parameters()]

    wanted = trained(torch.optim.AdamW)
    for switch in (False, True):
        assert all(torch.equal(a, b) for a, b in zip(trained(AdamW, switch), wanted, strict=True))


def test_the_optimizer_leaves_no_graph_and_calls_its_hooks() -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer, calls = AdamW([weight], lr=0.1, fused=True), []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    weight.sum().backward()
    optimizer.step()
    assert weight.grad_fn is None and weight.is_leaf and calls == [1]
