"""The notebook and the pages on Python and evaluation run as they stand."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import zoo
from zoo.evaluation.tasks import KINDS

DOCS = Path(__file__).parents[2] / "docs"


def shown(code: str, names: dict[str, Any]) -> Any:
    """The value of a cell's last expression, as a notebook shows it."""
    *body, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        body, last = [*body, last], None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_notebook_runs(place: Path) -> None:
    notebook = json.loads((DOCS / "tour.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert notebook["nbformat"] == 4 and all(not cell["outputs"] for cell in cells)
    names: dict[str, Any] = {}
    values = [shown("".join(cell["source"]), names) for cell in cells]
    assert values[0][0] > 100 and values[1][0] == (2, 32, 64) and values[1][2] > 0
    assert all(last < first - 1 for first, last in values[2].values())
    assert names["difference"].low < names["difference"].mean < names["difference"].high


def test_the_page_on_python_runs(place: Path) -> None:
    page = (DOCS / "python.md").read_text("utf-8")
    for code in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exec(code, {})
    table = set(re.findall(r"`zoo\.(\w+)", page.partition("## A model")[0]))
    assert table == {*zoo.__all__} - {"API_VERSION", "__version__"}


def test_the_page_on_evaluation_has_every_kind() -> None:
    page = (DOCS / "evaluation.md").read_text("utf-8")
    assert set(re.findall(r"^\| `--(\w+)` \|", page, re.MULTILINE)) == set(KINDS)
