"""What the kit found, as plain data: one result per property, and what the method costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

# ok; it broke; it broke as the method declares; there was nothing to look at
Status = Literal["ok", "failed", "declared", "skipped"]


class Result(NamedTuple):
    """How one property fared."""

    property: str
    claim: str  # what the property says
    status: Status
    detail: str = ""  # what broke, or what is worth knowing
    case: str = ""  # the smallest case found in which it broke
    seconds: float = 0.0


class NotTested(NamedTuple):
    """A property that means nothing after a failure before it."""

    property: str
    because: str  # the property that failed


class Cost(NamedTuple):
    """What a method costs beside the baseline of the same size."""

    size: str
    parameters: int  # that it adds
    share: float  # … of the baseline's
    time: float  # a training step, as a multiple of the baseline's: rough


class NotConforming(AssertionError):
    """A method that does not keep what the interface promises."""


@dataclass(frozen=True)
class Report:
    """All results of one method."""

    id: str
    slot: str
    source: str  # the distribution and its version, or the module
    results: tuple[Result, ...]
    cost: Cost | None = None
    not_tested: tuple[NotTested, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.status == "failed")

    def __getitem__(self, property: str) -> Result:
        return next(result for result in self.results if result.property == property)

    def verify(self) -> None:
        """Raise with every failure in words, if there is one."""
        if self.failures:
            detail = "\n".join([*(f"  {sentence(result)}" for result in self.failures), *_left_out(self)])
            raise NotConforming(f"{self.slot} method {self.id} of {self.source} does not conform:\n{detail}")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            **{name: getattr(self, name) for name in ("id", "slot", "source", "ok")},
            "results": [result._asdict() for result in self.results],
            "cost": self.cost._asdict() if self.cost else None,
            "not_tested": [each._asdict() for each in self.not_tested],
        }


def sentence(result: Result) -> str:
    """A result in words."""
    where = f" (smallest case: {result.case})" if result.case else ""
    return f"{result.property}: {result.detail or result.claim}{where}"


def _left_out(report: Report) -> list[str]:
    """One line for each failure after which others mean nothing."""
    by_cause: dict[str, list[str]] = {}
    for property, because in report.not_tested:
        by_cause.setdefault(because, []).append(property)
    return [f"  not tested because {because} failed: {', '.join(names)}" for because, names in by_cause.items()]


def lines(report: Report) -> list[str]:
    """The report as a table for a terminal."""
    shown = {"ok": "ok", "failed": "FAILED", "declared": "declared", "skipped": "-"}
    width = max(len(result.property) for result in report.results)
    rows = [f"{report.slot}.{report.id} of {report.source}"]
    for result in report.results:
        detail = result.claim if result.status == "ok" and not result.detail else result.detail
        rows.append(f"  {result.property.ljust(width)}  {shown[result.status].ljust(8)}  {detail}")
        if result.case:
            rows.append(f"  {' ' * width}  {' ' * 8}  smallest case: {result.case}")
    verdict = "it conforms"
    if report.failures:
        verdict = f"{len(report.failures)} of {len(report.results) + len(report.not_tested)} properties broke"
    return [*rows, *_left_out(report), f"  {verdict} ({sum(result.seconds for result in report.results):.1f} s)"]
