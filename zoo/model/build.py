"""A language model from sizes and methods: what Gin configures as `model`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, get_args

import gin

from zoo.errors import SettingError, check_setting
from zoo.extension import Extension, HeadMixing, Layer, Residual, ScoreMixing, TemporalMixing
from zoo.model import room
from zoo.model.block import Block
from zoo.model.completep import ScaledBlock, scaling
from zoo.model.extensions import build_extensions
from zoo.model.hybrid import Hybrid
from zoo.model.initialise import Deviations, initialise
from zoo.model.language_model import DEEPEST, WIDEST, LanguageModel, Scaling
from zoo.model.positions import NoPositions, Positions, Rotary
from zoo.model.rope_scaling import rope_scaling as parse_rope_scaling
from zoo.model.start import load_start
from zoo.slots import SLOTS

Encoding = Literal["rotary", "none"]  # of positions
Parametrization = Literal["standard", "completep"]


@gin.register("model", module="zoo")
def model(
    vocab_size: int,
    max_length: int,
    *,
    depth: int = 6,
    aspect: int = 32,
    width: int | None = None,
    head_dim: int | None = None,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    query_group: int | None = None,
    ffn_dim: int | None = None,
    parallel: bool = False,
    dropout: float = 0.0,
    tied: bool = True,
    qk_norm: bool = False,
    positions: Encoding = "rotary",
    rope_theta: float = 10000.0,
    rope_scaling: dict[str, float | str] | None = None,
    norm_eps: float = 1e-5,
    init_std: float | None = None,
    parametrization: Parametrization = "standard",
    base_width: int | None = None,
    base_depth: int | None = None,
    residual: Callable[..., Residual] | tuple[Callable[..., Residual] | None, ...] | None = None,
    score_mixing: Callable[..., ScoreMixing] | tuple[Callable[..., ScoreMixing] | None, ...] | None = None,
    temporal_mixing: Callable[..., TemporalMixing] | tuple[Callable[..., TemporalMixing] | None, ...] | None = None,
    head_mixing: Callable[..., HeadMixing] | tuple[Callable[..., HeadMixing] | None, ...] | None = None,
    start_from: str | None = None,
    start_version: str | None = None,
    seed: int = 0,
) -> LanguageModel:
    """A language model. `depth` is the dial: width = depth · aspect, heads of width `aspect`, an FFN of 8/3 the width.

    Without methods this is a Llama. `parallel` chooses the host whose FFN reads the block's input. The same seed gives the
    same value to every weight that two models share, whatever methods they have. `init_std` is 0.02 at GPT-2's width of 768
    and grows as 1/√width below it: with 0.02 a narrow plain block starts with branches too weak to learn in a short study,
    and every method that makes them stronger looks like a gain.

    depth (at least 1): the number of blocks.
    aspect (at least 1): the width per block of depth, and the width of a head.
    width (at least 1): the width of the stream; None: depth · aspect.
    head_dim (at least 1): the width of a head, an even number for rotary positions; None: `aspect`.
    num_heads (at least 1): the number of heads; None: width / head_dim.
    num_kv_heads (at least 1): the number of heads of keys and values, a divisor of `num_heads`; None: as many.
    query_group (at least 1): how many heads of queries share keys and values, or the nearest number that divides `num_heads`;
        it is given instead of `num_kv_heads`. None: as `num_kv_heads` says.
    ffn_dim: the inner width of the FFN; None: 8/3 of the width, as a multiple of 16.
    parallel: let attention and FFN read the same input, side by side.
    dropout (from 0 to below 1): the part of the activations that training sets to zero.
    tied: use the token embedding as the output projection too.
    qk_norm: normalise queries and keys in every head.
    positions: how attention knows where a token is: by rotary positions, unless a method goes without, or by the causal mask
        alone.
    rope_theta: the base of the rotary positions' wavelengths.
    rope_scaling: how those wavelengths are made longer, as a config.json of transformers has it: {'rope_type': 'linear',
        'factor': 2.0}, or 'llama3' with its four numbers; None: not at all.
    norm_eps: what every RMSNorm adds to the mean square.
    init_std: the deviation of the first weights; None: 0.02 · √(768 / width).
    parametrization: how settings carry over to other sizes: as they are, or by CompleteP from a base model's.
    base_width (at least 1): the width of the model at which the settings were chosen, for CompleteP.
    base_depth (at least 1): the depth of that model.
    residual: the method in the residual slot, as @residual.ID; several, for the layers in turn, as (@residual.ID, None); None:
        the plain residual.
    score_mixing: the method in the score-mixing slot, as @score_mixing.ID, or several in turn; None: plain attention.
    temporal_mixing: the method in the temporal-mixing slot, as @temporal_mixing.ID, or several in turn; None: none.
    head_mixing: the method in the head-mixing slot, as @head_mixing.ID, or several in turn; None: none.
    start_from: a checkpoint whose weights a model starts from: the folder of a LlamaForCausalLM, or its id on the Hugging
        Face hub. Its sizes and its tokenizer come along; a method beside it keeps its own start. None: random weights.
    start_version: what distinguishes that checkpoint from another one in the same place; a run sets it by itself.
    seed: the seed of the first weights; where it is not bound, a run takes `train.seed`.
    """
    given = locals()
    methods: dict[str, Callable[..., Extension] | None] = {slot: _factory(slot, given[slot], depth) for slot in SLOTS}
    sizes = {"depth": depth, "aspect": aspect, "width": width, "ffn_dim": ffn_dim, "head_dim": head_dim}
    sizes |= {
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "query_group": query_group,
        "base_width": base_width,
        "base_depth": base_depth,
        "vocab_size": vocab_size,
        "max_length": max_length,
    }
    _check_sizes(sizes)
    _check_numbers(dropout=dropout, rope_theta=rope_theta, norm_eps=norm_eps, init_std=init_std)
    width = depth * aspect if width is None else width
    _check_positions(positions, aspect, head_dim)
    _check_heads(width, aspect, head_dim, num_heads, num_kv_heads)
    head_dim = aspect if head_dim is None else head_dim
    num_heads = max(1, width // head_dim) if num_heads is None else num_heads
    num_kv_heads = _kv_heads(num_heads, num_kv_heads, query_group)
    ffn_dim = max(16, round(width * 8 / 3 / 16) * 16) if ffn_dim is None else ffn_dim
    scale = scaling(width, depth, base_width, base_depth) if parametrization == "completep" else None
    deviations = _deviations(width, depth, init_std, scale or Scaling())
    in_a_layer = width * (2 * (num_heads + num_kv_heads) * head_dim + 3 * ffn_dim)
    _check_room(depth * in_a_layer + vocab_size * width * (1 if tied else 2))
    layers = [
        Layer(
            index=index,
            num_layers=depth,
            width=width,
            ffn_dim=ffn_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            max_length=max_length,
            parallel=parallel,
            norm_eps=norm_eps,
            init_std=deviations.hidden,
            vocab_size=vocab_size,
        )
        for index in range(depth)
    ]
    notes: list[str] = []
    scaled = parse_rope_scaling(rope_scaling)
    extensions = build_extensions(methods, layers, seed, notes)
    turns: Positions = Rotary(head_dim, rope_theta, scaled) if positions == "rotary" else NoPositions()
    make_block = Block if scale is None else partial(ScaledBlock, depth=scale.depth)
    blocks = []
    for layer in layers:
        of_layer = {slot: extensions[slot][layer.index] for slot in SLOTS}
        own = turns if all(map(_turns, of_layer.values())) else NoPositions()
        blocks.append(make_block(layer, of_layer, positions=own, qk_norm=qk_norm, dropout=dropout))
    built = LanguageModel(vocab_size, max_length, blocks, tied=tied, dropout=dropout, norm_eps=norm_eps)
    built.notes = tuple(notes)
    built.scaling = scale or Scaling()
    initialise(built, deviations, seed)
    if start_from is not None and not room.meta():
        resolved = {**given, "width": width, "head_dim": head_dim, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
        settings = {f"model.{name}": value for name, value in {**resolved, "ffn_dim": ffn_dim}.items()}
        built.notes += tuple(load_start(built, start_from, settings))
    return built


def _deviations(width: int, depth: int, init_std: float | None, scale: Scaling) -> Deviations:
    """The deviations of the first weights, by those of the base model."""
    std = 0.02 * math.sqrt(768 * scale.width / width) if init_std is None else init_std
    return Deviations.of_base(std, depth / scale.depth).narrowed(scale.width)


def _turns(extension: Extension) -> bool:
    """Whether it and every extension inside it leave a layer its rotary positions."""
    return all(module.rotary for module in extension.modules() if isinstance(module, Extension))


def _factory(slot: str, methods: Any, depth: int) -> Callable[..., Extension] | None:
    """The factory of a slot's extensions, of one method or of several in turn."""
    if not isinstance(methods, tuple):
        return methods
    if len(methods) > depth:
        raise SettingError(
            f"model.{slot}",
            f" has a pattern of {len(methods)} methods for {depth} layers, so the last ones stand nowhere: set model.depth to"
            f" {len(methods)} or more, or give a shorter pattern",
        )
    return Hybrid(slot, methods)


def _check_sizes(sizes: Mapping[str, int | None]) -> None:
    for name, size in sizes.items():
        most = DEEPEST if name == "depth" else WIDEST
        check_setting(f"model.{name}", size, size is None or 1 <= size <= most, f"from 1 to {most:,}")


def _check_numbers(dropout: float, rope_theta: float, norm_eps: float, init_std: float | None) -> None:
    check_setting("model.dropout", dropout, 0 <= dropout < 1, "at least 0 and below 1")
    check_setting("model.rope_theta", rope_theta, 0 < rope_theta < math.inf, "a number above 0")
    check_setting("model.norm_eps", norm_eps, 0 <= norm_eps < math.inf, "a number that is not negative")
    fits = init_std is None or 0 <= init_std < math.inf
    check_setting("model.init_std", init_std, fits, "a number that is not negative")


def _check_heads(width: int, aspect: int, head_dim: int | None, heads: int | None, kv_heads: int | None) -> None:
    if head_dim is None and width % aspect:
        raise SettingError(
            "model.width",
            f" = {width} is not a multiple of model.aspect = {aspect}, the width of a head: set model.head_dim",
        )
    if head_dim is None and heads is not None and heads * aspect != width:
        raise SettingError(
            "model.num_heads",
            f" = {heads}: heads of width {aspect} (model.aspect) are then {heads * aspect} wide in all, and the model is"
            f" {width}: set model.head_dim as well, or model.num_heads = {width // aspect}",
        )
    heads = max(1, width // (head_dim or aspect)) if heads is None else heads
    if kv_heads is not None and heads % kv_heads:
        raise SettingError("model.num_kv_heads", f" = {kv_heads} does not divide num_heads = {heads}")


def _kv_heads(heads: int, kv_heads: int | None, group: int | None) -> int:
    """The number of heads of keys and values, which may be given as the number of queries that share one."""
    if group is None:
        return heads if kv_heads is None else kv_heads
    if kv_heads is not None:
        raise SettingError("model.query_group", f" = {group} and model.num_kv_heads = {kv_heads} say the same: set one")
    divisors = [size for size in range(1, heads + 1) if heads % size == 0]
    return heads // min(divisors, key=lambda size: abs(math.log(size / group)))


def _check_positions(positions: str, aspect: int, head_dim: int | None) -> None:
    check_setting("model.positions", positions, positions in get_args(Encoding), "'rotary' or 'none'")
    name, size = ("model.aspect", aspect) if head_dim is None else ("model.head_dim", head_dim)
    if positions == "rotary" and size % 2:
        raise SettingError(name, f" = {size}: rotary positions turn pairs, so the width of a head must be even")


def _check_room(parameters: int) -> None:
    """Refuse weights that do not fit into memory; on the meta device they need none."""
    if parameters > 1 << 50 or not room.meta():
        room.check_parameters(parameters, room.WEIGHT)
