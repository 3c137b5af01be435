"""The settings that may be changed when a run resumes, as they do not change what it computes."""

from __future__ import annotations

RUN_CONTROL = ("records.writers", "train.keep_checkpoints", "train.rank_timeout")
