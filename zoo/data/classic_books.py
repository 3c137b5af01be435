"""How classic-books is made from a public Git repository of books in Markdown, one file per book: author/title.md.

Of the books whose path has an even first byte of its SHA-256, those with a year below 1930; without the lines at their
head that name title, author and year. The second byte decides the split: below 3 % valid, below 6 % test.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from zoo.errors import DataError

BEFORE = 1930
SHARDS = {"train": 4, "valid": 1, "test": 1}  # files of a split: books go to them in turns
RECORDS = 16  # in a row group
HEAD = re.compile(r"#+[ ]*(Title|Author|Year):(.*)|-+|[ ]*")  # a line of the head


class Book(NamedTuple):
    title: str
    author: str
    year: int
    text: str


def make_books(repository: str, commit: str, folder: Path, work: Path) -> None:
    """Write the Parquet files to `folder`, from a repository at an address or path; `work` is an empty folder."""
    _git(work, "init", "--quiet", "--bare")
    _git(work, "fetch", "--quiet", "--depth", "1", repository, commit)
    shards = {
        split: [_Shard(folder / f"{split}-{i:05}-of-{count:05}.parquet") for i in range(count)]
        for split, count in SHARDS.items()
    }
    counts = dict.fromkeys(SHARDS, 0)
    for split, book in _books(work, commit):
        shards[split][counts[split] % SHARDS[split]].add(book)
        counts[split] += 1
    for shard in (shard for of_split in shards.values() for shard in of_split):
        shard.close()


def split_of(path: str) -> str | None:
    """The split of a book by its path; None for those that are left out."""
    first, second = hashlib.sha256(path.encode()).digest()[:2]
    if first % 2:
        return None
    return "valid" if second / 256 < 0.03 else "test" if second / 256 < 0.06 else "train"


def parse_book(path: str, content: str) -> Book | None:
    """A book without its head; None if that names no year, or a later one."""
    lines = content.split("\n")
    named: dict[str, str] = {}
    while lines and (match := HEAD.fullmatch(lines[0])):
        if match[1]:
            named[match[1]] = match[2]
        lines.pop(0)
    year = re.search(r"\d+", named.get("Year", ""))
    if year is None or int(year[0]) >= BEFORE:
        return None
    author, _, title = path.removesuffix(".md").rpartition("/")
    return Book(title, author, int(year[0]), "\n".join(lines).strip())


def _books(repository: Path, commit: str) -> Iterator[tuple[str, Book]]:
    listed = _git(repository, "ls-tree", "-r", "-z", "--name-only", commit).decode("utf-8", "replace")
    books = (path for path in listed.split("\0") if path.endswith(".md") and "/" in path)
    paths = sorted(books, key=lambda path: path.split("/"))  # by author, then by title
    chosen = [(path, split) for path in paths if (split := split_of(path)) is not None]
    for (path, split), content in zip(chosen, _contents(repository, commit, [path for path, _ in chosen]), strict=True):
        text = content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        if (book := parse_book(path, text)) is not None:
            yield split, book


def _contents(repository: Path, commit: str, paths: Sequence[str]) -> Iterator[bytes]:
    """The content of each file, one after the other from one process."""
    command = ["git", "-C", str(repository), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()) as process:
        assert process.stdin is not None and process.stdout is not None
        for path in paths:
            process.stdin.write(f"{commit}:{path}\n".encode())
            process.stdin.flush()
            yield _answer(process.stdout, path)
        process.stdin.close()


def _answer(output: IO[bytes], path: str) -> bytes:
    head = output.readline().split()
    if len(head) != 3 or head[1] != b"blob":
        raise DataError(f"git cannot read {path} from the repository: fetch it again")
    content = output.read(int(head[2]))
    output.read(1)  # a newline
    return content


class _Shard:
    """A Parquet file that is written some books at a time."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = [("title", pa.string()), ("author", pa.string()), ("year", pa.int32()), ("text", pa.string())]
        self._schema = pa.schema(columns)
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._books: list[Book] = []

    def add(self, book: Book) -> None:
        self._books.append(book)
        if len(self._books) == RECORDS:
            self._write()

    def close(self) -> None:
        if self._books:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_pylist([book._asdict() for book in self._books], self._schema))
        self._books = []


def _git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=_environment())
    except FileNotFoundError as error:
        raise DataError("there is no git on this computer: install it") from error
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it failed"]
        raise DataError(f"git {arguments[0]}: {lines[-1].removeprefix('fatal: ')}")
    return done.stdout


def _environment() -> dict[str, str]:
    # Nobody is there to be asked for a password; what surrounds this process says nothing about these repositories.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**own, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
