"""The ways to train one model on several ranks that `train.parallel` chooses from.

Another one is a `Replica` and its entry in the table below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zoo.training.replicas import Averaged, Replica

if TYPE_CHECKING:
    from zoo.training.ranks import Ranks


def _sharded(model: Any, ranks: Ranks) -> Replica:
    from zoo.training.sharded import Sharded

    return Sharded(model, ranks)


PARALLEL: dict[str, Callable[[Any, Ranks], Replica]] = {"ddp": Averaged, "fsdp": _sharded}


def make_replica(model: Any, parallel: str, ranks: Ranks) -> Replica:
    """The model as the steps of this rank see it; a process that is alone has it as it is."""
    return PARALLEL[parallel](model, ranks) if ranks.size > 1 else Replica(model, ranks)
