"""Every snippet of the documentation does what the page says."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import NamedTuple

import pytest
import training
from environment import Environment

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/writing-a-method.md"
SLOW = ("pytest", "zoo-bench", "zoo-report")  # commands that take more than half a minute, and what needs them
TRAINING = ("zoo-train", "zoo-bench")  # … and those that get a smaller corpus here


class Snippet(NamedTuple):
    language: str
    text: str
    line: int


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text("utf-8")
    return [
        Snippet(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def test_the_page_has_no_snippet_that_would_not_be_run() -> None:
    found = snippets(PAGE)
    assert {snippet.language for snippet in found} == {"sh", "python", "gin"}
    assert PAGE.read_text("utf-8").count("```") == 2 * len(found) and len(found) >= 6


def run(environment: Environment, snippet: Snippet, corpus: Path, slow: bool) -> None:
    """Shell lines are run; a snippet that begins with a file's name is written there; other Python is run."""
    first = snippet.text.splitlines()[0]
    if snippet.language == "sh":
        for line in snippet.text.splitlines():
            command = line.split()
            if command[0] in SLOW and not slow:
                continue
            if command[0] in TRAINING:
                command += ["--set", f"data.corpus='{corpus}'"]
            environment.run(*command)
    elif match := re.fullmatch(r"# (\S+\.\w+)", first):
        path = environment.folder / match[1]
        assert path.is_file(), f"the page writes {match[1]}, which is not in a new project"
        path.write_text(snippet.text, "utf-8")
    else:
        assert snippet.language == "python"
        environment.run("python", "-c", snippet.text)


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "complete"])
def test_the_page_from_top_to_bottom(tmp_path: Path, slow: bool) -> None:
    environment = Environment(tmp_path)
    (tmp_path / "corpus").mkdir()
    corpus = training.write_corpus(tmp_path / "corpus")
    for snippet in snippets(PAGE):
        try:
            run(environment, snippet, corpus, slow)
        except AssertionError as error:
            raise AssertionError(f"{PAGE.name}:{snippet.line}: {error}") from None
    told = environment.run("zoo-plugins", "show", "rezero")
    assert "residual.rezero of rezero 0.1.0" in told and "start" in told
    assert ("against the plain block" in told) == slow


def test_what_the_page_calls_public_is_there() -> None:
    rows = re.findall(r"^\| `(zoo[.\w]*)` \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) >= 10
    for module, names in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_the_declarations_that_the_page_names_are_there() -> None:
    from zoo.extension import Extension

    for name in ("reads", "causal", "deterministic", "decodes", "exact_gradient", "idle", "starts_as"):
        assert hasattr(Extension, name) and f"`{name}" in PAGE.read_text("utf-8")


def test_the_method_in_the_readme_conforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.extension import Extension
    from zoo.testing import check

    texts = [snippet.text for snippet in snippets(ROOT / "README.md") if snippet.language == "python"]
    (tmp_path / "from_the_readme.py").write_text("\n".join(texts), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("from_the_readme")
    found = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    assert found and all(issubclass(each, Extension) for each in found)
    for method in found:
        check(method).verify()
