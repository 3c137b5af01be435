"""The sizes of a model that starts from a checkpoint, and its tokenizer: they are the checkpoint's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.config.gin_files import Statement
from zoo.errors import ConfigError, SettingError
from zoo.pretrained.place import KEY, located
from zoo.pretrained.sizes import STATED, Sizes, differences, read_sizes
from zoo.pretrained.version import VERSION, version

TOKENIZER = "data.tokenizer"


def with_sizes(values: Mapping[str, Any], winners: Mapping[str, Statement]) -> dict[str, Any]:
    """The values, with what follows from `model.start_from` unless it is bound; a bound size must be the checkpoint's.

    Where every size is bound, as in the config.gin of a run, the checkpoint may be gone: a run that resumes has weights of
    its own.
    """
    checkpoint = values.get(KEY)
    if checkpoint is None:
        return dict(values)
    bound = {key for key, each in winners.items() if each.source != "defaults"}
    try:
        sizes = read_sizes(checkpoint)
        _check(checkpoint, sizes, values, winners, bound)
        found = {**sizes.settings, TOKENIZER: own_tokenizer(checkpoint), "data.pad_vocab": sizes.vocab_size}
        found[VERSION] = version(checkpoint)
    except SettingError as error:
        if {*STATED, TOKENIZER} <= bound:
            return dict(values)
        raise ConfigError(f"{winners[KEY].where}: {error}") from error
    merged = {**values, **{key: value for key, value in found.items() if key not in bound}}
    return {key: merged[key] for key in sorted(merged)}


def _check(
    checkpoint: str, sizes: Sizes, values: Mapping[str, Any], winners: Mapping[str, Statement], bound: set[str]
) -> None:
    """Refuse sizes that are bound to something else."""
    ours = {key: value for key, value in values.items() if key in bound}
    if wrong := differences(sizes, ours):
        places = ", ".join(dict.fromkeys(winners[key].where for key in wrong))
        raise ConfigError(
            f"{places}: {KEY} = {checkpoint!r} has other sizes: {'; '.join(wrong.values())}: leave them out, so that they are"
            " the checkpoint's"
        )


def own_tokenizer(checkpoint: str) -> str:
    """The checkpoint's own tokenizer, as data.tokenizer names one."""
    folder = located(checkpoint)
    if (folder / "tokenizer.json").exists():
        return str(folder)
    if (folder / "tokenizer.model").exists():
        return str(Path(folder, "tokenizer.model"))
    raise SettingError(KEY, f" = {checkpoint!r} has neither a tokenizer.json nor a tokenizer.model: put one there")
