"""Whether a run is still what would be run now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.made_up_results import result

from zoo.bench import freshness
from zoo.bench.arms import Arm, Job
from zoo.bench.freshness import corpus_fingerprint, outdated, rewritten
from zoo.data.corpus import Reading, open_corpus
from zoo.data.survey import make_survey


def arm(**changed: object) -> Arm:
    values = {"id": "1", "name": "m", "match": "method", "host": "sequential", "parameters": 1, "flops": 1.0}
    return Arm(**({**values, "values": {}, "defaults": {}} | changed))  # type: ignore[arg-type]


def test_a_corpus_is_identified_by_all_that_it_is_read_with(tmp_path: Path) -> None:
    rows = [{"text": f"One {i}.", "other": f"Another {i}."} for i in range(60)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    defaults = {
        "data.format": "auto",
        "data.text_key": "text",
        "data.skip_bad": False,
        "data.length": 16,
        "data.cache": str(tmp_path / "cache"),
    }
    values = {"data.corpus": str(tmp_path / "rows.jsonl")}
    one = corpus_fingerprint(arm(defaults=defaults, values=values))
    assert one == make_survey(open_corpus(Reading(values["data.corpus"]))).fingerprint
    assert corpus_fingerprint(arm(defaults=defaults, values=values | {"data.length": 32})) == one
    assert corpus_fingerprint(arm(defaults=defaults, values=values | {"data.text_key": "other"})) != one


@pytest.mark.parametrize(
    ("hash", "names"), [("new", []), ("older form", []), ("", []), ("other", ["residual.m"]), (3, ["residual.m"])]
)
def test_a_method_is_rewritten_if_no_hash_recognises_it(hash: object, names: list[str]) -> None:
    method = arm(code={"residual.m": ("new", "older form")})
    assert rewritten({"plugins": [{"slot": "residual", "id": "m", "code": hash}]}, method) == names
    assert rewritten({"plugins": "damaged"}, method) == rewritten({}, method) == []


def test_settings_that_change_nothing_computed_leave_a_run_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freshness, "corpus_fingerprint", lambda arm: "c")
    job = Job(arm(values={"train.lr": 1.0}, defaults={"train.keep_checkpoints": 9, "train.clip": 1.0}), 1, 1.0)
    stored = {"train.keep_checkpoints": "2", "train.rank_timeout": "60", "train.clip": "1.0"}
    assert outdated(result("m", 1, 1.0, settings=stored, corpus="c"), job) == []
    (change,) = outdated(result("m", 1, 1.0, settings=stored | {"train.clip": "2.0"}, corpus="c"), job)
    assert change == "train.clip was 2.0 and is 1.0"
