"""Datasets of the Hugging Face hub: `hf:owner/name[:config][:split]`, as the Parquet files that the hub makes of each.

They are fetched once, into the cache of `huggingface_hub`, and read from there without the network.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.documents import listing
from zoo.errors import DataError

PREFIX = "hf:"
REVISION = "refs/convert/parquet"  # config/split/0000.parquet, whatever the dataset itself is made of
WORD = r"[\w][\w.-]*"
SPEC = re.compile(rf"hf:({WORD}(?:/{WORD})?)(?::({WORD}))?(?::({WORD}))?")


class HubId(NamedTuple):
    dataset: str
    config: str | None
    split: str | None


def parse(spec: str) -> HubId:
    """The parts of a hub id."""
    if not (match := SPEC.fullmatch(spec)):
        raise DataError(
            f"{spec!r} is not the id of a dataset: write hf:owner/name, hf:owner/name:config or …:config:split"
        )
    return HubId(match[1], match[2], match[3])


def fetched(spec: str) -> Path:
    """The folder of a dataset's files, with a folder per split unless a split is named; fetched if it is not there."""
    hub_id = parse(spec)
    pattern = "/".join((hub_id.config or "*", hub_id.split or "*", "*.parquet"))
    hub = _package(spec)
    snapshot = _snapshot(hub, spec, hub_id.dataset, pattern)
    configs = sorted(path.name for path in snapshot.iterdir() if path.is_dir())
    config = hub_id.config or ("default" if "default" in configs else configs[0] if len(configs) == 1 else None)
    if config is None:
        raise DataError(f"{spec} has several configurations: name one of {listing(configs)}, as {spec}:NAME")
    folder = snapshot / config / (hub_id.split or "")
    if not folder.is_dir() or not any(folder.rglob("*.parquet")):
        raise DataError(
            f"{spec} has no such files on the hub: look at the page of {hub_id.dataset} for its configurations"
        )
    return folder


def _snapshot(hub: Any, spec: str, dataset: str, pattern: str) -> Path:
    def snapshot(offline: bool) -> Path:
        return Path(
            hub.snapshot_download(
                dataset, repo_type="dataset", revision=REVISION, allow_patterns=[pattern], local_files_only=offline
            )
        )

    try:
        folder = snapshot(offline=True)
        if any(folder.glob(pattern)):
            return folder
    except OSError:
        pass  # not there yet
    try:
        return snapshot(offline=False)
    except OSError as error:  # those of the package and of requests too
        raise DataError(
            f"{spec} is not on this computer and cannot be fetched ({type(error).__name__}): on one with a network, run"
            f" hf download {dataset} --repo-type dataset --revision {REVISION} --include '{pattern}' --local-dir FOLDER,"
            " copy that folder here, and set data.corpus to it"
        ) from error


def _package(spec: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise DataError(
            f"{spec} needs the package huggingface_hub: install it with pip install huggingface_hub"
        ) from error
    return huggingface_hub
