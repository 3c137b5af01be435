"""Checkpoints as transformers writes them, with a tokenizer, small enough for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from helpers.given_tokenizers import byte_level

TEXTS = ("red green blue one two three north south east west 1234567890. ", "seven steps to the east, and back again")
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "vocab_size": 320,
}


def write_checkpoint(folder: Path, kind: str = "Llama", shards: bool = False, seed: int = 0, **config: Any) -> Any:
    """Save a model of transformers with random weights, norms too, and a tokenizer of 300 tokens; the model."""
    import transformers

    settings = getattr(transformers, f"{kind}Config")(**{**SMALL, **config}, attn_implementation="eager")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = getattr(transformers, f"{kind}ForCausalLM")(settings).eval()
        with torch.no_grad():
            for parameter in built.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    built.save_pretrained(folder, **({"max_shard_size": "20KB"} if shards else {}))
    write_tokenizer(folder)
    return built


def write_tokenizer(folder: Path, text: str = "") -> None:
    byte_level(folder / "tokenizer.json", [*TEXTS, text], ["<|endoftext|>"])
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
