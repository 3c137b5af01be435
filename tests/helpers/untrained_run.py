"""A run that was never trained: a small random model with a tokenizer of bytes, as evaluation wants it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

import zoo
from zoo.data.byte_tokenizer import Bytes
from zoo.generation.open_run import Run


def untrained_run(*methods: str, seed: int = 1, length: int = 32, corpus: str = "sotu") -> Run:
    """A run with these methods; seeds and methods give other answers."""
    tokenizer = Bytes(1)
    sizes: Any = {"depth": 2, "width": 32, "head_dim": 8, "ffn_dim": 48, "seed": seed}
    model = zoo.build(*methods, vocab_size=tokenizer.padded_size, max_length=length, **sizes).eval()
    with torch.no_grad():  # far from uniform, so that answers differ
        for parameter in model.parameters():
            parameter.mul_(3.0)
    name = "+".join(methods) or "baseline"
    settings = {"train.seed": seed, "data.corpus": corpus}
    digest = hashlib.sha256(f"{name} {seed}".encode()).hexdigest()
    config: Any = SimpleNamespace(name=name, get=settings.__getitem__, fingerprint=lambda: digest, plugins=())
    return Run(Path("nowhere"), config, model, tokenizer, 7, ())
