"""Methods of a suite with settings of their own: parsed, checked, named, several times in one suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.bench.arms import Job
from zoo.bench.method_names import parse_name, split
from zoo.bench.run_folders import run_folder
from zoo.bench.selection import select_arms
from zoo.cli.bench import listed
from zoo.errors import ZooError

TINY = ["sizes/tiny"]
SUITE = ["suite.hosts = ('sequential',)", "suite.baselines = ('none', 'parameters')"]


def test_separators_in_brackets_and_quotes_separate_nothing() -> None:
    assert split("a+b(c='x+y', d=(1+2, [3]))+e", "+") == ["a", "b(c='x+y', d=(1+2, [3]))", "e"]
    assert listed("--methods", "wr_8_2(n=2, random=True), v1_m3+wr_8_2(n=6)") == (
        "wr_8_2(n=2, random=True)",
        "v1_m3+wr_8_2(n=6)",
    )


def test_a_name_without_settings_is_its_files() -> None:
    assert parse_name("v1_m3+wr_5") == (("v1_m3", "wr_5"), (), "")
    assert parse_name("") == ((), (), "")


def test_settings_are_those_of_the_files_method() -> None:
    named = parse_name("v1_m3 + wr_8_2( n=0x6 , train.lr=1e-2)")
    assert named.files == ("v1_m3", "wr_8_2")
    assert named.bindings == ("temporal_mixing.wr_8_2.n = 6", "train.lr = 0.01")
    assert named.label == "v1_m3+wr_8_2(n=6, train.lr=0.01)"


def test_one_method_stands_in_a_suite_several_times() -> None:
    names = ("wr_8_2(n=5)", "wr_8_2(n=6)", "wr_8_2")
    arms, _ = select_arms(None, TINY, SUITE, names)
    methods = [arm for arm in arms if arm.match == "method"]
    assert [arm.name for arm in methods] == list(names)
    assert [arm.values.get("temporal_mixing.wr_8_2.n") for arm in methods[:2]] == [5, 6]
    assert len({arm.id for arm in methods}) == 3
    assert [arm.name for arm in arms if arm.match == "none"] == ["baseline"]  # one for all of them
    assert all("temporal_mixing.wr_8_2.n" not in arm.values for arm in arms if arm.match != "method")


def test_a_name_leads_nowhere_else_as_a_path() -> None:
    (arm,) = [a for a in select_arms(None, TINY, SUITE, ("wr_8_2(n=6)",))[0] if a.match == "method"]
    folder = run_folder(Path("store"), Job(arm, 1, 1.0))
    assert folder.parent == Path("store/runs")
    assert not set("()=/ '") & set(folder.name) and folder.name.startswith("wr_8_2_n_6")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("wr_8_2(m=6)", r"wr_8_2\(m=6\): .*temporal_mixing\.wr_8_2 has no setting m"),
        ("wr_8_2(n='six')", r"temporal_mixing\.wr_8_2\.n must be int"),
        ("wr_8_2(n=six)", r"'six' is not a value"),
        ("wr_8_2(6)", r"'6' is no setting of wr_8_2: write setting=value"),
        ("wr_8_2(n=6", r"is no method: write FILE, or FILE\(setting=value"),
        ("wr_8_2(n=6)(n=7)", r"is no setting|cannot be parsed|is not a value"),
        ("wr_8_2(n=6, n=7)", r"sets one thing twice"),
        ("sizes/tiny(n=6)", r"sizes/tiny names no method that could have a setting n"),
        ("wr_8_2(n=@residual.v1_m3())", r"."),
        ("wr_8_2(n=__import__('os'))", r"is not a value|cannot be parsed"),
        ("wr_8_2(n=6\ntrain.lr = 9)", r"."),
    ],
)
def test_what_cannot_be_parsed_or_does_not_fit_gets_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ZooError, match=sentence):
        select_arms(None, TINY, SUITE, (name,))
