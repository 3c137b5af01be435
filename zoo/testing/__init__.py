"""The conformance kit: the properties that every method must have, checked in one call.

    from zoo.testing import check
    check("my_method").verify()                 # an installed method, by its id
    print(check(MyMethod, slot="residual").ok)  # or what would be its entry point

`conformance("my_method")` makes a pytest test of it, one per property; `pytest --zoo-method my_method` and
`zoo-plugins check my_method` run the same. Nothing here imports torch until something is examined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from zoo.testing.report import Cost, NotConforming, Report, Result

__all__ = ["Cost", "NotConforming", "Report", "Result", "check", "conformance", "properties"]


def check(
    method: str | Callable[..., Any],
    slot: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
    thorough: bool = False,
) -> Report:
    """Examine a method: an id, or a factory. `only` names the properties to look at; `thorough` takes minutes."""
    from zoo.testing import runner

    return runner.check(method, slot, settings or {}, only, thorough)


def properties(thorough: bool = False) -> tuple[str, ...]:
    """The names of the properties, in the order in which they are examined."""
    from zoo.testing import runner

    return runner.names(thorough)


def conformance(
    method: str | Callable[..., Any],
    slot: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    thorough: bool = False,
) -> Callable[[str], None]:
    """A test function for pytest, with one test per property; where `builds` fails, the others are skipped."""
    import functools

    import pytest

    @functools.cache
    def builds() -> Report:
        return check(method, slot, settings=settings, only=["builds"])

    @pytest.mark.parametrize("property", properties(thorough))
    def test(property: str) -> None:
        if property != "builds" and not builds().ok:
            pytest.skip("not tested because builds failed")
        check(method, slot, settings=settings, only=[property], thorough=thorough).verify()

    return test
