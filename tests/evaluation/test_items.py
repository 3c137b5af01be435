"""Items of tasks: the formats that others write, and a sentence with file and line for what is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zoo.errors import ZooError
from zoo.evaluation.items import Item, identity, read_items


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return path


def test_the_formats_of_others(tmp_path: Path) -> None:
    blimp = {"sentence_good": "Who left?", "sentence_bad": "Who leaved?", "UID": "x", "pairID": "0"}
    assert (
        read_items("pairs", written(tmp_path / "a", blimp, "", blimp)) == [Item("", ("Who left?", "Who leaved?"))] * 2
    )
    lambada = [{"text": "He went to the door\n"}, {"context": "It is", "target": "so"}]
    assert read_items("cloze", written(tmp_path / "b", *lambada)) == [
        Item("He went to the", (" door",)),
        Item("It is", (" so",)),
    ]
    choices = [
        {"ctx": "A man", "endings": ["sits.", "runs."], "label": "1"},  # HellaSwag
        {"question": "Why?", "choices": {"text": ["a", "b"], "label": ["1", "2"]}, "answerKey": "1"},  # ARC
        {"goal": "Boil", "sol1": "heat", "sol2": "cool", "label": 0},  # PIQA
        {"context": "x\n", "choices": ["p", "q"], "answer": "q"},
        {"context": "x", "choices": ["p", "q"], "answer": "B"},
    ]
    assert read_items("choices", written(tmp_path / "c", *choices)) == [
        Item("A man", (" sits.", " runs."), 1),
        Item("Why?", (" a", " b"), 0),
        Item("Boil", (" heat", " cool"), 0),
        Item("x\n", ("p", "q"), 1),
        Item("x", (" p", " q"), 1),
    ]
    assert len(read_items("choices", tmp_path / "c", most=2)) == 2


@pytest.mark.parametrize(
    ("kind", "line", "complaint"),
    [
        ("pairs", '{"sentence_good": "a", ', "it is cut off or no JSON object"),
        ("pairs", "[1]", "it is cut off or no JSON object"),
        ("pairs", "\ud800", "it is cut off or no JSON object"),
        ("pairs", {"sentence_good": "a"}, "there is no sentence_bad; it has sentence_good"),
        ("pairs", {"sentence_good": 3, "sentence_bad": "b"}, "sentence_good is not text"),
        ("pairs", {"sentence_good": "", "sentence_bad": "b"}, "a text is empty"),
        ("pairs", '{"sentence_good": "\\ud800", "sentence_bad": "b"}', "half of a character"),
        ("cloze", {"text": "alone"}, "text must be two words or more"),
        ("choices", {"context": "a", "choices": ["b"], "answer": 0}, "choices must be a list of two texts or more"),
        ("choices", {"context": "a", "choices": ["b", "c"], "answer": 2}, "answer 2 is none of the 2 choices"),
        ("choices", {"context": "a", "choices": ["b", "c"], "answer": True}, "answer True is none of the 2 choices"),
        ("choices", {"context": "a", "choices": ["b", "c"]}, "there is no answer or gold or label or answerKey"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, kind: str, line: Any, complaint: str) -> None:
    good = {
        "pairs": {"sentence_good": "a", "sentence_bad": "b"},
        "cloze": {"text": "a b"},
        "choices": {"context": "a", "choices": ["b", "c"], "answer": 1},
    }[kind]
    file = tmp_path / "task.jsonl"
    text = line if isinstance(line, str) else json.dumps(line)
    file.write_bytes((json.dumps(good) + "\n\n" + text + "\n").encode("utf-8", "surrogatepass"))
    with pytest.raises(ZooError) as error:
        read_items(kind, file)
    assert str(error.value).startswith(f"{file}, line 3: ") and complaint in str(error.value)


def test_files_that_are_no_task(tmp_path: Path) -> None:
    for path, complaint in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(ZooError, match=complaint):
            read_items("pairs", path)
    with pytest.raises(ZooError, match="has no items"):
        read_items("pairs", written(tmp_path / "empty", ""))


def test_an_identity_is_of_every_item() -> None:
    items = [Item("a", ("b", "c"), 0), Item("d", ("e",), 0)]
    assert identity("choices", items) == identity("choices", list(items))
    others = [items[:1], [Item("a", ("b", "c"), 1), items[1]], [Item("ab", ("", "c"), 0), items[1]]]
    assert (
        len({identity("choices", items), identity("pairs", items), *(identity("choices", each) for each in others)})
        == 5
    )
