"""Runs that nobody trained: a configuration, a model with random weights and a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from zoo.config.load import load_config
from zoo.data.tokenizer import open_tokenizer
from zoo.generation.open_run import Run


def made_run(folder: Path, files: Sequence[str] = (), bindings: Sequence[str] = (), tokenizer: str = "bytes") -> Run:
    """A small run with these Gin files and bindings; every weight is random, norms and methods too."""
    config = load_config(["sizes/tiny", *files], list(bindings))
    opened = open_tokenizer(tokenizer, 64)
    model = config.build("model", vocab_size=opened.padded_size, max_length=48)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return Run(folder, config, model.eval(), opened, 7, ("a note",))
