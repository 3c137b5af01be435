"""What a report does to a folder."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from helpers.made_up_results import study

from zoo.report.findings import Findings
from zoo.report.report_folder import write_report


def test_report_files(tmp_path: Path) -> None:
    found = Findings.of(study(-0.1))
    write_report(found, tmp_path)
    text, page = (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()
    assert "better" in text and "| m |" in text and "<svg" in page and "better" in page
    drawn = re.findall(r"!\[.*\]\((.+)\)", text)
    assert len(drawn) == 7 and all((tmp_path / file).read_text().startswith("<svg") for file in drawn)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard" / "report"))
    events.Reload()
    assert events.Tags()["images"] and events.Tags()["tensors"]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 7  # the report and six runs
    write_report(found, tmp_path)  # again: nothing is doubled
    assert len(list((tmp_path / "tensorboard" / "report").iterdir())) == 1


def test_a_report_takes_away_only_what_an_earlier_one_wrote(tmp_path: Path) -> None:
    mine = [tmp_path / "figures" / "mine.svg", tmp_path / "tensorboard" / "my" / "events.out.tfevents.1"]
    mine.append(tmp_path / "tensorboard" / "notes.txt")
    for file in mine:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    write_report(Findings.of([r for r in study(-0.1, key="0123456789") if r.seed < 3]), tmp_path)
    before = set((tmp_path / "figures").iterdir()) | set((tmp_path / "tensorboard").iterdir())
    write_report(Findings.of([dataclasses.replace(r, host="parallel") for r in study(-0.1)]), tmp_path)
    after = set((tmp_path / "figures").iterdir()) | set((tmp_path / "tensorboard").iterdir())
    assert all(file.read_text() == "mine" for file in mine)
    assert not [path for path in before & after if "sequential" in path.name and "baseline" not in path.name]
