"""Runs whose store is no folder: copies of their folders, brought back so that every moment is one to go on from."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from zoo.engines.board import Order
from zoo.engines.places import FolderPlace, UrlPlace
from zoo.engines.working_copy import Copies, working_copy


def order(store: Path) -> Order:
    folder = store / "runs" / "one"
    return Order(
        title="one",
        module="m",
        arguments=["--gin", str(store / "configs" / "one.gin"), "--run", str(folder), "relative", "/elsewhere/file"],
        cores=1,
        store=str(store),
        folders=[str(folder)],
        cwd="/",
        environment={},
        beat=1.0,
    )


def checkpoint(folder: Path, step: int) -> Path:
    content = f"step {step}".encode()
    path = folder / "checkpoints" / f"step_{step:08d}.{hashlib.sha256(content).hexdigest()[:16]}.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def write_run(folder: Path, step: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.gin").write_text("x = 1")
    (folder / "run.lock").touch()
    (folder / "half.tmp").touch()
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(f"step {step}\n")
    return checkpoint(folder, step)


@pytest.fixture
def place(tmp_path: Path) -> UrlPlace:
    place = UrlPlace(f"file://{tmp_path}/far")
    place.write("configs/one.gin", b"x = 1")
    return place


def test_a_run_goes_there_and_is_gone_on_with_elsewhere(place: UrlPlace, tmp_path: Path) -> None:
    store = tmp_path / "mirror"
    with working_copy(order(store), place, "engine/one/log-1.txt") as copy:
        (folder,) = copy.folders
        assert not folder.is_relative_to(store)
        assert copy.argument(str(store / "runs" / "one")) == str(folder)
        assert copy.argument("relative") == "relative" and copy.argument("/elsewhere/file") == "/elsewhere/file"
        assert Path(copy.argument(str(store / "configs" / "one.gin"))).read_text() == "x = 1"
        copy.log.write_text("it began\n")
        copy.bring()  # there is no run yet
        assert place.names("runs") == []
        first = write_run(folder, 1)
        copy.bring()
        assert place.read("engine/one/log-1.txt") == b"it began\n"
        with (folder / "metrics.jsonl").open("a") as file:
            file.write("more\n")
        copy.bring()  # no new checkpoint: nothing is sent
        assert place.read("runs/one/metrics.jsonl") == b"step 1\n"
        first.unlink()
        second = write_run(folder, 2)
        copy.bring()
        assert place.names("runs/one") == [
            f"checkpoints/{second.name}",
            "config.gin",
            "metrics.jsonl",
        ]
    assert not folder.exists()  # nothing stays on the machine
    with working_copy(order(store), place, "engine/one/log-2.txt") as copy:
        (folder,) = copy.folders
        assert (folder / "checkpoints" / second.name).read_bytes() == b"step 2"
        assert (folder / "metrics.jsonl").read_text() == "step 1\nmore\nstep 2\n"
        (folder / "summary.json").write_text("{}")
        copy.bring_all()
        assert "summary.json" in place.names("runs/one")


def test_the_order_of_sending_leaves_something_to_go_on_from_at_every_moment(place: UrlPlace, tmp_path: Path) -> None:
    """Cut off after any number of files: the newest checkpoint there has records at least as long as its own."""
    for cut in range(12):
        place = UrlPlace(f"file://{tmp_path}/far-{cut}")
        place.write("configs/one.gin", b"x = 1")
        with working_copy(order(tmp_path / "mirror"), place, "log") as copy:
            assert isinstance(copy, Copies)
            (folder,) = copy.folders
            first = write_run(folder, 1)
            copy.bring_all()
            first.unlink()
            second = write_run(folder, 2)
            (folder / "summary.json").write_text("{}")
            _cut_off(place, cut)
            copy.bring()
        names = place.names("runs/one")
        steps = [name for name in names if name.startswith("checkpoints/")]
        assert steps, "no checkpoint is left"
        if f"checkpoints/{second.name}" in names:
            assert place.read("runs/one/metrics.jsonl") == b"step 1\nstep 2\n"
        if "summary.json" in names:
            assert f"checkpoints/{second.name}" in names


def _cut_off(place: UrlPlace, after: int) -> None:
    """Let the network fail after so many operations."""
    left = [after]

    def counted(real):  # type: ignore[no-untyped-def]
        def call(*arguments):  # type: ignore[no-untyped-def]
            left[0] -= 1
            if left[0] < 0:
                raise OSError("the network is gone")
            return real(*arguments)

        return call

    place.upload = counted(place.upload)  # type: ignore[method-assign]
    place.remove = counted(place.remove)  # type: ignore[method-assign]


def test_a_network_that_fails_for_a_while_costs_nothing(
    place: UrlPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoo.engines.working_copy.PAUSE", 0.0)
    with working_copy(order(tmp_path / "mirror"), place, "log") as copy:
        write_run(copy.folders[0], 1)
        real, failures = place.upload, [1, 1]

        def upload(file: Path, name: str) -> None:
            if failures:
                failures.pop()
                raise OSError("the network is gone")
            real(file, name)

        place.upload = upload  # type: ignore[method-assign]
        copy.bring_all()
        assert "metrics.jsonl" in place.names("runs/one")
        place.upload = lambda file, name: (_ for _ in ()).throw(OSError("gone"))  # type: ignore[method-assign]
        write_run(copy.folders[0], 2)
        with pytest.raises(OSError):
            copy.bring_all()


def test_a_shared_folder_is_used_as_it_is(tmp_path: Path) -> None:
    with working_copy(order(tmp_path), FolderPlace(tmp_path), "engine/one/log-1.txt") as copy:
        assert copy.folders == [tmp_path / "runs" / "one"] and copy.log == tmp_path / "engine" / "one" / "log-1.txt"
        assert copy.argument(str(tmp_path / "runs" / "one")) == str(tmp_path / "runs" / "one")
        copy.bring()
        copy.bring_all()
