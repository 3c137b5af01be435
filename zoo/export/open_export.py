"""A folder of transformers as the zoo opens it: what `zoo-export` wrote, or a checkpoint that the plain block computes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from zoo.config.checkpoint_sizes import own_tokenizer
from zoo.errors import ConfigError, RunError, SettingError, ZooError
from zoo.export.origin import read_origin
from zoo.export.saved_model import model_of
from zoo.generation.open_run import KEY, PLUGIN, Run, encoded_prompt, open_run, other_versions
from zoo.pretrained import place
from zoo.pretrained.sizes import CONFIG, LENGTH, read_config, sizes_of
from zoo.pretrained.version import version
from zoo.pretrained.weights import tensors
from zoo.runs import run_folder

if TYPE_CHECKING:
    from zoo.data.token_interface import Tokenizer
    from zoo.model.language_model import LanguageModel


class Export(NamedTuple):
    """A model from a folder of transformers, with its tokenizer."""

    folder: Path
    model: LanguageModel
    tokenizer: Tokenizer
    begin: int  # the token that a text begins with
    key: str  # of its weights and its tokenizer
    name: str  # of its methods, or of its architecture
    seed: int  # of the run that it was; 0 if it was none
    step: int
    notes: tuple[str, ...]  # what a user may want to know: a sentence each
    corpora: tuple[str, ...] = ()  # what it was trained on: the folder does not say

    def encode(self, text: str) -> list[int]:
        """The token that begins a text, then its own."""
        return encoded_prompt(self.tokenizer, self.begin, text)


def open_subject(folder: Path) -> Run | Export:
    """The run of a folder, or its model of transformers; a sentence for a folder that is neither."""
    if run_folder.begun(folder) or not folder.is_dir():
        return open_run(folder)
    if (folder / CONFIG).exists():
        return open_export(folder)
    raise RunError(
        f"{folder} is not the folder of a run, which has a config.gin, nor of a model of transformers, which has a {CONFIG}"
    )


def open_export(folder: Path) -> Export:
    """The model of a folder that transformers loads, without transformers."""
    try:
        return _opened(folder)
    except ConfigError as error:
        if isinstance(error, SettingError) and error.key == place.KEY:  # which nobody has set here
            raise ZooError(f"{folder}{error.message.removeprefix(f' = {str(folder)!r}')}") from error
        raise ZooError(f"{folder / CONFIG}: {error}") from error


def _opened(folder: Path) -> Export:
    from zoo.data.tokenizer import open_tokenizer

    config = read_config(str(folder))
    model, notes = _zoo_model(folder, config) if config.get("model_type") == "zoo" else (_llama(folder, config), [])
    rows = model.embed.weight.size(0)
    tokenizer = open_tokenizer(str(Path(own_tokenizer(str(folder))).absolute()), rows)
    if tokenizer.vocab_size > rows:
        raise ZooError(
            f"the tokenizer in {folder} has {tokenizer.vocab_size:,} tokens and its model {rows:,}: put the model's own there"
        )
    begin, origin = config.get("bos_token_id"), read_origin(config)
    if type(begin) is not int or not 0 <= begin < tokenizer.vocab_size:
        begin = tokenizer.eos  # which ends the text before
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return Export(
        folder=folder,
        model=model.to(device).eval(),
        tokenizer=tokenizer,
        begin=begin,
        key=hashlib.sha256(f"{version(str(folder))} {tokenizer.identity}".encode()).hexdigest()[:KEY],
        name=origin.name,
        seed=origin.seed,
        step=origin.step,
        notes=tuple(notes),
    )


def _llama(folder: Path, config: Mapping[str, Any]) -> LanguageModel:
    """A plain block with the weights of a checkpoint that computes the same."""
    from zoo.model.build import model

    sizes = sizes_of(config, str(folder))
    own = {key.removeprefix("model."): value for key, value in sizes.settings.items()}
    return model(sizes.vocab_size, sizes.length, **own, start_from=str(folder))


def _zoo_model(folder: Path, config: Mapping[str, Any]) -> tuple[LanguageModel, list[str]]:
    """A model with methods, and what there is to say of their versions."""
    from zoo.model.language_model import unbuilt
    from zoo.plugins.registry import installed

    settings, methods = config.get("settings"), config.get("methods")
    if not isinstance(settings, dict) or not all(isinstance(each, str) for each in settings.values()):
        raise ZooError(f"{folder / CONFIG} has no settings of a model: export the run again")
    if not isinstance(methods, list) or not all(isinstance(each, dict) and each.keys() >= PLUGIN for each in methods):
        raise ZooError(f"{folder / CONFIG} does not say which methods its model has: export the run again")
    model = model_of(settings, methods, config.get("vocab_size", 0), config.get(LENGTH, 0))
    weights = {name.removeprefix("model."): weight for name, weight in tensors(str(folder)).items()}
    try:
        idle = unbuilt(model, weights)
        model.load_state_dict({name: weight for name, weight in weights.items() if name not in idle})
    except RuntimeError as error:
        raise ZooError(
            f"the weights in {folder} do not fit the model of its {CONFIG}: {' '.join(str(error).split())}"
        ) from error
    return model, other_versions(methods, installed().entries)
