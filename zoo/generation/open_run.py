"""A trained run, opened again: its model, with its own configuration, methods and tokenizer."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from zoo.config.values import changed, rendered
from zoo.errors import RunError, ZooError, nearest
from zoo.runs import checkpoint, run_folder
from zoo.runs.summary import Summary, read_summary
from zoo.slots import SLOTS

if TYPE_CHECKING:
    from zoo.config.configuration import Config
    from zoo.data.token_interface import Tokenizer
    from zoo.model.language_model import LanguageModel
    from zoo.plugins.finder import MethodEntry


PLUGIN = {"slot", "id", "distribution", "version"}  # what is written down of a method
KEY = 16  # digits of a configuration's hash that a store knows a run by


class Run(NamedTuple):
    """A trained run, ready to write."""

    folder: Path
    config: Config
    model: LanguageModel
    tokenizer: Tokenizer
    step: int
    notes: tuple[str, ...]  # what a user may want to know: a sentence each

    @property
    def summary(self) -> Summary | None:
        """How its training went; None while it has not come to an end or a stop."""
        return read_summary(self.folder)

    @property
    def key(self) -> str:
        """What a store knows it by: the hash of its configuration."""
        return self.config.fingerprint()[:KEY]

    @property
    def name(self) -> str:
        """The ids of its methods."""
        return self.config.name

    @property
    def seed(self) -> int:
        seed: int = self.config.get("train.seed")
        return seed

    @property
    def corpora(self) -> tuple[str, ...]:
        """What it was trained on."""
        named = self.config.get("data.corpus")
        return (named,) if isinstance(named, str) else tuple(named)

    @property
    def begin(self) -> int:
        """The token that begins a document. At the same token a text ends."""
        return self.tokenizer.bos

    def encode(self, text: str) -> list[int]:
        """A prompt: the token that begins a document, then the text."""
        return encoded_prompt(self.tokenizer, self.begin, text)

    def limit(self, prompts: Sequence[Sequence[int]], max_tokens: int | None) -> tuple[int, list[str]]:
        """How many tokens may follow the longest prompt, and what to say about it."""
        longest, trained = max(map(len, prompts)), self.model.max_seq_len
        fits = trained + 1 - longest  # the last token is not read again
        if max_tokens is None and fits < 1:
            raise ZooError(
                f"a prompt of {longest:,} tokens leaves no room: the run in {self.folder} was trained on {trained:,}"
                " at a time; shorten it, or ask for text beyond that with --max-tokens"
            )
        asked_for = fits if max_tokens is None else max_tokens
        if asked_for <= fits:
            return asked_for, []
        asked = f"a prompt of {longest:,} tokens and {asked_for:,} of text"
        one_more = torch.zeros(1, trained + 1, dtype=torch.long, device=self.model.output_weight().device)
        try:  # a method that has weights for each position says so
            with torch.no_grad():
                self.model.hidden(one_more)
        except ZooError as error:
            room = f"--max-tokens {fits}" if fits > 0 else "shorten the prompt"
            raise ZooError(f"{asked} are too long: {error}. Here that means: {room}") from error
        worse = f"the {trained:,} tokens the run was trained on: the text may get worse"
        if longest > trained:
            return asked_for, [f"the prompt alone, {longest:,} tokens, is {longest / trained:.1f} times {worse}"]
        return asked_for, [f"{asked} are more than {worse}"]

    def check_cache(self) -> None:
        """Refuse a method that cannot be decoded with a state, by its id."""
        ids = [method.id for method in self.config.plugins if not all(map(_decodes, self.model.parts(method.slot)))]
        if ids:
            raise ZooError(
                f"{' and '.join(ids)} cannot be decoded step by step: that would not give what the whole pass gives."
                " With --no-cache the whole text is run again for every token"
            )


def encoded_prompt(tokenizer: Tokenizer, begin: int, text: str) -> list[int]:
    """The token that begins a document, then a text; a sentence for one that is no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ZooError(f"the prompt {text!r} is not valid text: it must be UTF-8") from None
    return [begin, *tokenizer.encode([text])[0].tolist()]


def _decodes(method: torch.nn.Module) -> bool:
    return all(getattr(module, "decodes", True) for module in method.modules())


def open_run(folder: Path, step: int | None = None) -> Run:
    """The run as its last checkpoint has it, or that of a step."""
    from zoo.data.tokenizer import open_tokenizer, padding
    from zoo.model.language_model import unbuilt

    try:
        there = run_folder.begun(folder)
    except OSError as error:
        raise RunError(f"{folder} cannot be read: {error.strerror}") from error
    if not there:
        raise RunError(_no_run(folder))
    config = _configuration(folder)
    _check_model(folder, config)
    source, notes = _checkpoint(folder, step)
    notes += other_versions(_plugins(folder), config.plugins)
    pad = padding(config.get("data.tokenizer"), config.get("data.pad_vocab"))
    tokenizer = open_tokenizer(str(folder / "tokenizer.model"), pad)
    _check_tokenizer(folder, tokenizer)
    weights_follow = {"start_from": None} if "model.start_from" in config.values else {}
    model: LanguageModel = config.build(
        "model", vocab_size=tokenizer.padded_size, max_length=config.get("data.length"), **weights_follow
    )
    try:
        loaded = checkpoint.read(source)
    except FileNotFoundError:  # a training that goes on has dropped it
        raise RunError(f"{source.path} was replaced by a newer checkpoint just now: try again") from None
    checkpoint.check_parts(source, loaded, {"model": dict})
    try:
        if idle := unbuilt(model, loaded["model"]):
            notes.append(f"{source.path} has {len(idle)} idle weights of attention, as earlier versions did: left out")
        model.load_state_dict({name: weight for name, weight in loaded["model"].items() if name not in idle})
    except (RuntimeError, TypeError, AttributeError) as error:
        reasons = "".join(f"\n{note}" for note in notes)
        raise RunError(f"{source.path} does not fit the model of its configuration: {error}{reasons}") from error
    checkpoint.check_owner(source, loaded, _as_begun(folder, config.text, loaded), config.restated)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return Run(folder, config, model.to(device).eval(), tokenizer, source.step, tuple(notes))


def _no_run(folder: Path) -> str:
    if not folder.exists():
        parent = folder.parent
        runs = [path.parent.name for path in parent.glob("*/config.gin")] if parent.is_dir() else []
        return f"there is no folder {folder}{nearest(folder.name, runs)}"
    return f"{folder} is not the folder of a run: it has no config.gin"


def _configuration(folder: Path) -> Config:
    from zoo.config.load import load_config

    try:
        return load_config([str(folder / "config.gin")])
    except ZooError as error:
        missing = [f"{p['slot']}.{p['id']} of {p['distribution']} {p['version']}" for p in _plugins(folder)]
        made_with = f"; the run was made with {', '.join(missing)}" if missing else ""
        raise RunError(f"the configuration of {folder} cannot be used here: {error}{made_with}") from error


def _check_model(folder: Path, config: Config) -> None:
    """Refuse weights whose model has changed since: a default that nobody bound makes another function of them."""
    ours = tuple(f"{part}." for part in ("model", *SLOTS))
    unbound = {
        key: value for key, value in config.defaults.items() if key.startswith(ours) and key not in config.values
    }
    if changes := changed(run_folder.operative(folder), rendered(unbound)):
        raise RunError(
            f"since the run in {folder} was trained, defaults of its model have changed: {'; '.join(changes)}. Use the"
            f" version that trained it, or bind what it had in {folder / 'config.gin'}"
        )


def _as_begun(folder: Path, text: str, loaded: Mapping[str, Any]) -> str:
    """The configuration without what was bound afterwards to the value that it had anyway: see `_check_model`."""
    before = str(loaded.get(checkpoint.CONFIG, "")).splitlines()
    anyway = {f"{key} = {value}" for key, value in run_folder.operative(folder).items()}
    return "\n".join(line for line in text.splitlines() if line in before or line not in anyway)


def _check_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that is not the one the run was trained with."""
    before = run_folder.known_versions(folder).get("tokenizer")
    if before is not None and before != tokenizer.identity:
        train = shlex.join(["zoo-train", "--gin", str(folder / "config.gin"), "--run", str(folder)])
        raise RunError(
            f"{folder / 'tokenizer.model'} is not the tokenizer that the run was trained with: put back a copy of it; if"
            f" the run is not over, {train} also writes it anew"
        )


def _checkpoint(folder: Path, step: int | None) -> tuple[checkpoint.Checkpoint, list[str]]:
    checkpoints = checkpoint.listed(folder / "checkpoints")
    if not checkpoints:
        train = shlex.join(["zoo-train", "--gin", str(folder / "config.gin"), "--run", str(folder)])
        raise RunError(f"the run in {folder} has no checkpoint yet; train it first: {train}")
    if step is None:
        newest, notes = checkpoint.newest(folder / "checkpoints")
        assert newest is not None
        return newest, notes
    for each in checkpoints:
        if each.step == step:
            if reason := checkpoint.damage(each):
                raise RunError(f"{each.path} {reason}")
            return each, []
    steps = ", ".join(str(each.step) for each in checkpoints)
    raise RunError(f"the run in {folder} has no checkpoint of step {step}; it has those of {steps}")


def other_versions(made_with: Iterable[Mapping[str, Any]], methods: Iterable[MethodEntry]) -> list[str]:
    """A sentence for each method that another version made."""
    now = {(method.slot, method.id): method for method in methods}
    notes = []
    for before in made_with:
        method = now.get((before["slot"], before["id"]))
        if method and (method.distribution, method.version) != (before["distribution"], before["version"]):
            notes.append(
                f"{method.name} is that of {method.source}, and the run was made with"
                f" {before['distribution']} {before['version']}"
            )
    return notes


def _plugins(folder: Path) -> list[dict[str, Any]]:
    try:
        plugins: list[dict[str, Any]] = run_folder.read_provenance(folder)["plugins"]
    except (RunError, KeyError):
        return []
    known = isinstance(plugins, list) and all(isinstance(each, dict) and each.keys() >= PLUGIN for each in plugins)
    return plugins if known else []
