"""How a score-mixing method says what attention attends with; part of the public interface."""

from zoo.kernels.attend import Dense, Factors, Scores, attend, past_only
from zoo.kernels.blocked_attention import Term

__all__ = ["Dense", "Factors", "Scores", "Term", "attend", "past_only"]
