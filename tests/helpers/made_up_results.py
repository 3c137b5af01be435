"""Results that nobody measured."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zoo.bench.store import FILE, Result
from zoo.bench.suite_notes import SUITES


def result(name: str, seed: int, loss: float | None, **changed: object) -> Result:
    baseline = name.startswith("baseline")
    values: dict = {
        "key": f"{name}-{seed}-{changed.get('lr_factor', 1.0)}",
        "arm": name,
        "name": "baseline" if baseline else name,
        "match": "none" if baseline else "method",
        "host": "sequential",
        "seed": seed,
        "lr": 1e-3 * float(changed.get("lr_factor", 1.0)),  # type: ignore[arg-type]
        "lr_factor": 1.0,
        "status": "finished" if loss is not None else "diverged",
        "causal": True,
        "parameters": 1000,
        "flops": 6000.0,
        "steps": 10,
        "tokens": 100,
        "valid_loss": loss,
        "test_loss": loss,
        "tested": loss is not None,
        "bits_per_byte": 1.0,
        "accuracy": 0.1,
        "tokens_per_second": 10.0,
        "peak_memory": 100,
        "seconds": 1.0,
        "blew_up": "",
        "alarm": "",
        "curve": [(5, 50, 0.5, 4.0), (10, 100, 1.0, loss or 9.0)],
        "training": [(5, 50, 0.5, 4.1), (10, 100, 1.0, loss or 9.0)],
        "probes": {},
        "baselines": {} if baseline else {"none": "baseline"},
        "unigram_entropy": 6.0,
        "corpus": "x",
        "config": "",
        "settings": {},
        "versions": {},
        "stamps": {},
    }
    return Result(**(values | changed))


def study(offset: float, noise: tuple[float, ...] = (0.001, -0.002, 0.001), **changed: object) -> list[Result]:
    plain = [result("baseline", s, 3.0 + s / 10) for s in (1, 2, 3)]
    return plain + [result("m", s, 3.0 + s / 10 + offset + noise[s - 1], **changed) for s in (1, 2, 3)]


def many(folder: Path, runs: int) -> None:
    """A store of so many different runs, as large as real ones: suites of 40 methods and 3 baselines, three seeds each."""
    settings = {f"model.setting_{i}": str(i) for i in range(56)} | {"train.steps": "400", "data.corpus": "'text'"}
    versions = {
        "machine": {"processor": "some"},
        "git": {"commit": "0" * 40},
        "packages": {f"p{i}": "1" for i in range(20)},
    }
    kinds = ("none", "parameters", "flops")
    notes: dict[str, Any] = {}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("w") as file:
        for number in range(runs):
            arm, seed = divmod(number, 3)
            suite, place = divmod(arm, 43)
            plain = {kind: f"{suite:05d}{kind}" for kind in kinds}
            method = place >= 3
            name, match = (f"m{suite}_{place}", "method") if method else ("baseline", kinds[place])
            id = f"{suite:05d}{name}" if method else plain[match]
            loss = 4.0 + seed / 10 + math.sin(arm) / 50 + math.sin(number) / 100
            row = asdict(
                result(name, seed + 1, loss, arm=id, key=f"{number:016x}", match=match, parameters=1000 + place)
            )
            row["training"] = [(10 * i, 20480 * i, 3.4 * i, loss + 3 / i) for i in range(1, 41)]
            row["curve"] = [(400, 819200, 136.0, loss)]
            row["settings"] = settings | {"train.seed": str(seed + 1), "train.lr": "0.004"}
            row |= {"versions": versions, "config": "x" * 600, "probes": {"gate": {str(i): 0.5 for i in range(1, 5)}}}
            row["stamps"] = {"started": "2026-01-01T00:00:00+00:00", "ended": f"2026-01-01T{number:08d}"}
            if method:
                row["baselines"] = plain
                notes.setdefault(f"s{suite}", {"arms": {}, "twins": []})["arms"][id] = plain
            file.write(json.dumps(row) + "\n")
    (folder / SUITES).write_text(json.dumps(notes))
