"""How a score-mixing method says what attention attends with; part of the public interface."""

from zoo.kernels.attend import Dense, Factors, Scores, attend
from zoo.kernels.blocked_attention import Term

__all__ = ["Dense", "Factors", "Scores", "Term", "attend"]
