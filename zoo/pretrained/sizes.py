"""The config.json of a checkpoint as settings of ours, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from zoo.errors import SettingError
from zoo.pretrained.place import KEY, located
from zoo.system.regular_files import parse_object, read_regular

CONFIG = "config.json"
LARGEST = 1 << 20  # bytes of a config.json
SCALED = {  # by kind of rope scaling, what it is stated with
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}


class Family(NamedTuple):
    """An architecture of transformers that computes what our plain block does."""

    model_type: str
    architecture: str
    qk_norm: bool = False
    defaults: Mapping[str, Any] = {}  # of what a config.json may leave out


LENGTH = "max_position_embeddings"
LLAMA = Family("llama", "LlamaForCausalLM", defaults={LENGTH: 2048})
QWEN3 = Family(
    "qwen3", "Qwen3ForCausalLM", qk_norm=True, defaults={"head_dim": 128, "num_key_value_heads": 32, LENGTH: 32768}
)
MISTRAL = Family(
    "mistral", "MistralForCausalLM", defaults={"sliding_window": 4096, "num_key_value_heads": 8, LENGTH: 131072}
)
FAMILIES = {family.model_type: family for family in (LLAMA, QWEN3, MISTRAL)}


STATED = tuple(
    f"model.{name}"
    for name in (
        *("depth", "width", "head_dim", "num_heads", "num_kv_heads", "ffn_dim", "tied", "qk_norm", "norm_eps"),
        *("parallel", "positions", "parametrization", "rope_theta", "rope_scaling"),
    )
)  # the settings that a checkpoint decides on


class Sizes(NamedTuple):
    """What a checkpoint says of itself."""

    vocab_size: int  # rows of its embedding
    length: int  # tokens that it sees at once
    settings: dict[str, Any]  # of ours, each of STATED


def read_sizes(checkpoint: str) -> Sizes:
    """The sizes of the checkpoint in a folder, or of the hub."""
    return sizes_of(read_config(checkpoint), checkpoint)


def read_config(checkpoint: str) -> dict[str, Any]:
    """The config.json of a checkpoint."""
    file = located(checkpoint) / CONFIG
    try:
        return parse_object(read_regular(file, LARGEST))
    except OSError as error:
        raise SettingError(KEY, f" = {checkpoint!r}: {file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise SettingError(KEY, f" = {checkpoint!r}: {file} is damaged: {error}") from error


def sizes_of(config: Mapping[str, Any], checkpoint: str) -> Sizes:
    """The sizes that a config.json states; a sentence for what no plain block computes."""
    family = _family(config, checkpoint)
    given = {**family.defaults, **{key: value for key, value in config.items() if value is not None}}
    _check_parts(given, config, family, checkpoint)
    width, heads = _count(given, "hidden_size", checkpoint), _count(given, "num_attention_heads", checkpoint)
    kv_heads = _count({"num_key_value_heads": heads, **given}, "num_key_value_heads", checkpoint)
    settings = {
        "model.depth": _count(given, "num_hidden_layers", checkpoint),
        "model.width": width,
        "model.head_dim": _count({"head_dim": width // heads, **given}, "head_dim", checkpoint),
        "model.num_heads": heads,
        "model.num_kv_heads": kv_heads,
        "model.ffn_dim": _count(given, "intermediate_size", checkpoint),
        "model.tied": bool(given.get("tie_word_embeddings", False)),
        "model.qk_norm": family.qk_norm,
        "model.norm_eps": _number(given, "rms_norm_eps", 1e-6, checkpoint),
        "model.parallel": False,
        "model.positions": "rotary",
        "model.parametrization": "standard",
        **_rope(given, checkpoint),
    }
    return Sizes(_count(given, "vocab_size", checkpoint), _count(given, LENGTH, checkpoint), settings)


def differences(sizes: Sizes, values: Mapping[str, Any]) -> dict[str, str]:
    """Those of our settings that are not the checkpoint's, each with a few words."""
    return {
        key: f"{key} is {values[key]!r} here and {stated!r} there"
        for key, stated in sizes.settings.items()
        if key in values and values[key] != stated
    }


def config_of(settings: Mapping[str, Any], vocab_size: int, length: int) -> dict[str, Any]:
    """The config.json of a plain block with these settings ("model.depth" …), all of them resolved to numbers."""
    family = QWEN3 if settings["model.qk_norm"] else LLAMA
    scaling = settings["model.rope_scaling"]
    return {
        "architectures": [family.architecture],
        "model_type": family.model_type,
        "vocab_size": vocab_size,
        LENGTH: length,
        "hidden_size": settings["model.width"],
        "intermediate_size": settings["model.ffn_dim"],
        "num_hidden_layers": settings["model.depth"],
        "num_attention_heads": settings["model.num_heads"],
        "num_key_value_heads": settings["model.num_kv_heads"],
        "head_dim": settings["model.head_dim"],
        "rms_norm_eps": settings["model.norm_eps"],
        "rope_theta": settings["model.rope_theta"],
        "rope_scaling": _whole(scaling) if scaling else None,
        "tie_word_embeddings": settings["model.tied"],
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "use_cache": True,
        **({} if family is QWEN3 else {"mlp_bias": False}),
    }


def _whole(scaling: Mapping[str, Any]) -> dict[str, Any]:
    """How positions are scaled, as transformers wants it: a length is a whole number, everything else is none."""
    return {name: int(value) if name == f"original_{LENGTH}" else value for name, value in scaling.items()}


def _family(config: Mapping[str, Any], checkpoint: str) -> Family:
    kind, named = config.get("model_type"), config.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else None
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is not None and architecture in (None, family.architecture):
        return family
    known = ", ".join(each.architecture for each in FAMILIES.values())
    if kind is None and architecture in [each.architecture for each in FAMILIES.values()]:
        raise SettingError(
            KEY, f" = {checkpoint!r} has a config.json without model_type: it is cut off, or no checkpoint's"
        )
    what = "a run of the zoo with methods" if kind == "zoo" else f"{architecture or kind or 'of no known kind'}"
    raise SettingError(
        KEY, f" = {checkpoint!r} is {what}: a plain block can take the weights of {known}, and of no other"
    )


def _check_parts(given: Mapping[str, Any], config: Mapping[str, Any], family: Family, checkpoint: str) -> None:
    """Refuse what a checkpoint of a known family may have beside a plain block."""
    window = "sliding_window" in family.defaults and config.get("sliding_window", 1) or given.get("use_sliding_window")
    extras = {
        "weights that are quantised (quantization_config)": "quantization_config" in given,
        "biases in attention (attention_bias)": given.get("attention_bias"),
        "biases in the FFN (mlp_bias)": given.get("mlp_bias"),
        "attention to a window (sliding_window)": window,
        "heads that turn in part (partial_rotary_factor)": given.get("partial_rotary_factor", 1) != 1,
        f"the activation {given.get('hidden_act')} (hidden_act)": given.get("hidden_act", "silu")
        not in ("silu", "swish"),
    }
    if has := [what for what, there in extras.items() if there]:
        raise SettingError(KEY, f" = {checkpoint!r} has {' and '.join(has)}, which the plain block has not")


def _rope(given: Mapping[str, Any], checkpoint: str) -> dict[str, Any]:
    """The base of the positions and how they are scaled; newer files keep both in one place."""
    stated = given.get("rope_parameters") or given.get("rope_scaling") or {}
    if not isinstance(stated, Mapping):
        raise SettingError(KEY, f" = {checkpoint!r}: its rope_scaling is {stated!r}")
    theta = _number({**given, **stated}, "rope_theta", 10000.0, checkpoint)
    kind = stated.get("rope_type", stated.get("type", "default"))
    if kind == "default":
        return {"model.rope_theta": theta, "model.rope_scaling": None}
    if kind not in SCALED:
        known = " and ".join(SCALED)
        raise SettingError(
            KEY, f" = {checkpoint!r} scales its positions by {kind!r}, and only {known} are known here (rope_scaling)"
        )
    scaling: dict[str, Any] = {"rope_type": kind}
    for name in SCALED[kind]:
        scaling[name] = _number(stated, name, None, checkpoint)
    return {"model.rope_theta": theta, "model.rope_scaling": scaling}


def _count(given: Mapping[str, Any], name: str, checkpoint: str) -> int:
    value = given.get(name)
    if type(value) is not int or value < 1:
        raise SettingError(KEY, f" = {checkpoint!r}: {name} in its {CONFIG} is {value!r}, and must be a number above 0")
    return value


def _number(given: Mapping[str, Any], name: str, default: float | None, checkpoint: str) -> float:
    value = given.get(name, default)
    if type(value) not in (int, float) or not value > 0:
        raise SettingError(KEY, f" = {checkpoint!r}: {name} in its {CONFIG} is {value!r}, and must be a number above 0")
    return float(value)
