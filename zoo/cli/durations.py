"""Durations as precise as a forecast is."""

from __future__ import annotations


def rounded(seconds: float) -> str:
    """A duration without seconds beyond an hour, without single ones beyond ten minutes."""
    from zoo.system.clock import duration

    unit = 60 if seconds >= 3600 else 10 if seconds >= 600 else 1
    return duration(round(seconds / unit) * unit)
