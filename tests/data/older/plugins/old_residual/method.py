"""The embedding is added again after every layer, with a learned weight."""

import torch
from torch import Tensor, nn

from zoo.extension import FFN, Layer, Residual, Site, hint
from zoo.history import History

ZOO_API = (1, 0)  # what this was written against: zoo.API_VERSION


class OldResidual(Residual):
    """x_{m+1} = y_m + f_m + s_m x_1, with a scalar s_m from 0, so that it starts as the baseline."""

    starts_as = "baseline"

    def __init__(self, layer: Layer, lr_factor: float = 1.0) -> None:
        super().__init__()
        # A scalar beside the stream: no weight decay, which would pull it back to where it starts.
        self.share = hint(nn.Parameter(torch.tensor(0.0)), decay=False, lr_factor=lr_factor)

    def write(self, site: Site, stream: Tensor, branch: Tensor, history: History) -> Tensor:
        after = stream + branch  # (B, T, D)
        return after + self.share * history.embedding if site == FFN else after

    def probes(self) -> dict[str, Tensor]:
        return {"embedding_share": self.share}
