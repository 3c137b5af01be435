"""The slots of a block: the base class of each, which is its interface and its plain default.

A method is a callable `factory(layer, …settings)` that builds one extension for one layer. It owns its initialisation,
marks its parameters with `hint`, and declares in `reads` what it wants to find in the history.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from torch import Tensor, nn

from zoo import API_VERSION as API_VERSION
from zoo.history import History, Projected, name_of as name_of
from zoo.kernels.attend import Factors, Scores
from zoo.kernels.blocked_attention import Term
from zoo.state import State

__all__ = [
    "ATTENTION",
    "FFN",
    "AttentionInputs",
    "HeadMixing",
    "InnerSite",
    "Layer",
    "MixingSite",
    "OuterSite",
    "Residual",
    "ScoreMixing",
    "Site",
    "Stream",
    "TemporalMixing",
    "hint",
    "preset",
]

Site = Literal["attention", "ffn"]
ATTENTION: Site = "attention"
FFN: Site = "ffn"

MixingSite = Literal["ffn", "attention_input", "attention"]  # in every layer, on (B, T, D)
Stream = Any  # what runs through the layers: (B, T, D); where a method widens it, a tensor or a tuple of tensors
InnerSite = Literal["qkv", "ffn_inner"]  # in every layer, on a joined product
OuterSite = Literal["embedding", "output"]  # once in a model: under the first layer, and after the last


@dataclass(frozen=True)
class Layer:
    """What an extension may know of the layer it is built for."""

    index: int  # from 0
    num_layers: int  # L
    width: int  # D
    ffn_dim: int
    num_heads: int  # H
    num_kv_heads: int
    head_dim: int  # d
    max_length: int
    parallel: bool  # the host: the FFN reads the block's input
    norm_eps: float
    init_std: float = 0.02  # of the model's first weights
    vocab_size: int = 0  # V; 0 where nobody said

    @property
    def out_std(self) -> float:
        """The deviation at the start of the model's weights that write to the stream."""
        return self.init_std / math.sqrt(2 * self.num_layers)

    @property
    def number(self) -> int:
        """The m = 1..L of the formulas."""
        return self.index + 1


class Hint(NamedTuple):
    decay: bool
    lr_factor: float


def hint(parameter: nn.Parameter, *, decay: bool = False, lr_factor: float = 1.0) -> nn.Parameter:
    """Mark how the optimiser treats a parameter: with or without weight decay, at a multiple of the learning rate."""
    parameter.zoo_hint = Hint(decay, lr_factor)  # type: ignore[attr-defined]
    return parameter


class Extension(nn.Module):
    """What the base classes of all slots share."""

    reads: frozenset[str] = frozenset()  # which of `zoo.history.READABLE` it looks at
    causal: bool = True  # position t never sees t+1…
    deterministic: bool = True  # in evaluation mode the same input gives the same output
    decodes: bool = True  # token by token with a state gives what the whole pass gives
    exact_gradient: bool = True  # backward gives forward's derivative; False with stopped or straight-through gradients
    idle: frozenset[str] = frozenset()  # parameters that get no gradient in this layer, by their names
    starts_as: str | None = None  # freshly built it computes what this method does (an id), or "baseline"
    rotary: bool = True  # False: this layer's attention has no rotary positions, whatever the model has
    start_scale: Mapping[str, float] = MappingProxyType(
        {}
    )  # core weight (see STARTS) → what its start is multiplied by

    watcher: Callable[[str, Tensor, bool], None] | None = None  # set by the core while a pass is observed

    def probes(self) -> dict[str, Tensor]:
        """The learned quantities worth watching in this layer: gates, skip weights, layer weights."""
        return {}

    def watch(self, name: str, value: Tensor, each: bool = False) -> None:
        """Show a quantity that depends on the input, such as a gate; it costs nothing but in a pass that is observed.

        What is recorded is the mean and quantiles over all elements; with `each`, of every element of the last dimension.
        """
        if self.watcher is not None:
            self.watcher(name, value, each)


STARTS = ("q", "k", "v", "out", "gate", "up", "down")  # the core's matrices of a layer, as `start_scale` names them


class AttentionInputs(NamedTuple):
    """Separate inputs for query, key and value, where a residual or a temporal method wants them."""

    query: Tensor
    key: Tensor
    value: Tensor


class Residual(Extension):
    """How sublayers read from and write to the stream. By default: x, and x + branch."""

    widens: bool = False  # the stream between open and close is not (B, T, D): a larger tensor, or a tuple of tensors
    prenorm: bool = True  # False: the block has no norms, and its sublayers get what `read` answers
    separates: bool = False  # `read` answers with an input for each of query, key and value

    def open(self, embedding: Tensor) -> Stream:
        """From the embedding to the stream: called on the first layer's extension."""
        return embedding

    def close(self, stream: Stream) -> Tensor:
        """From the stream to the hidden state (B, T, D): called on the last layer's extension."""
        return stream

    def read(self, site: Site, stream: Stream, history: History) -> Tensor | AttentionInputs:
        """What the sublayer at `site` gets, before its norm."""
        return stream

    def write(self, site: Site, stream: Stream, branch: Tensor, history: History) -> Stream:
        """The stream after the sublayer at `site` answered with `branch`."""
        return stream + branch


class HeadMixing(Extension):
    """What stands around attending: the projected heads before it, its answer after it. By default: both as they are.

    `normed` (B, T, D) are what was projected, for query, key and value: one tensor three times, unless a residual or a
    temporal method gives them apart.
    """

    def project(self, heads: Projected, normed: AttentionInputs, history: History, state: State | None) -> Projected:
        """The new tokens' heads, before norms, positions and the cache. It may answer with more query heads.

        Query heads are grouped in their order: n times as many as key heads means that the first n share the first one.
        """
        return heads

    def output(self, heads: Tensor, normed: AttentionInputs, history: History, state: State | None) -> Tensor:
        """From what was attended, (B, H′, T, d), to what the output projection gets, (B, H, T, d)."""
        return heads


class ScoreMixing(HeadMixing):
    """From this layer's queries and keys, its input and the history to the logits of attention. By default: q kᵀ / √d.

    It may mix heads too: its `project` comes after that of the method in the slot for it, its `output` before.
    """

    def forward(self, q: Tensor, k: Tensor, inputs: AttentionInputs, history: History, state: State | None) -> Scores:
        """q (B, H, T, d) and k (B, Hkv, S, d) after positions; the last T of the S keys belong to the queries.

        `inputs` (B, T, D) are what attention read, before its norm. The answer is unmasked: masking comes last, elsewhere.
        """
        return Factors((Term(q, k, query=q.size(-1) ** -0.5),))


class TemporalMixing(Extension):
    """Causal mixing of a sequence (B, T, D) with its own past, at one site or several. By default: none."""

    site: MixingSite | InnerSite | OuterSite = "ffn"

    def at(self, site: MixingSite | InnerSite | OuterSite) -> TemporalMixing | None:
        """What mixes at `site`: itself or a module inside it, None for nothing. Asked once, when the block is built.

        `embedding` is asked of the first layer's extension alone, `output` of the last layer's.
        """
        return self if site == self.site else None

    def forward(self, u: Tensor, state: State | None) -> Tensor | AttentionInputs:
        """The mixed u. At the site `attention_input` it may give query, key and value inputs of their own."""
        return u

    def inner(self, x: Tensor, u: Tensor | AttentionInputs, state: State | None) -> Tensor:
        """At a site inside a sublayer: the joined product x (B, T, n) of its input u, mixed.

        `qkv`: queries, keys and values after their norms and before positions, n = (H + 2 Hkv) d; u is what each of the
        three was projected from, (B, T, D) three times.
        `ffn_inner`: gate and up before the activation, n = 2 F; u is (B, T, D).
        """
        answer = self(x, state)
        assert isinstance(answer, Tensor)
        return answer


SLOT_CLASSES: dict[str, type[Extension]] = {  # slot → what its methods build; an instance of the class itself is plain
    "residual": Residual,
    "score_mixing": ScoreMixing,
    "temporal_mixing": TemporalMixing,
    "head_mixing": HeadMixing,
}
_PLAIN = tuple(SLOT_CLASSES.values())


def slot_of(extension: object) -> str | None:
    """The slot that it was written for: that of the nearest of its base classes; None if it has none of them."""
    slots = {base: slot for slot, base in SLOT_CLASSES.items()}
    return next((slots[base] for base in type(extension).__mro__ if base in slots), None)


def overrides(extension: Extension, name: str) -> bool:
    """Whether its class has a method of its own where the base class of its slot has a default."""
    slot = slot_of(extension)
    return slot is not None and getattr(type(extension), name) is not getattr(SLOT_CLASSES[slot], name)


def is_plain(extension: Extension) -> bool:
    """Whether it is the default of a slot, which reads no history."""
    return type(extension) in _PLAIN


E_ = TypeVar("E_", bound=Extension)


def preset(
    build: Callable[..., E_], /, doc: str | None = None, *, starts_as: str | None = None, **fixed: Any
) -> Callable[..., E_]:
    """A named variant of one idea: `build` with some settings fixed; those that remain open are the method's settings.

    `starts_as` declares what the variant computes when it is freshly built: another method's id, or "baseline".
    """
    signature = inspect.signature(build)
    unknown = fixed.keys() - signature.parameters.keys()
    if unknown:
        raise TypeError(f"{build.__name__} has no setting {', '.join(sorted(unknown))}")

    def method(layer: Layer, **settings: Any) -> E_:
        return build(layer, **fixed, **settings)

    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[p for name, p in signature.parameters.items() if name not in fixed]
    )
    method.__doc__ = doc or build.__doc__
    method.__module__ = build.__module__
    method.__name__ = method.__qualname__ = build.__name__
    method.fixed = fixed  # type: ignore[attr-defined]
    method.starts_as = starts_as  # type: ignore[attr-defined]
    return method


# The core knows the ids of methods only through the factories that it is given.


def called(id: str, build: Callable[..., E_], **settings: Any) -> Callable[[Layer], E_]:
    """A factory under the name that users know: what it builds is reported by this id."""

    def method(layer: Layer) -> E_:
        return build(layer, **settings)

    method.__name__ = method.__qualname__ = id
    return method


def attach_name(extension: Extension, factory: Callable[..., Any]) -> None:
    """Note on an extension what it was built as."""
    extension.zoo_method = getattr(factory, "__name__", None) or type(extension).__name__  # type: ignore[assignment]
