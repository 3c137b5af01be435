"""Under which conditions the runs of a report were made: sizes, tokens, corpus, machine."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from pathlib import PurePath

from zoo.bench.store import Result
from zoo.report.findings import Findings
from zoo.system.table import counted

MOST = 4  # of different things that are named one by one


@functools.lru_cache(maxsize=1)
def conditions(report: Findings) -> str:
    """Sizes, tokens, corpus and machine of the runs, and how long they took."""
    runs = [run for arm in report.arms for run in arm.runs]
    plain = [run for run in runs if run.match == "none"] or runs
    entropy = sorted({round(run.unigram_entropy, 3) for run in runs if math.isfinite(run.unigram_entropy)})
    machines = sorted({name for run in runs if (name := _version(run, "machine", "processor"))})
    ran_on = f"; run on {', '.join(machines[:MOST])}" if machines else ""
    commits = {commit for run in runs if (commit := _version(run, "git", "commit"))}
    ran_on += f", by {len(commits)} commits of the code" if len(commits) > 1 else ""
    texts = sorted({corpus(run) for run in runs})
    return (
        f"{counted(len(runs), 'run')}, {sum(run.seconds for run in runs) / 3600:,.1f} hours of training; plain models of"
        f" {_list({run.parameters for run in plain})} parameters, trained on {_list({run.budget for run in plain})} tokens"
        f" of {' and '.join(texts[:MOST])}; unigram entropy of the validation split"
        f" {', '.join(map(str, entropy[:MOST]))} nats per token{ran_on}."
    )


def _version(run: Result, part: str, name: str) -> str:
    """A text in a part of a run's versions; empty where there is none."""
    versions = run.versions.get(part)
    version = versions.get(name) if isinstance(versions, dict) else None
    return version if isinstance(version, str) else ""


def corpus(run: Result) -> str:
    """The name of the run's corpus, wherever it was; of a mixture, the corpora with their weights."""
    named = run.settings.get("data.corpus", "")
    if named.startswith("{"):
        return f"the mixture {named}"
    return PurePath(named.strip("'\"")).name or f"a corpus {run.corpus[:8]}"


def _list(values: Iterable[int]) -> str:
    """Some numbers; of many, from the least to the largest."""
    ordered = sorted(values)
    if len(ordered) > MOST:
        return f"{ordered[0]:,} to {ordered[-1]:,}"
    *others, last = (f"{value:,}" for value in ordered)
    return f"{', '.join(others)} and {last}" if others else last
