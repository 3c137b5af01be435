"""Tasks of lm-eval on any run: an adapter from a run to what the harness asks of a model.

Nothing is fetched: the hub's libraries are told that there is no network, and a task whose data is not here is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import ZooError, nearest
from zoo.evaluation.outcomes import Measure, Outcome, outcome_of
from zoo.evaluation.scoring import Row, continuation, likelihoods

if TYPE_CHECKING:
    from zoo.evaluation.subject import Subject

OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE", "TRANSFORMERS_OFFLINE")
MISSING = "tasks of lm-eval need lm-eval: pip install 'transformer-zoo[eval]'"
LOWER = ("perplexity", "bits_per_byte", "byte_perplexity", "word_perplexity", "brier_score", "ter")


def harness_tasks(names: Sequence[str], folder: Path | None, most: int | None) -> list[HarnessTask]:
    """The tasks of these names, from a folder of task files or, where their data is here, from those of lm-eval."""
    with offline():
        try:
            from lm_eval.tasks import TaskManager
        except ImportError as error:
            raise ZooError(f"{MISSING} ({error})") from error
        if folder is not None and not folder.is_dir():
            raise ZooError(f"--harness {folder} is no folder of task files")
        manager = TaskManager(include_path=None if folder is None else str(folder), include_defaults=folder is None)
        known = list(manager.all_tasks)
        tasks = []
        for name in names:
            if name not in known:
                place = "lm-eval" if folder is None else str(folder)
                raise ZooError(f"there is no task {name} in {place}{nearest(name, known)}")
            tasks += [HarnessTask(label, task, most) for label, task in _loaded(manager, name).items()]
    return tasks


def _loaded(manager: Any, name: str) -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = manager.load([name])["tasks"]
        for task in loaded.values():
            task.eval_docs[0]  # what is not here is missed now
        return loaded
    except Exception as error:  # of the harness, of its task files, of the hub's libraries: a task that cannot be used
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if any(
            word in repr(error) + repr(error.__cause__) for word in ("Offline", "offline", "Connection", "reach", "Hub")
        ):
            raise ZooError(
                f"the task {name} needs the network, and nothing is fetched here: give a task file whose data is here"
                f" (dataset_path: json, data_files: …) with --harness; {reason}"
            ) from error
        raise ZooError(f"the task {name} cannot be used: {reason}") from error


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Tell the hub's libraries that there is no network; they look when they are imported."""
    for name in OFFLINE:
        os.environ.setdefault(name, "1")
    log = logging.getLogger("lm_eval")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


@dataclass(frozen=True)
class HarnessTask:
    """A task of lm-eval."""

    name: str
    task: Any
    most: int | None
    kind: str = "harness"

    @property
    def identity(self) -> str:
        """What tells it from every other: its configuration and its documents."""
        digest = hashlib.sha256(repr(sorted(self.task.config.to_dict().items())).encode())
        for document in list(self.task.eval_docs)[: self.most]:
            digest.update(json.dumps(document, sort_keys=True, default=str).encode())
        return digest.hexdigest()[:16]

    def measure(self, run: Subject) -> Outcome:
        """The harness' own loop over its own figures, with this run as the model."""
        from lm_eval.evaluator import evaluate

        with offline():
            identity = self.identity
            found = evaluate(
                lm=harness_model(run),
                task_dict={self.name: self.task},
                limit=self.most,
                bootstrap_iters=0,
                log_samples=True,
            )
        samples = sorted(found["samples"][self.name], key=lambda sample: sample["doc_id"])
        measures = {}
        for key, better in found["higher_is_better"].get(self.name, {}).items():
            values = [sample.get(key) for sample in samples]
            if values and all(isinstance(value, bool | int | float) for value in values):
                better_when = "higher" if better and key not in LOWER else "lower"
                measures[key] = Measure(better_when, tuple(float(value) for value in values))  # type: ignore[arg-type]
        if not measures:
            raise ZooError(f"the task {self.name} has no figure per item: {', '.join(found['results'][self.name])}")
        return outcome_of(run, self.name, self.kind, identity, measures, ())


def harness_model(run: Subject) -> Any:
    """The run as the harness asks a model: log-likelihoods of continuations and texts, and greedy texts."""
    from lm_eval.api.model import LM

    class RunModel(LM):
        """A trained run."""

        def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
            rows = [continuation(run, *request.args) for request in requests]
            scores = likelihoods(run.model, rows, run.model.max_seq_len)
            return [(-score.nll, score.greedy) for score in scores]

        def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
            rows = [Row(run.encode(request.args[0])) for request in requests]
            return [-score.nll for score in likelihoods(run.model, rows, run.model.max_seq_len)]

        def generate_until(self, requests: Sequence[Any]) -> list[str]:
            return [_written(run, *request.args) for request in requests]

    return RunModel()


def _written(run: Subject, context: str, how: dict[str, Any]) -> str:
    """Text after a context, up to the first of the stops."""
    from zoo.generation.generate import generate
    from zoo.generation.sampling import Sampling

    stops = how.get("until") or []
    stops = [stops] if isinstance(stops, str) else stops
    room = run.model.max_seq_len
    most = min(int(how.get("max_gen_toks") or 256), max(1, room // 2))
    tokens = run.encode(context)[-(room + 1 - most) :]
    temperature = float(how.get("temperature") or 0.0) if how.get("do_sample") else 0.0
    (text,) = generate(
        run.model,
        [tokens],
        run.tokenizer.eos,
        Sampling(temperature),
        max_tokens=most,
        cache=not run.model.refuses,
        vocab_size=run.tokenizer.vocab_size,
    )
    written = run.tokenizer.decode(text.tokens)
    ends = [written.find(stop) for stop in stops if stop and stop in written]
    return written[: min(ends, default=len(written))]
