"""Ray as an engine, as far as no cluster is needed; tests/end_to_end/test_ray.py has one."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from zoo.engines import ray_engine
from zoo.engines.engine import Resources
from zoo.engines.places import FolderPlace
from zoo.engines.ray_engine import RayEngine, _check_answers, _look, imported_ray
from zoo.errors import ZooError

NODES = {"head": {"CPU": 4.0}, "worker": {"CPU": 16.0, "GPU": 4.0, "big": 1.0}}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_nodes", lambda: NODES)
    monkeypatch.setattr(RayEngine, "_check_store", lambda self, nodes: None)


@pytest.mark.parametrize(
    ("resources", "capacity"),
    [
        (Resources(1), 20),
        (Resources(3), 6),
        (Resources(1, 1), 4),
        (Resources(1, 0.5), 8),
        (Resources(8, 1, (("big", 1.0),)), 1),
    ],
)
def test_as_many_runs_as_the_nodes_have_room_for(
    resources: Resources, capacity: int, nodes: None, tmp_path: Path
) -> None:
    engine = RayEngine(FolderPlace(tmp_path), resources)
    engine.check()
    assert engine.capacity == capacity and engine.has_idle_gpus == (resources.gpus == 0)


@pytest.mark.parametrize("resources", [Resources(17), Resources(1, 5), Resources(1, 0, (("tpu", 1.0),))])
def test_what_no_node_has_is_refused(resources: Resources, nodes: None, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="no node of the Ray cluster has what a run is to have .* its 2 nodes: "):
        RayEngine(FolderPlace(tmp_path), resources).check()


def test_an_address_where_nothing_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        for each in (address, f"ray://{address}"):
            with pytest.raises(ZooError, match=f"no Ray answers at {each}"):
                _check_answers(each)
    for address in ("head", "head:", ":x", "head:port", ""):
        with pytest.raises(ZooError, match="write host:port"):
            _check_answers(address)
    with pytest.raises(ZooError, match="no Ray answers"):
        _check_answers("127.0.0.1:99999999")


def test_a_cluster_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = RayEngine(FolderPlace(tmp_path), Resources())
    monkeypatch.setattr(engine, "_is_gone", lambda ray, handle: (_ for _ in ()).throw(ConnectionError("no GCS")))
    with pytest.raises(ZooError, match=r"the Ray cluster is gone \(no GCS\): the same command continues the bench"):
        engine.states(["one"])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ZooError, match=r"pip install 'transformer-zoo\[ray\]'"):
        imported_ray()


def test_what_a_node_sees_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "probe-7").write_text("7")
    assert _look(str(tmp_path), "7", "node") == ""
    assert (tmp_path / "engine" / "probe-7-node").read_text() == "7"
    assert _look(str(tmp_path), "8", "node") == "it does not see what is written there"
    assert "does not see" in _look(str(tmp_path / "nowhere"), "7", "node")
    assert not (tmp_path / "nowhere").exists()
