"""The figures of a run as TensorBoard events: scalars, drawings and histograms of learned values, and hyper-parameters."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.config.values import parse_bindings
from zoo.runs.event_file import Events
from zoo.runs.event_summaries import figure_summary, row_end, row_summaries, text_summary
from zoo.runs.probe_figures import FEW
from zoo.runs.probe_traces import Pace, Trace
from zoo.slots import SLOTS

if TYPE_CHECKING:
    import torch

    Probes = Mapping[str, Mapping[int, torch.Tensor]]  # name → layer, from 1 → value

LOSS = "loss"  # TensorBoard shows groups of tags by name, and two of them unfolded: this one comes first
# What the HParams tab compares runs by.
RESULTS = ("loss/valid", "valid/perplexity", "valid/bits_per_byte", "valid/accuracy", "loss/train")
# The columns that it shows without being asked.
MAIN = ("method", "model.depth", "parameters", "train.lr", "train.seed")


class TensorBoard:
    """The events of one session of a run; one that resumes takes back what was shown after its step."""

    def __init__(self, folder: Path, step: int = 0, resumes: bool = False) -> None:
        self._events = Events(folder, purge_after=step if resumes else None)
        self._pace = Pace(step)
        self._trace = Trace()

    def scalars(self, kind: str, step: int, figures: Mapping[str, float | int | str]) -> None:
        """Write the numbers of a row as `kind/figure`, the loss as `loss/kind`."""
        numbers = {scalar_tag(kind, name): value for name, value in figures.items() if not isinstance(value, str)}
        self._events.scalars(numbers, step)

    def trace(self, step: int, learned: Mapping[str, Mapping[int, Any]]) -> None:
        """Remember learned values for the figures: a scalar per layer would bury the loss."""
        self._trace.add(step, learned)

    def review(self, step: int, probes: Probes, steps: int, seconds: float) -> None:
        """Write what is due of the learned quantities at a validation, after so many seconds of training."""
        self.histograms(step, probes)
        if probes and self._pace.due(step, steps, seconds):
            self.figures(step, probes)

    def figures(self, step: int, probes: Probes) -> None:
        """Draw every learned quantity, unless it has been drawn at this step."""
        if not probes or self._pace.drawn == step:
            return
        with self._pace.drawing(step):
            from zoo.runs.probe_figures import probe_figures

            for name, figure in probe_figures(probes, step, self._trace):
                self._events.summary(figure_summary(f"probes/{name}", figure), step)

    def histograms(self, step: int, probes: Probes) -> None:
        """Write how the elements of long vectors are distributed; short ones are in figures as they are."""
        from torch.utils.tensorboard.summary import histogram

        for name, layers in probes.items():
            for layer, value in layers.items():
                if value.numel() > FEW and bool(value.isfinite().all()):
                    tag = f"vectors/{name}/layer_{layer:02d}"  # a group of many cards, after all others
                    self._events.summary(histogram(tag, value.float().cpu().numpy(), "auto"), step)

    def describe(self, configuration: str, parameters: int) -> None:
        """Write what holds for the whole run: its configuration, its hyper-parameters, which charts belong together."""
        from torch.utils.tensorboard.summary import custom_scalars

        self._events.summary(text_summary("configuration", "```\n" + configuration.strip() + "\n```"))
        self._events.summary(custom_scalars({LOSS: {LOSS: ["Multiline", [f"{LOSS}/train", f"{LOSS}/valid"]]}}))
        # Into this very run, not into a run of its own below it, as add_hparams would: one run is one row of the tab.
        for summary in row_summaries(hyper_parameters(configuration) | {"parameters": parameters}, RESULTS, MAIN):
            self._events.summary(summary)

    def end(self) -> None:
        """Tell the HParams tab that the run is over."""
        self._events.summary(row_end())

    def flush(self) -> None:
        """Hand everything to the system."""
        self._events.flush()

    def close(self) -> None:
        """Flush and close."""
        self._events.close()


def scalar_tag(kind: str, name: str) -> str:
    """The tag of a figure in TensorBoard; those of training and validation stand side by side if it is the loss.

    The loss of one corpus of a mixture, `loss/NAME`, is `loss/valid/NAME`.
    """
    figure, _, of_corpus = name.partition("/")
    if figure != LOSS:
        return f"{kind}/{name}"
    return f"{LOSS}/{kind}/{of_corpus}" if of_corpus else f"{LOSS}/{kind}"


def hyper_parameters(configuration: str) -> dict[str, float | int | str | bool]:
    """The bindings of a configuration as plain values, what is not a literal as text, and `method`: what is in the slots."""
    parameters: dict[str, float | int | str | bool] = {}
    for name, text in parse_bindings(configuration).items():
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        parameters[name] = value if isinstance(value, bool | int | float | str) else text
    methods = [str(parameters.get(f"model.{slot}", "")) for slot in SLOTS]
    ids = [method.rpartition(".")[2] for method in methods if method.startswith("@")]
    return {"method": "+".join(ids) or "baseline", **parameters}
