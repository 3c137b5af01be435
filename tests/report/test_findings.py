"""What a report is made of."""

from __future__ import annotations

from helpers.made_up_results import result, study

from zoo.report.findings import Findings


def test_a_report_on_some_arms_is_corrected_as_the_whole() -> None:
    results = study(-0.05, noise=(0.01, -0.01, 0.005))
    for i in range(40):
        results += [result(f"other{i}", s, 3.0 + s / 10 + (-1) ** s * 0.1) for s in (1, 2, 3)]
    some = Findings.of(results).only({"m", "baseline"})
    assert [c.verdict for c in some.comparisons] == ["open"] and len(some.arms) == 2
