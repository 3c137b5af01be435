"""A block whose sublayers and skip take something else than the stream as their input."""

from __future__ import annotations

from torch import Tensor

from zoo.extension import ATTENTION, Layer, Residual, Site
from zoo.history import History


class Rebased(Residual):
    """The block reads `base(stream, history)` and adds its branches to it; `left` is the stream that it leaves."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.parallel = layer.parallel

    def base(self, stream: Tensor, history: History) -> Tensor:
        return stream

    def left(self, stream: Tensor, history: History) -> Tensor:
        return stream

    def read(self, site: Site, stream: Tensor, history: History) -> Tensor:
        if site == ATTENTION:
            return self.base(stream, history)
        return history.current.input if self.parallel else stream

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        if site == ATTENTION:
            return history.current.input + branch
        return self.left(stream + branch, history)
