"""pytest --zoo-method ID: the conformance kit as pytest tests, one per property.

Every pytest in an environment with the zoo loads this module, so it imports nothing until it is asked for something.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zoo", "conformance of methods")
    group.addoption(
        "--zoo-method",
        action="append",
        default=[],
        metavar="ID",
        help="examine this installed method (ID or SLOT.ID); without paths, nothing else is run",
    )
    group.addoption("--zoo-thorough", action="store_true", help="… compiled code too, which takes minutes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--zoo-method") and config.args_source is not config.ArgsSource.ARGS:
        config.args = []


@pytest.hookimpl(tryfirst=True)  # before -k and the like choose
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    for method in config.getoption("--zoo-method"):
        collected = list(_items(session, method, config.getoption("--zoo-thorough")))
        items.extend(collected)
        report = pytest.CollectReport(f"zoo::{method}", "passed", None, collected)  # type: ignore[arg-type]
        config.hook.pytest_collectreport(report=report)  # so that they are counted


def _items(session: pytest.Session, method: str, thorough: bool) -> Iterator[pytest.Item]:
    from zoo.errors import ZooError
    from zoo.testing import properties
    from zoo.testing.method_under_test import subject

    try:
        subject(method)
    except ZooError as error:
        raise pytest.UsageError(str(error)) from None
    for property in properties(thorough):
        nodeid = f"zoo::{method}::{property.replace(' ', '_')}"
        yield Conformance.from_parent(session, name=nodeid, nodeid=nodeid, method=method, property=property)


@functools.cache
def _builds(method: str) -> bool:
    from zoo.testing import check

    return check(method, only=["builds"]).ok


class Conformance(pytest.Item):
    """One property of one method."""

    def __init__(self, *, method: str, property: str, **given: Any) -> None:
        super().__init__(**given)
        self.method = method
        self.property = property

    def runtest(self) -> None:
        from zoo.testing import check

        if self.property != "builds" and not _builds(self.method):
            pytest.skip("not tested because builds failed")
        (result,) = check(self.method, only=[self.property], thorough=True).results
        if result.status == "skipped":
            pytest.skip(result.detail)
        if result.status == "failed":
            from zoo.testing.report import NotConforming, sentence

            raise NotConforming(sentence(result))
        self.add_report_section("call", result.status, result.detail)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from zoo.testing.report import NotConforming

        if isinstance(excinfo.value, NotConforming):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.config.rootpath, None, f"{self.method}: {self.property}"
