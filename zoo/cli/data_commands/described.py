"""The corpus that a command is about: by a word, by Gin files, by bindings; the same settings as a run has."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoo.data.corpus import Reading
    from zoo.data.prepare import Choice
    from zoo.data.prepared import Prepared


def described(parser: argparse.ArgumentParser) -> None:
    """Add the flags that describe a corpus."""
    parser.add_argument(
        "corpus", nargs="?", metavar="CORPUS", help="a file, a folder, a name, a prepared folder (default: data.corpus)"
    )
    parser.add_argument(
        "--gin", nargs="+", action="extend", default=[], metavar="FILE", help="a Gin file, or its bare name"
    )
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="BINDING", help="a value, such as data.vocab_size=8192"
    )


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every setting of the data, by its name."""
    from zoo.config.load import load_config

    corpus, bindings = _sorted_out(arguments.corpus, arguments.set)
    given = [] if corpus is None else [f"data.corpus = {corpus!r}"]
    config = load_config(arguments.gin, [*bindings, *given])
    whole = {**config.defaults, **config.values}
    return {key.removeprefix("data."): value for key, value in whole.items() if key.startswith("data.")}


def _sorted_out(corpus: str | None, bindings: list[str]) -> tuple[str | None, list[str]]:
    """The corpus and the bindings; --set takes all words that follow it, also a corpus behind a binding."""
    words = [word for word in bindings if "=" not in word]
    if corpus is not None or len(words) != 1 or bindings[0] == words[0]:
        return corpus, bindings
    return words[0], [word for word in bindings if word != words[0]]


def opened(settings: dict[str, Any], into: Path | None = None, workers: int | None = None) -> list[Prepared]:
    """The corpora that the settings name, prepared."""
    from zoo.data.cache import Cache
    from zoo.data.opening import open_parts

    reading, choice = _how(settings)
    store = Cache(settings["cache"])
    parts = open_parts(settings["corpus"], reading, choice, store, settings["pad_vocab"], into, workers)
    return [part.prepared for part in parts]


def folders(settings: dict[str, Any]) -> list[Path]:
    """The folders of the corpora that the settings name: what is not prepared is not prepared now, but for a mixture."""
    import dataclasses

    from zoo.data.cache import Cache
    from zoo.data.opening import cached_folder, named_folder
    from zoo.errors import ZooError

    corpus = settings["corpus"]
    if not isinstance(corpus, str):
        return [each.folder for each in opened(settings)]
    reading, choice = _how(settings)
    folder = named_folder(corpus) or cached_folder(
        dataclasses.replace(reading, corpus=corpus), choice, Cache(settings["cache"])
    )
    if folder is None:
        raise ZooError(f"{corpus} is not prepared with these settings: zoo-data prepare does that")
    return [folder]


def _how(settings: dict[str, Any]) -> tuple[Reading, Choice]:
    from zoo.data.corpus import Reading
    from zoo.data.prepare import Choice

    reading = Reading(format=settings["format"], text_key=settings["text_key"], skip_bad=settings["skip_bad"])
    return reading, Choice(settings["tokenizer"], settings["vocab_size"])
