"""Default folders of runs: names that tell runs apart, and the same folder for the same configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zoo.config.configuration import Config
from zoo.config.load import load_config
from zoo.runs.folder_names import default_folder, default_name
from zoo.runs.summary import logdir

METHOD = "v1_m3"


def loaded(*bindings: str) -> Config:
    return load_config(["sizes/tiny", METHOD], bindings)


def test_the_name_is_that_of_the_files_and_the_values() -> None:
    assert re.fullmatch(r"tiny\+v1_m3-[0-9a-f]{8}", default_name(loaded()))
    assert default_name(loaded()) == default_name(loaded()) != default_name(loaded("train.steps=3"))
    assert default_name(load_config([], [])).startswith("baseline-")


@pytest.mark.parametrize(
    ("bindings", "shown"),
    [
        (["train.lr=0.01"], "lr=0.01"),
        (["train.steps=3", "train.lr=1e-4"], "lr=0.0001-steps=3"),
        (["data.corpus='/some/where/my texts; rm -rf.txt'"], "corpus=my_texts_rm_-rf.txt"),
        (["train.betas=(0.9, 0.99)"], "betas=0.9_0.99"),
        (["train.seed=2", "model.seed=3"], "model.seed=3-train.seed=2"),
        (["train.compile=True"], "compile=True"),
        (["data.corpus='Ärger/日本'"], "corpus="),
    ],
)
def test_bindings_leave_a_short_and_safe_trace(bindings: list[str], shown: str) -> None:
    name = default_name(loaded(*bindings))
    assert re.fullmatch(rf"tiny\+v1_m3-{re.escape(shown)}-[0-9a-f]{{8}}", name)
    assert re.fullmatch(r"[\w.+=-]+", name, re.ASCII)


def test_many_long_bindings_do_not_make_a_long_name() -> None:
    many = [
        f"data.corpus='{'x' * 500}'",
        "train.steps=30",
        "train.log_every=5",
        "train.validate_every=20",
        "train.lr=1",
    ]
    name = default_name(loaded(*many))
    assert len(name) < 100 and name.startswith("tiny+v1_m3-corpus=xxxx") and re.search(r"-\d_more-[0-9a-f]{8}$", name)


def test_the_order_of_bindings_does_not_matter() -> None:
    assert default_name(loaded("train.steps=3", "train.lr=1")) == default_name(loaded("train.lr=1", "train.steps=3"))


def test_a_run_whose_name_shows_no_bindings_is_found_again(tmp_path: Path) -> None:
    new = loaded("train.lr=0.01")
    assert default_folder(tmp_path, new) == tmp_path / default_name(new)
    assert default_folder(tmp_path / "missing", new).parent == tmp_path / "missing"
    (tmp_path / "other+tiny-00000000").mkdir()
    (tmp_path / f"other-{new.fingerprint()[:8]}").mkdir()  # the same values from another file: another run, as ever
    before = tmp_path / f"tiny+v1_m3-{new.fingerprint()[:8]}"
    assert default_folder(tmp_path, new) == tmp_path / default_name(new)
    before.mkdir()
    assert default_folder(tmp_path, new) == before
    (tmp_path / default_name(new)).mkdir()
    assert default_folder(tmp_path, new) == tmp_path / default_name(new)


def test_a_binding_that_says_what_holds_anyway_finds_the_same_run(tmp_path: Path) -> None:
    plain = loaded()
    (tmp_path / default_name(plain)).mkdir()
    same = loaded(f"train.lr={plain.get('train.lr')}")
    assert default_name(same) != default_name(plain)
    assert default_folder(tmp_path, same) == tmp_path / default_name(plain)


# --- what TensorBoard is to read


def run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.gin").touch()
    return folder


def test_tensorboard_reads_all_runs_so_that_each_has_its_name(tmp_path: Path) -> None:
    one = run(tmp_path / "runs" / "one")
    run(tmp_path / "runs" / "other")
    (tmp_path / "runs" / "notes.txt").touch()
    assert logdir(one) == tmp_path / "runs"


def test_tensorboard_reads_the_run_alone_where_other_things_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = run(tmp_path / "one")
    (tmp_path / "films").mkdir()
    assert logdir(one) == one
    monkeypatch.chdir(tmp_path)
    assert logdir(Path("one")) == Path("one")
    monkeypatch.setattr(Path, "iterdir", lambda self: (_ for _ in ()).throw(PermissionError()))
    assert logdir(one) == one
