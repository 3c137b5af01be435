"""Whether a stored run is still what would be run now: defaults, corpus, code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from zoo.bench.arms import Arm, Job
from zoo.bench.store import Result
from zoo.config.values import changed
from zoo.data.opening import configured_fingerprint
from zoo.runs.run_control import RUN_CONTROL
from zoo.runs.run_folder import operative, read_provenance


def outdated(result: Result, job: Job) -> list[str]:
    """The changes since the run in the store: of defaults, or of the corpus."""
    now = {"the corpus": corpus_fingerprint(job.arm)}
    return changed({"the corpus": result.corpus}, now) + _recomputed(result.settings, job.settings)


def rewritten(versions: Mapping[str, Any], arm: Arm) -> list[str]:
    """The methods of an arm whose code has changed since the run that was made with these versions."""
    noted = versions.get("plugins")
    plugins = [each for each in noted if isinstance(each, dict)] if isinstance(noted, list) else []
    before = {f"{plugin.get('slot')}.{plugin.get('id')}": plugin.get("code", "") for plugin in plugins}
    return [name for name, hashes in arm.code.items() if hashes and before.get(name, "") not in ("", *hashes)]


def is_another_run(folder: Path, job: Job, again: bool) -> bool:
    """Whether the run that was begun in a folder is not the job's; `again`: nor one with other code."""
    versions = read_provenance(folder)
    return (
        bool(_recomputed(operative(folder), job.settings))
        or versions["corpus"] != corpus_fingerprint(job.arm)
        or (again and bool(rewritten(versions, job.arm)))
    )


def _recomputed(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The changed settings that change what a run computes."""
    return changed({key: value for key, value in before.items() if key not in RUN_CONTROL}, now)


def corpus_fingerprint(arm: Arm) -> str:
    """The fingerprint of the corpus that the arm reads, as it is now."""
    return configured_fingerprint({**arm.defaults, **arm.values})


def check_corpora(arms: Iterable[Arm]) -> None:
    """Read what the arms will read, so that a corpus that is not there stops the bench before it starts."""
    for arm in arms:
        corpus_fingerprint(arm)
