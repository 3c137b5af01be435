"""Which temporal mixing takes place at which site of a block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from zoo.errors import ConfigError
from zoo.extension import InnerSite, MixingSite, OuterSite, TemporalMixing, is_plain, name_of

SITES = (*get_args(MixingSite), *get_args(InnerSite), *get_args(OuterSite))
Mixers = dict[str, TemporalMixing]  # site → what mixes there


def mixers_of(mixing: TemporalMixing) -> Mixers:
    """What a temporal-mixing method has at each site where it has something."""
    answers = {site: mixing.at(site) for site in SITES}
    for site, answer in answers.items():
        if answer is not None and not any(answer is module for module in mixing.modules()):
            raise ConfigError(
                f"{name_of(mixing)}: at({site!r}) answers with a {type(answer).__name__} that is no module of its own:"
                " build it in __init__ and keep it as an attribute"
            )
    return {site: answer for site, answer in answers.items() if answer is not None and not is_plain(answer)}


def in_place_of_attention(mixings: Iterable[TemporalMixing]) -> list[bool]:
    """For each layer's method, whether it stands where attention would."""
    return ["attention" in mixers_of(mixing) for mixing in mixings]
