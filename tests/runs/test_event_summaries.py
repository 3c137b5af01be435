"""Summaries for TensorBoard are those that torch would write."""

from __future__ import annotations

import io

from matplotlib.figure import Figure
from PIL import Image
from torch.utils.tensorboard import _utils, summary as theirs

from zoo.runs.event_summaries import figure_summary, row_end, row_summaries, text_summary


def test_texts_and_rows_are_what_torch_writes() -> None:
    assert text_summary("a", "**b** ü") == theirs.text("a", "**b** ü")
    chosen = {"method": "m", "seed": 3, "lr": 1e-3, "deterministic": True}
    assert [*row_summaries(chosen, ["loss/valid"]), row_end()] == list(theirs.hparams(chosen, {"loss/valid": 0.0}))


def test_a_figure_has_the_pixels_that_torch_would_write() -> None:
    figure = Figure(figsize=(2, 1))
    figure.add_subplot().plot([1, 3, 2])
    (ours,) = figure_summary("a", figure).value
    (other,) = theirs.image("a", _utils.figure_to_image(figure), dataformats="CHW").value
    ours_drawn, theirs_drawn = (Image.open(io.BytesIO(each.image.encoded_image_string)) for each in (ours, other))
    assert (ours.tag, ours.image.width, ours.image.height) == ("a", other.image.width, other.image.height)
    assert ours_drawn.tobytes() == theirs_drawn.tobytes()
