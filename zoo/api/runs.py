"""Runs from Python: trained on a corpus, loaded again, written with, evaluated."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, get_type_hints, overload

from zoo.api.given import Place, fitted, name as checked_name, place
from zoo.errors import ConfigError, ZooError, nearest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from zoo.api.models import Method
    from zoo.evaluation.outcomes import Outcome
    from zoo.evaluation.subject import Subject
    from zoo.generation.open_run import Run


def train(
    *methods: str,
    folder: Place,
    gin: Place | Sequence[Place] = (),
    settings: Mapping[str, Any] | None = None,
    show: bool = False,
    allow_leak: bool = False,
) -> Run:
    """Train a run in a folder, as zoo-train does, and open it: its `summary` says how it went.

    `zoo.train("METHOD", folder="runs/mine", gin=["sizes/tiny"], settings={"train.steps": 100})`. `methods` are ids, `gin`
    the names of Gin files, or one, and `settings` the values of docs/settings.md by their names. The same call again goes on
    with a run that was interrupted, and opens one that is over. `show` shows the progress. One run at a time: the
    configuration is global.
    """
    from zoo.config.load import load_config
    from zoo.generation.open_run import open_run
    from zoo.training.trainer import run

    into, files = place(folder, "the folder of a run"), [gin] if isinstance(gin, str | os.PathLike) else gin
    if not isinstance(files, Sequence):
        raise ZooError(f"gin names Gin files, one or a list of them, and {gin!r} does not")
    named = [str(place(file, "a Gin file")) for file in files]
    config = load_config(named, [*_slots(methods), *_bindings(settings or {})])
    summary = run(config, into, show=show, allow_leak=allow_leak)
    if summary.status == "interrupted":
        raise KeyboardInterrupt(f"the run in {folder} was interrupted at step {summary.steps:,} and saved")
    return open_run(into)


def load(folder: Place, step: int | None = None) -> Run:
    """A trained run from its folder: the last checkpoint, or that of a step."""
    from zoo.generation.open_run import open_run

    return open_run(place(folder, "a run"), fitted("step", step, int | None))


class Drawing(TypedDict, total=False):
    """How texts are drawn: the flags of zoo-generate."""

    max_tokens: int | None
    temperature: float
    top_k: int | None
    top_p: float
    seed: int
    cache: bool


@overload
def generate(run: Run, prompts: str = "", **how: Unpack[Drawing]) -> str: ...  # type: ignore[overload-overlap]
@overload
def generate(run: Run, prompts: Sequence[str], **how: Unpack[Drawing]) -> list[str]: ...
def generate(run: Run, prompts: str | Sequence[str] = "", **how: Unpack[Drawing]) -> str | list[str]:
    """What a run writes after a prompt, or after each of several; as zoo-generate does with the same numbers.

    `max_tokens` (as many as the model was trained on), `temperature` (0.8; 0 takes the likeliest token each time), `top_k`,
    `top_p` and `seed` (1) are those of zoo-generate; `cache=False` is its --no-cache.
    """
    from zoo.generation.generate import generate as drawn
    from zoo.generation.sampling import Sampling

    if not hasattr(run, "tokenizer"):
        raise ZooError(f"zoo.generate takes a run, as zoo.load and zoo.train return it, and not a {type(run).__name__}")
    if not isinstance(prompts, str | Sequence) or not all(isinstance(each, str) for each in prompts):
        raise ZooError(f"a prompt is a text, or a list of texts, not {prompts!r}")
    asked = [prompts] if isinstance(prompts, str) else list(prompts)
    if not asked:
        return []
    if unknown := sorted(how.keys() - Drawing.__annotations__.keys()):
        raise ZooError(f"zoo.generate has no {unknown[0]}{nearest(unknown[0], Drawing.__annotations__)}")
    types = get_type_hints(Drawing)
    for key, value in how.items():
        how[key] = fitted(key, value, types[key])  # type: ignore[literal-required]
    max_tokens, cache = how.get("max_tokens"), how.get("cache", True)
    if max_tokens is not None and max_tokens < 1:
        raise ZooError(f"max_tokens = {max_tokens} must be at least 1")
    if cache:
        run.check_cache()
    encoded = [run.encode(prompt) for prompt in asked]
    limit, _ = run.limit(encoded, max_tokens)
    sampling = Sampling(how.get("temperature", 0.8), how.get("top_k"), how.get("top_p", 1.0), how.get("seed", 1))
    texts = drawn(
        run.model,
        encoded,
        run.tokenizer.eos,
        sampling,
        max_tokens=limit,
        cache=cache,
        vocab_size=run.tokenizer.vocab_size,
    )
    written = [run.tokenizer.decode(text.tokens) for text in texts]
    return written[0] if isinstance(prompts, str) else written


def evaluate(run: Subject | Place, kind: str, source: Place, *, split: str = "all", most: int | None = None) -> Outcome:
    """A run on a task in a file: `kind` is corpus, pairs, cloze or choices (docs/evaluation.md).

    `run` may also be a folder: of a run, of zoo-export, or of a Llama of transformers. `split` is of a corpus;
    `most` takes the first so many items alone. The outcome has `figures`, by name, and the score of every item, so that
    `zoo.compare` can pair them.
    """
    from zoo.evaluation.tasks import open_task
    from zoo.export.open_export import open_subject

    if not isinstance(run, str | os.PathLike) and not hasattr(run, "tokenizer"):
        raise ZooError(f"zoo.evaluate takes a run, or the folder of a run or an export, and not a {type(run).__name__}")
    kind, split = checked_name(kind, "a kind of task"), checked_name(split, "a split")
    task = open_task(kind, str(place(source, "a task")), split, fitted("most", most, int | None))
    return task.measure(open_subject(Path(run)) if isinstance(run, str | os.PathLike) else run)


def _slots(methods: Sequence[str | Method]) -> list[str]:
    """The bindings that put methods in their slots."""
    from zoo.plugins.registry import installed

    bindings: dict[str, str] = {}
    for name in methods:
        if not isinstance(name, str):
            raise ZooError(f"a run has methods by their ids, so that it can be repeated; {name!r} is none")
        for part in installed().parts(name):
            entry = part.entry
            if entry.slot in bindings:
                raise ConfigError(f"{entry.id} and another method would both stand in the slot {entry.slot}")
            bindings[entry.slot] = f"model.{entry.slot} = @{entry.name}"
    return list(bindings.values())


def _bindings(settings: Mapping[str, Any]) -> list[str]:
    from zoo.config.values import KEY, render

    if not isinstance(settings, Mapping):
        raise ConfigError(
            f"settings are a dictionary from names to values, such as {{'train.steps': 100}}, not {settings!r}"
        )
    bindings = []
    for name, value in settings.items():
        if not isinstance(name, str) or not KEY.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be the name of a setting, such as 'train.steps'")
        plain = os.fspath(value) if isinstance(value, os.PathLike) else value
        try:
            bindings.append(f"{name} = {render(plain)}")
        except TypeError as error:
            raise ConfigError(f"{name} = {value!r} cannot be a setting: {error}") from None
    return bindings
