"""A claim is checked only against runs like those that it was made of: in their host, at their settings, long enough."""

from __future__ import annotations

from zoo.report.arm_results import ArmResults
from zoo.report.claims import Conditions


def unmet(conditions: Conditions, arm: ArmResults, id: str) -> str:
    """Why a claim on a method, of this id, is not checked against its arm; empty where it is."""
    if conditions.host and arm.first.host != conditions.host:
        return f"claimed of the {conditions.host} host only"
    settings = arm.first.settings
    for name, value in conditions.settings:
        bound = {key: text for key, text in settings.items() if key.endswith(f".{id}.{name}")}
        if set(bound.values()) != {value}:
            return f"not measured at {name} = {value}"
    longest = max(run.steps for run in arm.runs)
    if longest < conditions.least_steps and not arm.diverged:
        return f"too short, {longest:,} of {conditions.least_steps:,} steps"
    if conditions.most_steps is not None and longest > conditions.most_steps:
        return f"too long, {longest:,} steps where {conditions.most_steps:,} are meant"
    return ""
