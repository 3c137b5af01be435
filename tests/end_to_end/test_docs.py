"""Every snippet of the documentation does what the page says."""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.fresh_environment import Environment

from zoo.catalogue.describe import declared
from zoo.catalogue.sizes import size
from zoo.config import gin_files
from zoo.counting.flops import count_parameters, skeleton
from zoo.extension import HeadMixing, TemporalMixing
from zoo.history import READABLE, Current, Heads, History
from zoo.kernels.attend import Dense, Factors, past_only
from zoo.kernels.blocked_attention import Term
from zoo.plugins.registry import installed
from zoo.state import State, with_past
from zoo.sums import previous, taps, weighted_sum

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/writing-a-method.md"
SLOW = ("pytest", "zoo-bench", "zoo-report")  # commands that take more than half a minute, and what needs them


class Snippet(NamedTuple):
    language: str
    text: str
    line: int


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text("utf-8")
    return [
        Snippet(each[1], each[2], text.count("\n", 0, each.start()) + 1)
        for each in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def test_the_page_has_no_snippet_that_would_not_be_run() -> None:
    found = snippets(PAGE)
    assert {snippet.language for snippet in found} == {"sh", "python", "gin"}
    assert PAGE.read_text("utf-8").count("```") == 2 * len(found) and len(found) >= 6


def type_in(environment: Environment, snippet: Snippet, folder: Path, slow: bool) -> None:
    """Shell lines are run; a snippet that begins with a file's name is written there; other Python is run."""
    first = snippet.text.splitlines()[0]
    if snippet.language == "sh":
        for command in map(shlex.split, snippet.text.splitlines()):
            if slow or command[0] not in SLOW:
                environment.run(*command, cwd=folder)
    elif named := re.fullmatch(r"# (\S+\.\w+)", first):
        path = folder / named[1]
        assert path.is_file(), f"the page writes {named[1]}, which is not in a new project"
        path.write_text(snippet.text, "utf-8")
    else:
        assert snippet.language == "python"
        environment.run("python", "-c", snippet.text, cwd=folder)


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["quick", "complete"])
def test_the_page_from_top_to_bottom(tmp_path: Path, slow: bool) -> None:
    """Typed as it stands, in one empty folder; the quick variant leaves out the slow commands and changes none."""
    environment, folder = Environment(tmp_path / "environment"), tmp_path / "work"
    folder.mkdir()
    for snippet in snippets(PAGE):
        try:
            type_in(environment, snippet, folder, slow)
        except AssertionError as error:
            raise AssertionError(f"{PAGE.name}:{snippet.line}: {error}") from None
    # With the folder fadein/ of step 1 on sys.path, as `python -m` has it: it must not hide the package inside.
    told = environment.run("python", "-m", "zoo.cli.plugins", "show", "fadein", cwd=folder)
    assert "residual.fadein of fadein 0.1.0" in told and "start" in told
    assert "zoo-train --gin fadein/fadein/gin/fadein.gin" in told
    assert ("against the plain block" in told) == slow


def test_what_the_page_calls_public_is_there() -> None:
    rows = re.findall(r"^\| `(zoo[.\w]*)` \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) >= 10
    for module, names in rows:
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_the_page_lists_all_that_a_method_can_read() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `history\.(\w+)` \| .+ \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    places = {name: text.partition(":")[0].removeprefix("history.") for name, text in READABLE.items()}
    assert dict(rows) == places, "the table of `reads` and zoo.history.READABLE differ"
    known = {*vars(History), *History.__dataclass_fields__}
    assert {*places.values(), "embedding", "current", "state"} <= known
    assert Current._fields == ("block", "input", "attention") and Heads._fields == ("q", "k")


@pytest.mark.parametrize(
    "call, parameters",
    [
        (weighted_sum, ["weights", "tensors"]),
        (Term, ["q", "k", "query", "key"]),
        (Factors, ["terms", "null"]),
        (Dense, ["block", "num_rows", "num_keys", "tables", "rows_at_once", "weights"]),
        (past_only, ["scores", "fill"]),
        (HeadMixing.project, ["self", "heads", "normed", "history", "state"]),
        (HeadMixing.output, ["self", "heads", "normed", "history", "state"]),
        (TemporalMixing.at, ["self", "site"]),
        (TemporalMixing.inner, ["self", "x", "u", "state"]),
        (previous, ["owner", "u", "state"]),
        (taps, ["owner", "u", "weights", "state", "first"]),
        (with_past, ["state", "owner", "u", "n", "name"]),
        (State.get, ["self", "owner", "name"]),
        (State.set, ["self", "owner", "name", "value"]),
        (State.append, ["self", "owner", "name", "new", "dim"]),
    ],
)
def test_the_calls_on_the_page_are_those_there_are(call: Callable[..., object], parameters: list[str]) -> None:
    """Whoever changes one of them changes the page, and this."""
    assert list(inspect.signature(call).parameters) == parameters
    assert f"{call.__name__}(" in PAGE.read_text("utf-8")


def test_the_declarations_that_the_page_names_are_there() -> None:
    from zoo.extension import Extension

    for name in ("reads", "causal", "deterministic", "decodes", "exact_gradient", "idle", "starts_as"):
        assert hasattr(Extension, name) and f"`{name}" in PAGE.read_text("utf-8")


COMMANDS = {
    "zoo-train": "zoo.cli.train:parser",
    "zoo-bench": "zoo.cli.bench:parser",
    "zoo-report": "zoo.cli.report:parser",
    "zoo-plugins": "zoo.cli.plugins:parser",
    "zoo-data": "zoo.cli.data:parser",
    "zoo-generate": "zoo.cli.generate:parser",
    "zoo-export": "zoo.cli.export:parser",
    "zoo-eval": "zoo.cli.evaluate:parser",
}


def commands(page: Path) -> list[list[str]]:
    """The zoo's commands in the page's code, without what runs them."""
    lines = [line for line in page.read_text("utf-8").splitlines() if line.startswith(("    ", "zoo-", "torchrun"))]
    found = [re.search(r"^(?:    )?(?:tools/run |torchrun .* )?(zoo-\w+(?: .*)?)$", line) for line in lines]
    return [shlex.split(each[1], comments=True) for each in found if each]


def test_the_commands_of_the_readme_are_understood() -> None:
    """Flags exist, bare names are Gin files, and ids are methods; nothing is run."""
    found = commands(ROOT / "README.md")
    assert {command for command, *_ in found} == COMMANDS.keys() and len(found) > 12
    for command, *arguments in (*found, *commands(ROOT / "docs/hub.md"), *commands(ROOT / "docs/evaluation.md")):
        understood(command, arguments)


def understood(command: str, arguments: list[str]) -> None:
    module, _, name = COMMANDS[command].partition(":")
    parsed = getattr(importlib.import_module(module), name)().parse_args(arguments)
    for file in getattr(parsed, "gin", []):
        assert gin_files.find_gin_file(file, folders=[ROOT, *gin_files.gin_folders()])
    if suite := getattr(parsed, "suite", None):
        assert gin_files.find_gin_file(f"suites/{suite}")
    if command == "zoo-plugins" and "id" in parsed:
        assert parsed.id in installed().ids()


def test_the_readme_lists_every_size() -> None:
    (told,) = re.findall(r"# another size: (.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    sizes = {path.stem for path in (ROOT / "gin/sizes").glob("*.gin")}
    assert {name.partition(" ")[0] for name in told.split(", ")} == sizes


def test_the_readme_names_every_suite() -> None:
    (listed,) = re.findall(r"^Suites: (.*?)\n\n", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", listed)) == {path.stem for path in (ROOT / "gin" / "suites").glob("*.gin")}


def test_what_the_readme_promises_of_its_first_method() -> None:
    """It has probes, and it is larger than the plain block, so that a matched baseline is another model."""
    text = (ROOT / "README.md").read_text("utf-8")
    (id,) = re.findall(r"^    tools/run zoo-train --gin gin/(\w+)\.gin", text, re.MULTILINE)
    study, loaded = size("study"), installed().named(id)
    assert count_parameters(study.build(loaded)) > 1.01 * count_parameters(study.build())
    for probe in declared(skeleton(study.build(loaded))).probes:
        assert f"`{probe}`" in text


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
