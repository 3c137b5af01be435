"""Under which conditions the runs of a report were made: sizes, tokens, corpus, machine."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from pathlib import PurePath

from zoo.bench.store import Result, is_tuning
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
        f"{_counts(report)}; plain models of"
        f" {_list({run.parameters for run in plain})} parameters with embeddings, trained on"
        f" {_list({run.budget for run in plain})} tokens"
        f" of {' and '.join(texts[:MOST])}; unigram entropy of the validation split"
        f" {', '.join(map(str, entropy[:MOST]))} nats per token{ran_on}."
    )


def _counts(report: Findings) -> str:
    """The runs that are judged, those that are not, and how long all of them took."""
    runs = [run for arm in report.arms for run in arm.runs]
    tried = {id(run) for arm in report.arms for run in arm.tried}
    chose = sum(is_tuning(run.seed) or id(run) in tried for run in report.unjudged)
    hours = sum(run.seconds for run in (*runs, *report.unjudged)) / 3600
    parts = [f"{counted(len(runs), 'run')} that are judged" if len(runs) != 1 else "1 run that is judged"]
    parts += [f"{chose:,} that chose learning rates"] if chose else []
    replaced = len(report.unjudged) - chose
    parts += [f"{replaced:,} that newer ones replace"] if replaced else []
    return f"{', '.join(parts[:-1])}{' and ' if parts[1:] else ''}{parts[-1]}, {hours:,.1f} hours of training"


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
    """Numbers in words; of many, only the smallest and the largest."""
    ordered = sorted(values)
    if len(ordered) > MOST:
        return f"{ordered[0]:,} to {ordered[-1]:,}"
    *others, last = (f"{value:,}" for value in ordered)
    return f"{', '.join(others)} and {last}" if others else last
