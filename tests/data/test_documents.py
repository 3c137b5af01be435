from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from zoo.data.documents import Document, listing, one_or_pieces, pieces


def _pieces_of_a_whole_text(text: str) -> Iterator[str]:
    """How texts were cut before they came in parts: the fingerprints of stored runs depend on it."""
    size = min(max(len(text) // 100, 200), 16384)
    start = 0
    while len(text) - start > 2 * size:
        window = text[start : start + 2 * size]
        ends = (cut + len(mark) for mark in ("\n\n", "\n", " ") if (cut := window.find(mark, size)) >= 0)
        piece = window[: next(ends, len(window))]
        yield piece
        start += len(piece)
    yield text[start:]


@pytest.mark.parametrize("length", [0, 1, 399, 400, 401, 20_001, 1_638_399, 1_638_400, 1_638_401, 2_000_000])
def test_a_text_in_parts_is_cut_as_the_whole_is(length: int) -> None:
    pick = random.Random(length)
    words = ["a", "word", "é日🙂", " ", " ", "\n", "\n\n", "x" * 300]
    text = "".join(pick.choices(words, k=length))[:length]
    assert len(text) == length
    expected = list(_pieces_of_a_whole_text(text))
    for most in (100, 5_000, 3_000_000):
        parts, start = [], 0
        while start < length:
            parts.append(text[start : start + pick.randint(1, most)])
            start += len(parts[-1])
        if most > 100 or length < 30_000:
            assert list(pieces(parts)) == expected


def test_one_document_or_pieces() -> None:
    assert list(one_or_pieces("name", ["ab", "é"], 4)) == [Document("name", "abé")]
    (cut,) = one_or_pieces("name", ["ab", "é"], 3)
    assert cut.text == "abé" and cut.key != "name"


def test_a_listing_ends() -> None:
    assert listing("abc") == "a, b, c" and listing("abcdefg") == "a, b, c, d, e and 2 more"
