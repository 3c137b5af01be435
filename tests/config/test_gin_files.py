"""How Gin files are found and read."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from helpers.fake_distributions import Site
from helpers.fake_project import error_of, load, write

from zoo.config import gin_files, load as load_module
from zoo.errors import ConfigError

# --- what is read, in which order


@pytest.mark.usefixtures("project")
def test_defaults_then_files_in_order_then_bindings() -> None:
    one, two = write("one.gin", "model.depth = 1\nmodel.width = 1\n"), write("two.gin", "model.width = 2\n")
    loaded = load_module.load_config([one, two], ["train.seed=3", " train.lr = 0.5 "])
    assert loaded.text.splitlines()[1:] == [
        "model.depth = 1",
        "model.width = 2",
        "train.lr = 0.5",
        "train.seed = 3",
        "train.steps = 10",
    ]
    assert loaded.build("train") == (0.5, 3, 10)
    assert [path.name for path, _ in loaded.files] == ["defaults.gin", "one.gin", "two.gin"]
    assert [path.name for path in loaded.given] == ["one.gin", "two.gin"]
    assert loaded.files[1][1] == "model.depth = 1\nmodel.width = 1\n"
    assert loaded.bindings == ("train.seed=3", " train.lr = 0.5 ")


@pytest.mark.usefixtures("project")
def test_blocks_comments_and_continued_values() -> None:
    loaded = load("""
        # a comment
        model:
            depth = 2  # of the fake
            names = [
                'a',  # first
                'b' 'c',
            ]
        data.corpus = 'x'
    """)
    assert (loaded.get("model.depth"), loaded.get("model.names"), loaded.get("data.corpus")) == (2, ["a", "bc"], "x")


def test_a_file_is_found_here_then_in_the_project_then_in_plugins(project: Path) -> None:
    names = {"here": 1, "there": 2, "sizes/tiny": 3}
    for name, depth in names.items():
        write(str(project / f"gin/{name}.gin"), f"model.depth = {depth}")
    write("here.gin", "model.depth = 10")
    (Path.cwd() / "there").mkdir()  # a folder of that name does not hide the file
    for name, depth in {
        "here": 10,
        "here.gin": 10,
        "./here.gin": 10,
        "there": 2,
        "sizes/tiny": 3,
        "sizes/tiny.gin": 3,
    }.items():
        assert load_module.load_config([name]).get("model.depth") == depth, name
    assert load_module.load_config([str(Path("here.gin").absolute())]).get("model.depth") == 10


def test_a_project_that_is_not_installed_is_told_how_to_install_it(project: Path) -> None:
    write("my-method/pyproject.toml", "")
    with pytest.raises(ConfigError, match=r"my-method is a folder, not a Gin file: .* \(pip install -e my-method\)"):
        load_module.load_config(["my-method"])


def test_a_plugins_gin_files_are_found_by_name(project: Path, tmp_path: Path) -> None:
    files = {
        "pack/__init__.py": "",
        "pack/m.py": "def f(layer): return 1",
        "pack/gin/own.gin": "model.residual = @residual.own",
    }
    Site(tmp_path / "site").install("own-method", {"residual": {"own": "pack.m:f"}}, files)
    assert gin_files.find_gin_file("own") == tmp_path / "site/pack/gin/own.gin"
    assert load_module.load_config(["own"], ["model.depth=1"]).name == "own"
    assert gin_files.gin_folders() == [project / "gin", tmp_path / "site/pack/gin"]


def test_a_file_that_is_not_there_suggests_the_nearest(project: Path) -> None:
    for name in ("gate", "gates", "sizes/tiny"):
        write(str(project / f"gin/{name}.gin"), "")
    for asked, told in {
        "gat": "no Gin file gat (nearest: gate, gates)",
        "tiny": "(nearest: sizes/tiny)",
        "gin/gate.gin": "(nearest: gate)",
        "../gin/gate": "(nearest: gate)",
        "sizes": "is a folder, not a Gin file (it holds sizes/tiny)",
        "": "not the name of a Gin file",
        "a\0b": "not the name of a Gin file",
        "x" * 300: "cannot be looked up: File name too long",
    }.items():
        with pytest.raises(ConfigError) as caught:
            load_module.load_config([asked])
        assert told in str(caught.value)


@pytest.mark.usefixtures("project")
def test_files_that_cannot_be_read() -> None:
    Path("latin.gin").write_bytes("model.depth = 3  # é".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin.gin is not a Gin file: it is not UTF-8 text \(byte 19\)"):
        load_module.load_config(["latin.gin"])
    with pytest.raises(ConfigError, match="/proc/self/mem cannot be read: Input/output error"):
        load_module.load_config(["/proc/self/mem"])


@pytest.mark.usefixtures("project")
def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    Path("windows.gin").write_bytes(b"\xef\xbb\xbfmodel.depth = 3\r\nmodel.width = 'x'\r\n")
    with pytest.raises(ConfigError, match="windows.gin:2: model.width"):
        load_module.load_config(["windows.gin"])


# --- includes


def test_includes_are_found_beside_the_including_file_and_in_the_gin_folders(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write("elsewhere/run.gin", "include 'near.gin'\ninclude 'sizes/tiny.gin'\n")
    write("elsewhere/near.gin", "model.width = 7\ninclude 'deep/er'")
    write("elsewhere/deep/er.gin", "model.dropout = 0.5")
    write("near.gin", "model.width = 1")  # in the working directory: not what is meant
    write(str(project / "gin/sizes/tiny.gin"), "model.depth = 2")
    with caplog.at_level(logging.DEBUG):
        loaded = load_module.load_config(["elsewhere/run.gin"])
    assert [loaded.get(f"model.{name}") for name in ("width", "depth", "dropout")] == [7, 2, 0.5]
    assert caplog.records == []  # Gin's own reader would have logged every folder tried in vain
    assert [path.name for path, _ in loaded.files[1:]] == ["run.gin", "near.gin", "er.gin", "tiny.gin"]


@pytest.mark.usefixtures("project")
def test_includes_that_fail() -> None:
    assert "a.gin:2: there is no Gin file no/such.gin" in error_of("model.depth = 1\ninclude 'no/such.gin'")
    write("b.gin", "include 'a.gin'")
    assert "b.gin:1: a.gin ends up including itself" in error_of("include 'b.gin'")
    assert "a.gin:1: cannot be parsed: Expected file path as string" in error_of("include 3")
    assert "--set \"include 'b.gin'\": only bindings" in error_of("model.depth = 1", "include 'b.gin'")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("statement", ["import os", "from os import path", "import os.path as p"])
def test_imports_are_refused(statement: str) -> None:
    error = error_of(f"model.depth = 1\n{statement}\n")
    assert f"a.gin:2: `{statement}` is refused" in error and "entry points" in error


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("text", ["eval/model.depth = 1", "eval/X = 1", "eval/model:\n  depth = 1"])
def test_scopes_are_refused(text: str) -> None:
    assert "is scoped" in error_of(text)
    assert "is scoped" in error_of("model.depth = 1\nmodel.residual = @eval/residual.gate")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "text, told",
    [
        ("model.depth = 1\nmodel.width 3\n", "a.gin:2: cannot be parsed: Couldn't parse statement, expected"),
        ("model.depth = 1\nmodel.width 3\n", "\n    model.width 3"),
        ("model.depth =\n", "a.gin:1: the value cannot be parsed: strings need quotes"),
        ("model.depth = 1 2\n", "a.gin:1: cannot be parsed: Expected newline"),
        ("data.corpus = /a/b\n", "methods an @, macros a %\n    data.corpus = /a/b"),
        ("data.corpus = sotu\n", "a.gin:1: 'sotu' is not a value: strings need quotes, methods an @, macros a %"),
        ("\nmodel.names = ['a',\n", "a.gin:2: cannot be parsed"),
        ("model.names = ['a'\nmodel.depth = 1", "a.gin:2:"),
        ("data.corpus = 'abc\n", "a.gin:1:"),
        ("model:\n    depth = 1\n  width = 2\n", "a.gin:3: cannot be parsed: unindent does not match"),
        ("model.depth = 1\n= 3", "a.gin:2: cannot be parsed"),
        ("model .depth = 1", "a.gin:1: cannot be parsed: Malformatted scope or selector"),
        ("model.depth = $", "a.gin:1:"),
        ("model.table = {[1]: 2}", "a.gin:1: cannot be parsed: TypeError"),
        ("model.names = " + "[" * 5000, "a.gin:1: cannot be parsed"),
        ("model.depth = 1\n\0", "a.gin:"),
        ("model.depth = 0x", "a.gin:1:"),
        ("model.depth = 09", "a.gin:1:"),
    ],
)  # fmt: skip
def test_syntax_errors_name_file_and_line_and_show_it(text: str, told: str) -> None:
    assert told in error_of(text)
