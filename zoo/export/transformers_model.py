"""A model of the zoo, whatever its methods, as transformers knows models."""

from __future__ import annotations

from zoo.system import fairseq2_setup  # noqa: F401  # before anything of fairseq2

# isort: split
from typing import Any

import torch.nn.functional as F
from fairseq2.nn import IncrementalStateBag
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, Cache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from zoo.export.saved_model import model_of
from zoo.export.transformers_config import ZooConfig

ROOM = 1 << 40  # tokens of a state: as many as there is memory for


class StateCache(Cache):
    """What decoding keeps, attention's keys and values and each method's own, as transformers carries a cache along."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.bag = IncrementalStateBag(ROOM)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.bag.step_nr

    def get_max_cache_shape(self, layer_idx: int = 0) -> int:
        return -1

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.bag.reorder(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        self.bag.reorder(indices)

    def reset(self) -> None:
        self.bag = IncrementalStateBag(ROOM)

    def crop(self, max_length: int) -> None:
        raise NotImplementedError("a model of the zoo cannot take back tokens that it has read")

    def batch_repeat_interleave(self, repeats: int) -> None:
        raise NotImplementedError("the rows of a model of the zoo are repeated before it reads them, not after")

    @property
    def is_compileable(self) -> bool:
        return False


class ZooForCausalLM(PreTrainedModel, GenerationMixin):
    """A model of the zoo with the methods that its configuration names, which must be installed."""

    config_class = ZooConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    _is_stateful = True  # it makes its own cache, and cannot take back tokens

    def __init__(self, config: ZooConfig) -> None:
        super().__init__(config)
        self.model = model_of(config.settings, config.methods, config.vocab_size, config.max_position_embeddings)
        self.post_init()

    @classmethod
    def get_init_context(cls, *_: Any, **__: Any) -> list[Any]:
        """Nothing: methods make values of their own while they are built, which no file has."""
        return []

    def _init_weights(self, module: nn.Module) -> None:
        """Leave the weights: they are filled when the model is built."""

    def get_input_embeddings(self) -> nn.Module:
        return self.model.embed

    def get_output_embeddings(self) -> None:
        """None: it is a weight of the model, not a module."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: StateCache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **others: Any,
    ) -> CausalLMOutputWithPast:
        """Logits (B, T, V). Padding may stand at the end of a row, where a causal model does not see it."""
        if input_ids is None:
            raise ValueError("a model of the zoo takes input_ids: methods may read the tokens themselves")
        wanted = self.config.use_cache if use_cache is None else use_cache
        cache = self._cache(past_key_values) if wanted and not self.training and labels is None else None
        _check_padding(attention_mask, cache)
        if cache is None:
            hidden = self.model.hidden(input_ids)
        else:
            hidden = self.model.hidden(input_ids, cache.bag)
            cache.bag.increment_step_nr(input_ids.size(1))
        rows = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = F.linear(hidden[:, rows], self.model.output_weight())
        loss = None if labels is None else self.loss_function(logits, labels, vocab_size=self.config.vocab_size)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache)

    def _cache(self, given: Any) -> StateCache:
        if given is None or (not isinstance(given, StateCache) and given.get_seq_length() == 0):
            return StateCache()
        if not isinstance(given, StateCache):
            raise ValueError(
                f"a model of the zoo goes on from the cache that it made, not from a {type(given).__name__}"
            )
        return given


def _check_padding(mask: Tensor | None, cache: StateCache | None) -> None:
    """Refuse padding that a row would see."""
    if mask is None or mask.dim() != 2 or bool(mask.all()):
        return
    at_the_end = bool((mask[:, 1:] <= mask[:, :-1]).all())
    if cache is not None or not at_the_end:
        raise ValueError(
            "a model of the zoo has no mask: texts of several lengths are padded at their end (padding_side='right'), and"
            " are written on one by one"
        )


def register_model() -> None:
    """Let AutoModelForCausalLM know the model."""
    AutoModelForCausalLM.register(ZooConfig, ZooForCausalLM, exist_ok=True)
