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
    from zoo.pretrained.sizes import read_sizes

    theirs, rows = open_tokenizer(own_tokenizer(checkpoint)), read_sizes(checkpoint).vocab_size
    if theirs.vocab_size > rows:
        raise RunError(
            f"model.start_from = {checkpoint!r} has a tokenizer of {theirs.vocab_size:,} tokens, and weights for {rows:,}: that"
            " is another model's; put its own there"
        )
    if theirs.identity != tokenizer.identity and theirs.pieces != tokenizer.pieces:
        raise RunError(
            f"model.start_from = {checkpoint!r} has a tokenizer of {theirs.vocab_size:,} tokens, and the text is encoded by"
            f" another one, {tokenizer.spec} with {tokenizer.vocab_size:,}: leave data.tokenizer unbound, so that it is the"
            " checkpoint's"
        )
