from __future__ import annotations

import random
from pathlib import Path

import pytest

from zoo.data.text_stream import Line, read_lines, read_parts
from zoo.errors import DataError

HERE = Path("a.txt")


def _chunks(data: bytes, pick: random.Random) -> list[bytes]:
    cuts = sorted(pick.choices(range(len(data) + 1), k=min(8, len(data))))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if b > a]


@pytest.mark.parametrize("seed", range(60))
def test_parts_are_the_text_however_it_is_cut(seed: int) -> None:
    pick = random.Random(seed)
    data = b"".join(pick.choices([b"a", "é日🙂".encode(), b"\r", b"\n", b"\r\n", b"\xef\xbb\xbf"], k=20))
    expected = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    assert "".join(read_parts(HERE, _chunks(data, pick))) == expected


@pytest.mark.parametrize("seed", range(60))
def test_what_is_no_text_is_said_where_it_is(seed: int) -> None:
    pick = random.Random(seed)
    good = b"\xef\xbb\xbf" * (seed % 2) + "é日🙂".encode() * pick.randint(0, 5) + b"ok"
    bad, reason = pick.choice(
        [(b"\0", "NUL byte at offset"), (b"\xff", "at byte offset"), (b"\xf0\x9f", "at byte offset")]
    )
    with pytest.raises(DataError, match=rf"a.txt is not .*{reason} {len(good)}\)"):
        list(read_parts(HERE, _chunks(good + bad + b"more" * (len(bad) == 1), pick)))


@pytest.mark.parametrize("seed", range(60))
def test_lines_are_those_of_the_text(seed: int) -> None:
    pick = random.Random(seed)
    data = b"".join(pick.choices([b"a", b"bc", b"\n", b"\n\n", "é\u2028".encode()], k=20))
    expected = [Line(i, line if len(line) <= 6 else None) for i, line in enumerate(data.split(b"\n"), 1)]
    lines = list(read_lines(HERE, _chunks(b"\xef\xbb\xbf" + data, pick), 6))
    assert lines == expected[: len(lines)] and all(line.content == b"" for line in expected[len(lines) :])


def test_a_line_without_end_is_reported_at_once() -> None:
    def endless() -> object:
        yield b"a\n"
        while True:
            yield b"b" * 1000

    lines = read_lines(HERE, endless(), 10_000)  # type: ignore[arg-type]
    assert next(lines) == Line(1, b"a") and next(lines) == Line(2, None)
