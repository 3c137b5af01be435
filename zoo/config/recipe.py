"""The recipe: from the size of a model to its batch, learning rate, warm-up, decay and budget, by law.

With N = 12 w² d the parameters of the blocks of a plain model of depth d and width w (embeddings are not counted), the laws
are those of OLMo-core's model ladder. They give values to settings that no file and no --set binds; what is bound stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import gin

from zoo.config.gin_files import Statement
from zoo.config.values import render
from zoo.errors import ConfigError, SettingError, check_setting

NAME = "recipe"
REFERENCE = 108e6  # parameters of the model that the law of OLMo-core is stated at
LARGE_BATCH = 524_288  # tokens, from which on the mean of the squared gradients forgets sooner


@gin.register("recipe", module="zoo")
@dataclass(frozen=True)
class Recipe:
    """Sizes by law: what `recipe.tokens_per_parameter` turns on.

    tokens_per_parameter (above 0): the budget, as tokens per parameter of the blocks, 12 · width² · depth; it turns the laws
        on. With the schedule `wsd_s` it is the base budget.
    rows_at_once (at least 1): the most rows of a batch that fit into memory; more are made of several batches per step
        (`train.accumulate`). None: any number.
    """

    tokens_per_parameter: float | None = None
    rows_at_once: int | None = None

    def __post_init__(self) -> None:
        tokens, rows = self.tokens_per_parameter, self.rows_at_once
        check_setting(
            "recipe.tokens_per_parameter", tokens, tokens is None or 0 < tokens < 1e6, "above 0 and below 1,000,000"
        )
        check_setting("recipe.rows_at_once", rows, rows is None or rows >= 1, "at least 1")


class Derivation(NamedTuple):
    """A number of a recipe."""

    name: str  # of a setting, or of a quantity
    value: Any
    formula: str
    bound: str = ""  # where a file or --set binds the setting to another value; empty: the law holds


class Derived(NamedTuple):
    """A configuration after the laws."""

    values: dict[str, Any]
    recipe: tuple[Derivation, ...]


def num_parameters(width: int, depth: int) -> int:
    """The parameters of the blocks of a plain model."""
    return 12 * width**2 * depth


def batch_tokens(parameters: float) -> float:
    """The tokens of a batch."""
    return float(2048 * 160 * (parameters / REFERENCE) ** (2 / 3))


def peak_lr(parameters: float) -> float:
    """The learning rate after the warm-up."""
    return float(0.5 * 0.0047 * (parameters / REFERENCE) ** (-1 / 3))


def second_beta(tokens: float) -> float:
    """How slowly AdamW forgets squared gradients, by the tokens of a batch."""
    return 0.99 if tokens < LARGE_BATCH else 0.95


def derive(values: Mapping[str, Any], winners: Mapping[str, Statement], default: Callable[[str], Any]) -> Derived:
    """The values with those of the laws in them, if there is a recipe; it is then used up and stands in them no more."""
    own = {key: value for key, value in values.items() if key.startswith(f"{NAME}.")}
    if not any(value is not None for value in own.values()):
        return Derived(dict(values), ())
    try:
        return _Derivations(values, winners, default).all()
    except SettingError as error:
        where = winners[error.key].where if error.key in winners else ""
        raise ConfigError(f"{where}: {error}" if where else str(error)) from None


class _Derivations:
    """The laws applied to one configuration, each number with its formula."""

    def __init__(
        self, values: Mapping[str, Any], winners: Mapping[str, Statement], default: Callable[[str], Any]
    ) -> None:
        self.values = dict(values)
        self.bound = {key: each.where for key, each in winners.items() if each.source != "defaults"}
        self.default = default
        self.made: list[Derivation] = []

    def get(self, key: str) -> Any:
        return self.values[key] if key in self.values else self.default(key)

    def size(self, key: str) -> int:
        """A setting that must be a size for the laws to make sense of it."""
        value: int = self.get(key)
        check_setting(key, value, 1 <= value <= 1 << 20, f"from 1 to {1 << 20:,}")
        return value

    def note(self, name: str, value: Any, formula: str) -> None:
        self.made.append(Derivation(name, value, formula))

    def set(self, key: str, value: Any, formula: str) -> Any:
        """Give a setting its value by law, unless it is bound; the value that it has then."""
        if key in self.bound:
            law = render(value)
            self.made.append(Derivation(key, self.values[key], f"bound; by law {law}: {formula}", self.bound[key]))
        else:
            self.values[key] = value
            self.note(key, value, formula)
        return self.values[key]

    def all(self) -> Derived:
        recipe = Recipe(self.get(f"{NAME}.tokens_per_parameter"), self.get(f"{NAME}.rows_at_once"))
        if recipe.tokens_per_parameter is None:
            raise SettingError(
                f"{NAME}.rows_at_once", " has no effect without recipe.tokens_per_parameter: bind that too"
            )
        parameters = self.sizes()
        batch = self.batch(parameters, recipe.rows_at_once)
        tokens = self.budget(parameters, recipe.tokens_per_parameter, batch)
        self.rates(parameters, batch, tokens)
        values = {key: self.values[key] for key in sorted(self.values) if not key.startswith(f"{NAME}.")}
        return Derived(values, tuple(self.made))

    def sizes(self) -> int:
        depth, aspect, width = self.size("model.depth"), self.size("model.aspect"), self.get("model.width")
        if width is None:
            width = depth * aspect
            self.note("width w", width, f"aspect · depth = {aspect} · {depth}")
        else:
            self.note("width w", self.size("model.width"), "model.width")
        parameters = num_parameters(width, depth)
        self.note("parameters N", parameters, f"12 w² d = 12 · {width}² · {depth}, without embeddings")
        return parameters

    def batch(self, parameters: int, rows_at_once: int | None) -> int:
        """The tokens of a step as the settings have it, on one rank."""
        length, law = self.size("data.length"), batch_tokens(parameters)
        self.note("batch B", round(law), "2048 · 160 · (N / 108e6)^(2/3) tokens")
        rows = max(1, round(law / length))
        parts = 1 if rows_at_once is None else math.ceil(rows / rows_at_once)
        if rows_at_once is not None:
            self.set("train.accumulate", parts, f"{rows} rows, at most {rows_at_once} at once (recipe.rows_at_once)")
        parts = self.size("train.accumulate")
        formula = f"B / data.length = {law:,.0f} / {length}" + (f" / train.accumulate = {parts}" if parts > 1 else "")
        self.set("data.batch_size", max(1, round(rows / parts)), formula)
        return self.size("data.batch_size") * length * parts

    def budget(self, parameters: int, per_parameter: float, batch: int) -> int:
        """The tokens of the whole run."""
        times, words = 1.0, f"{per_parameter:g} N"
        if self.get("train.schedule") == "wsd_s":
            times = self.get("train.budgets")[-1]
            words += f" · {times:g}, the last of train.budgets"
        law = round(per_parameter * parameters * times)
        if "train.steps" in self.bound and "train.tokens" not in self.bound:
            steps: int = self.values["train.steps"]
            tokens = steps * batch
            formula = f"bound; by law {-(-law // batch)}: {words} = {law:,} tokens"
            self.made.append(Derivation("train.steps", steps, formula, self.bound["train.steps"]))
        else:
            tokens = self.set("train.tokens", law, words)
            self.note("steps", max(1, -(-tokens // batch)), f"train.tokens / {batch:,} tokens per step")
        if tokens <= parameters and "train.warmup" not in self.bound:
            raise SettingError(
                f"{NAME}.tokens_per_parameter",
                f" = {per_parameter:g}: the run has {tokens:,} tokens, and the warm-up alone takes N = {parameters:,}: train"
                " longer, or bind train.warmup",
            )
        return int(tokens)

    def rates(self, parameters: int, batch: int, tokens: int) -> None:
        self.set("train.lr", _round(peak_lr(parameters)), "½ · 0.0047 · (N / 108e6)^(−1/3)")
        self.set("train.warmup", _round(parameters / tokens), f"N tokens of {tokens:,}")
        limit = f"β₂ = 0.99 below {LARGE_BATCH:,} tokens per batch, else 0.95"
        self.set("train.betas", (0.9, second_beta(batch)), f"{limit}; here {batch:,}")
        self.set("train.weight_decay", 0.1, "constant")
        self.set("train.decay_embeddings", False, "no decay of embedding and output")
        self.set("train.clip", 1.0, "constant")


def _round(value: float) -> float:
    """The value with four digits: that is more than the laws know, and the same on every machine."""
    return float(f"{value:.4g}")
