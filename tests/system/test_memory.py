"""Memory of this process: what it holds, and when it is tidied."""

from __future__ import annotations

import gc

import pytest

from zoo.system.memory import available, collection_paused, memory_in_use, peak_memory


def test_collection_is_paused_and_goes_on_as_it_was() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError), collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_the_peak_is_no_less_than_what_is_held() -> None:
    held = memory_in_use("cpu")
    assert held is None or 1e6 < held <= peak_memory("cpu")
    assert available() > 0
