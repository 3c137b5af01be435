"""A trained run written as a folder that transformers loads."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from zoo.errors import DataError, ZooError
from zoo.export.llama import is_llama, llama_config, llama_weights
from zoo.export.model_card import model_card
from zoo.export.origin import origin_entry
from zoo.export.saved_model import settings_of
from zoo.export.tokenizer_file import tokenizer_files

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.generation.open_run import Run

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ZOO = "ZooForCausalLM"


class Exported(NamedTuple):
    """What was written."""

    architecture: str  # the class of transformers that loads it
    notes: tuple[str, ...]  # what a user may want to know: a sentence each


def export_run(run: Run, folder: Path, dtype: str = "float32") -> Exported:
    """Write a run into a folder that is not there yet, or is empty."""
    _check_folder(folder)
    notes = list(run.notes)
    config = llama_config(run.config, run.model) if is_llama(run.config) else _zoo_config(run)
    weights = (
        llama_weights(run.config, run.model)
        if is_llama(run.config)
        else {f"model.{name}": weight for name, weight in run.model.state_dict().items()}
    )
    ends = {"bos_token_id": run.tokenizer.eos, "eos_token_id": run.tokenizer.eos, "pad_token_id": run.tokenizer.eos}
    architecture = config["architectures"][0]
    files = {
        "config.json": _json({**config, **ends, "torch_dtype": dtype, **origin_entry(run)}),
        "generation_config.json": _json({**ends, **_generation(run)}),
        "README.md": model_card(run, architecture),
    }
    try:
        files |= tokenizer_files(run.tokenizer, run.model.max_seq_len)
    except DataError as error:
        notes.append(
            f"{error}: the folder has it as the zoo does, in tokenizer.model, which transformers does not read"
        )
    draft = folder.with_name(f"{folder.name}.part")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        for name, text in files.items():
            (draft / name).write_text(text, encoding="utf-8")
        if "tokenizer.json" not in files:
            (draft / "tokenizer.model").write_bytes(run.tokenizer.content)
        _write_weights(draft / "model.safetensors", weights, DTYPES[dtype])
        os.replace(draft, folder)
    except OSError as error:
        raise ZooError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Exported(architecture, tuple(notes))


def _check_folder(folder: Path) -> None:
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ZooError(f"{folder} is not empty: name a folder that is not there yet")
    except OSError as error:
        raise ZooError(f"{folder} cannot be used: {error.strerror or error}") from error


def _zoo_config(run: Run) -> dict[str, Any]:
    """The config.json of a model that only the zoo computes."""
    layer: Any = run.model.layers[0].layer
    methods = [
        {"slot": method.slot, "id": method.id, "distribution": method.distribution, "version": str(method.version)}
        for method in run.config.plugins
    ]
    return {
        "architectures": [ZOO],
        "model_type": "zoo",
        "vocab_size": run.model.embed.weight.size(0),
        "max_position_embeddings": run.model.max_seq_len,
        "hidden_size": layer.width,
        "num_hidden_layers": layer.num_layers,
        "num_attention_heads": layer.num_heads,
        "use_cache": not run.model.refuses,
        "methods": methods,
        "settings": settings_of(run.config),
    }


def _generation(run: Run) -> dict[str, Any]:
    """How text is made of it: rows that no token has are never chosen."""
    rows = list(range(run.tokenizer.vocab_size, run.model.embed.weight.size(0)))
    return {"do_sample": False, "use_cache": not run.model.refuses, **({"suppress_tokens": rows} if rows else {})}


def _write_weights(file: Path, weights: Mapping[str, Tensor], dtype: torch.dtype) -> None:
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise ZooError("writing weights needs the package safetensors: pip install 'transformer-zoo[hf]'") from error
    plain = {
        name: weight.detach().cpu().to(dtype if weight.is_floating_point() else weight.dtype).clone().contiguous()
        for name, weight in weights.items()
    }
    save_file(plain, file, metadata={"format": "pt"})


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
