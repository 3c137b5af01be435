"""What evaluation asks of a model: a trained run has it, and so has a folder of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from zoo.data.token_interface import Tokenizer
    from zoo.model.language_model import LanguageModel


class Subject(Protocol):
    """A model with its tokenizer, and what tells it from others."""

    @property
    def folder(self) -> Path: ...
    @property
    def model(self) -> LanguageModel: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def begin(self) -> int:
        """The token that a text begins with."""

    @property
    def key(self) -> str:
        """What a store knows it by; other weights have another."""

    @property
    def name(self) -> str:
        """Of its methods, or of its architecture."""

    @property
    def seed(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def corpora(self) -> tuple[str, ...]:
        """What it was trained on, as far as that is known."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user may want to know: a sentence each."""

    def encode(self, text: str) -> list[int]:
        """The token that begins a text, then its own."""
