"""A corpus with all its texts in memory, as only a test of a small one holds it."""

from __future__ import annotations

from typing import NamedTuple

from zoo.data import corpus, survey
from zoo.data.corpus import SPLITS


class Read(NamedTuple):
    """Texts by split, and what identifies them."""

    splits: dict[str, tuple[str, ...]]
    fingerprint: str
    notes: tuple[str, ...]


def read_corpus(given: str = "sotu", format: str = "auto", text_key: str = "text", skip_bad: bool = False) -> Read:
    """Read a corpus, and check what its survey counts."""
    opened = corpus.open_corpus(corpus.Reading(given, format, text_key, skip_bad))
    found = survey.make_survey(opened)
    texts: dict[str, list[str]] = {split: [] for split in SPLITS}
    for split, document in found.documents(opened):
        texts[SPLITS[split]].append(document.text)
    for split in SPLITS:
        assert found.counts[split].documents == len(texts[split])
        assert found.counts[split].characters == sum(map(len, texts[split]))
        assert found.counts[split].bytes == sum(len(text.encode()) for text in texts[split])
    notes = (*opened.notes, *([found.skipped] if found.skipped else []))
    return Read({split: tuple(texts[split]) for split in SPLITS}, found.fingerprint, notes)
