"""From what a user named to the arms of a bench and their suite."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from zoo.bench.arms import Arm, arms_of
from zoo.bench.method_names import parse_name
from zoo.bench.step_costs import StepCost
from zoo.bench.suite import Suite
from zoo.config.configuration import Config
from zoo.config.gin_files import find_gin_file
from zoo.config.load import load_config
from zoo.counting.counted_build import Counts
from zoo.counting.spent import Kind
from zoo.errors import ConfigError, ZooError, nearest
from zoo.plugins.resources import project_gin_folders

CONTINUED: tuple[Kind, ...] = ("none", "tokens")  # the baselines of a model that goes on from a checkpoint


def select_arms(
    suite_name: str | None,
    files: Sequence[str],
    bindings: Sequence[str],
    methods: Sequence[str] | None = None,
    costs: Callable[[], Mapping[str, StepCost]] = dict,
) -> tuple[list[Arm], Suite]:
    """The arms of a suite, each once, and the suite; `methods` are judged in place of the suite's.

    `costs` are measured step costs by arm, which baselines that are matched in time need.
    """
    files = [*([suite_file(suite_name)] if suite_name else []), *files]
    loaded = load_config(files, bindings)
    suite = _with_own_sizes(loaded, loaded.build("suite"))
    has_hosts = bool(suite_name) or "suite.hosts" in loaded.values
    _check_bindings(loaded, has_hosts)
    arms: dict[str, Arm] = {}
    counts: Counts = {}
    for host in suite.hosts if has_hosts else (None,):
        for name in (suite.methods if methods is None else methods) or ("",):
            try:
                named = parse_name(name)
                of_method = arms_of(
                    [*files, *named.files], [*bindings, *named.bindings], suite, host, named.label, costs, counts
                )
            except ZooError as error:
                if not name:
                    raise
                raise ZooError(f"{name}: {error}") from error
            for arm in of_method:
                arms.setdefault(arm.id, arm)
    if not arms:
        raise ZooError("there is nothing to run: name a method, or a baseline in suite.baselines")
    return list(arms.values()), suite


def _with_own_sizes(loaded: Config, suite: Suite) -> Suite:
    """The suite; of one that starts from a checkpoint, every baseline has the checkpoint's sizes."""
    if loaded.get("model.start_from") is None:
        return suite
    if "suite.baselines" not in loaded.values:
        return dataclasses.replace(suite, baselines=CONTINUED)
    if others := [kind for kind in suite.baselines if kind in ("parameters", "flops")]:
        raise ConfigError(
            f"suite.baselines: a plain block that is matched in {' or '.join(others)} has another FFN than the checkpoint of"
            f" model.start_from, and cannot start from it: match it in {', '.join(map(repr, CONTINUED))} or 'time'"
        )
    return suite


def _check_bindings(loaded: Config, has_hosts: bool) -> None:
    """Refuse settings that a bench makes itself."""
    if loaded.get("train.seed") != 1:
        raise ConfigError("a bench gives its runs the seeds 1, 2, …: bind suite.seeds, or --seeds N, not train.seed")
    if has_hosts and "model.parallel" in loaded.values:
        raise ConfigError("a suite says where its methods stand: bind suite.hosts in place of model.parallel")


def suite_file(name: str, kind: Literal["suite", "ladder"] = "suite") -> str:
    """The path of the Gin file of a suite, or of a ladder, which was given by its name or as a path."""
    if Path(name).is_file():
        return name
    try:
        return str(find_gin_file(f"{kind}s/{name}"))
    except ConfigError as error:
        known = sorted({path.stem for folder in project_gin_folders() for path in folder.glob(f"{kind}s/*.gin")})
        raise ConfigError(
            f"there is no {kind} {name}{nearest(name, known)}: name {', '.join(known)}, or the path of a Gin file"
        ) from error
