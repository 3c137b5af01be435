"""A method's stored runs are recognised as long as its code is the same, whatever its prose says."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from zoo.plugins.registry import installed
from zoo.plugins.source_hash import hash_of_tree, source_hash, source_hashes

ROOT = Path(__file__).resolve().parents[2]

CODE = b'''"""A module."""

class Damped:
    """x + g."""

    def write(self, x, g=1.0):
        """One line."""
        return x * g  # a comment
'''


@pytest.mark.parametrize(
    "old, new",
    [
        (b'"""A module."""', b'"""Another sentence."""'),
        (b'"""A module."""\n', b""),
        (b'"""x + g."""', b'"""x + g,\n\n    at length."""'),
        (b'        """One line."""\n', b""),
        (b"  # a comment", b""),
        (b"x * g", b"(x  *  g)"),
    ],
)
def test_prose_and_layout_do_not_count(old: bytes, new: bytes) -> None:
    assert old in CODE
    assert hash_of_tree(CODE.replace(old, new)) == hash_of_tree(CODE)


@pytest.mark.parametrize("old, new", [(b"x * g", b"g * x"), (b"1.0", b"1"), (b"write", b"wrote"), (b"g=1.0", b"g")])
def test_code_counts(old: bytes, new: bytes) -> None:
    assert hash_of_tree(CODE.replace(old, new)) != hash_of_tree(CODE)


def test_a_string_that_is_not_a_docstring_counts() -> None:
    assert hash_of_tree(b"def f():\n    return 'a'\n") != hash_of_tree(b"def f():\n    return 'b'\n")
    assert hash_of_tree(b"x = 1\n'a'\n") != hash_of_tree(b"x = 1\n'b'\n")


def test_what_is_not_python_has_a_hash_too() -> None:
    assert hash_of_tree(b"def (") != hash_of_tree(b"def )")


def test_the_hash_of_the_bytes_is_recognised() -> None:
    method = installed().claims("v1_m3")[0]
    data = (ROOT / "plugins/v1.py").read_bytes()
    assert source_hashes(method) == (hash_of_tree(data), hashlib.sha256(data).hexdigest()[:16])
    assert source_hash(method) == source_hashes(method)[0]


REWRITTEN = {"recurrence", "skip", "v2", "v4", "weak_recurrence"}  # since the committed runs: see CHANGELOG.md


@pytest.mark.parametrize("file", ["results.jsonl", "costs.jsonl"])
def test_the_committed_store_is_recognised(file: str) -> None:
    """No run of the store was made by other code than the one that is there, but of modules known to be rewritten."""
    registry, recognised, stale = installed(), set(), set()
    for line in (ROOT / "results/archive" / file).read_text("utf-8").splitlines():
        row = json.loads(line)
        codes = {f"{p['slot']}.{p['id']}": p.get("code", "") for p in row["versions"].get("plugins", ())}
        for name, code in {**codes, **row.get("code", {})}.items():
            if code:
                entry = registry.named(name).entry
                module = entry.value.partition(":")[0].removeprefix("zoo_plugins.")
                (recognised if code == source_hash(entry) else stale).add(module)
    assert recognised and recognised <= {"v1", "v3"} and stale <= REWRITTEN
