"""Whether the text that a run is trained on is encoded as the checkpoint that it starts from knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.errors import RunError

if TYPE_CHECKING:
    from zoo.config.configuration import Config
    from zoo.data.token_interface import Tokenizer


def check_tokenizer(config: Config, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer with other tokens than the checkpoint's: its weights know nothing of them."""
    checkpoint = config.values.get("model.start_from")
    if checkpoint is None:
        return
    from zoo.config.checkpoint_sizes import own_tokenizer
    from zoo.data.tokenizer import open_tokenizer

    theirs = open_tokenizer(own_tokenizer(checkpoint))
    if theirs.identity != tokenizer.identity and theirs.pieces != tokenizer.pieces:
        raise RunError(
            f"model.start_from = {checkpoint!r} has a tokenizer of {theirs.vocab_size:,} tokens, and the text is encoded by"
            f" another one, {tokenizer.spec} with {tokenizer.vocab_size:,}: leave data.tokenizer unbound, so that it is the"
            " checkpoint's"
        )
