"""The config.json of a model with methods, as transformers knows configurations."""

from __future__ import annotations

import importlib
from typing import Any

from transformers.configuration_utils import PretrainedConfig

MODEL_TYPE = "zoo"
MODEL = "zoo.export.transformers_model"  # by name: it imports this module


class ZooConfig(PretrainedConfig):
    """The settings of a model in Gin's notation, and which distributions offer its methods."""

    model_type = MODEL_TYPE

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        methods: list[dict[str, str]] | None = None,
        vocab_size: int = 0,
        max_position_embeddings: int = 0,
        **others: Any,
    ) -> None:
        self.settings, self.methods = settings or {}, methods or []
        self.vocab_size, self.max_position_embeddings = vocab_size, max_position_embeddings
        others.setdefault("tie_word_embeddings", False)  # a model that ties them has them once
        super().__init__(**others)
        importlib.import_module(MODEL).register_model()  # now, not before: it imports what models are made of


def register_config() -> None:
    """Let AutoConfig know the configuration."""
    from transformers.models.auto.configuration_auto import AutoConfig

    AutoConfig.register(MODEL_TYPE, ZooConfig, exist_ok=True)
