"""The conformance kit: what every method must keep, examined in one call.

    from zoo.testing import check
    check("my_method").verify()                 # an installed method, by its id
    print(check(MyMethod, slot="residual").ok)  # or what would be its entry point

`conformance("my_method")` makes a pytest test of it, one a property; `pytest --zoo-method my_method` and
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
    from zoo.testing import kit

    return kit.check(method, slot, settings or {}, only, thorough)


def properties(thorough: bool = False) -> tuple[str, ...]:
    """The names of the properties, in the order in which they are examined."""
    from zoo.testing import kit

    return kit.names(thorough)


def conformance(
    method: str | Callable[..., Any],
    slot: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    thorough: bool = False,
) -> Callable[[str], None]:
    """A test function for pytest, with one test a property."""
    import pytest

    @pytest.mark.parametrize("property", properties(thorough))
    def test(property: str) -> None:
        check(method, slot, settings=settings, only=[property], thorough=thorough).verify()

    return test
