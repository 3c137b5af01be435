"""What is wrong with a configuration is told, with file, line and the nearest names."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from helpers.fake_distributions import Site
from helpers.fake_project import error_of, load, write

from zoo.config import values
from zoo.config.gin_files import Reference
from zoo.config.load import load_config
from zoo.config.values import Mismatch
from zoo.errors import ConfigError, PluginError

# --- names


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "text, told",
    [
        ("model.dept = 1", "a.gin:1: model has no setting dept (nearest: depth)"),
        ("model.seed = 1", "a.gin:1: model has no setting seed (nearest: train.seed)"),
        ("data.qqq = 1", "a.gin:1: data has no setting qqq (it has: corpus, length)"),
        ("modle.depth = 1", "a.gin:1: there is nothing called modle to configure (nearest: model)"),
        ("zoo.model.depth = 1", "nearest: model"),
        ("gin.macro.value = 1", "there is nothing called gin.macro to configure"),
        ("residual.gaet.gain = 1.0", "a.gin:1: there is no residual method gaet (nearest: gate)"),
        ("residual.gate.gian = 1.0", "a.gin:1: residual.gate has no setting gian (nearest: gain)"),
        ("residual.gate.layer = 1", "residual.gate has no setting layer"),
        ("residual.half.gain = 1.0", "residual.half has no setting gain"),
        ("gate.gain = 1.0", "a.gin:1: gate is not qualified: write residual.gate"),
        ("residual.gain = 1.0", "a.gin:1: residual is a slot: write residual.ID.SETTING = VALUE"),
        ("model.residual.gain = 1.0", "a.gin:1: model.residual is a slot: write residual.ID.SETTING"),
        ("score_mixing.gate.gain = 1.0", "gate is a residual method, not a score_mixing method: write residual.gate"),
        ("model.residual = @gate", "a.gin:1: gate is not qualified: write residual.gate"),
        ("model.residual = @residual.gat", "a.gin:1: there is no residual method gat (nearest: gate)"),
        ("model.residual = @score_mixing.gate", "gate is a residual method, not a score_mixing method"),
        ("model.score_mixing = @residual.gate",
         "gate is a residual method and cannot fill model.score_mixing: write model.residual = @residual.gate"),
        ("model.residual = @residual.gate()", "would be called while the file is read: write @residual.gate"),
        ("model.residual = @train", "@train is no method and cannot fill model.residual"),
        ("model.residual = 'gate'", "must be a method (@residual.ID) or None, not 'gate': write @residual.gate"),
        ("model.residual = [@residual.gate]", "must be a method"),
        ("model.temporal_mixing = @temporal_mixing.x", "there is no temporal_mixing method x"),
        ("model.names = [@nothing]", "there is nothing called nothing"),
    ],
)  # fmt: skip
def test_unknown_names_are_told_with_file_line_and_the_nearest(text: str, told: str) -> None:
    assert told in error_of(text)


@pytest.mark.usefixtures("project")
def test_all_mistakes_are_told_together_in_order() -> None:
    lines = error_of("model.dept = 1\nmodel.width = 'x'\ntrian.lr = 1", "model.tied=1").splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["a.gin:1", "a.gin:3", "a.gin:2", "--set 'model.tied=1'"]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("text", ["model.residual = @residual.broken", "residual.broken.gain = 1.0"])
def test_a_broken_plugin_is_fatal_when_named_with_its_traceback(text: str) -> None:
    load("model.depth = 1\nmodel.residual = @residual.gate")  # unharmed
    with pytest.raises(PluginError) as caught:
        load(text)
    message = str(caught.value)
    assert message.startswith("a.gin:1: residual.broken of broken-method 1.0 is broken: ModuleNotFoundError")
    assert "Traceback" in message


@pytest.mark.usefixtures("project")
def test_only_named_plugins_are_imported(tmp_path: Path) -> None:
    mark = f"import pathlib; pathlib.Path({str(tmp_path / 'mark')!r}).touch()\ndef f(layer): return 1\n"
    Site(tmp_path / "site").install("shy-method", {"residual": {"shy": "shy:f"}}, {"shy.py": mark})
    load("model.depth = 1\nmodel.residual = @residual.gate")
    assert not (tmp_path / "mark").exists()
    load("model.depth = 1\nmodel.residual = @residual.shy")
    assert (tmp_path / "mark").exists()


@pytest.mark.usefixtures("project")
def test_duplicate_ids_are_fatal_when_named(tmp_path: Path) -> None:
    Site(tmp_path / "site").install("thief", {"residual": {"gate": "thief:f"}}, version="3.1")
    load("model.depth = 1\nmodel.residual = @residual.half")
    with pytest.raises(PluginError, match="a.gin:1: .* some-methods 0.7 .* thief 3.1"):
        load("model.residual = @residual.gate")


# --- values


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "binding, told",
    [
        ("model.depth = '8'", "model.depth must be int, not '8', which is str"),
        ("model.depth = 8.0", "model.depth must be int, not 8.0, which is float"),
        ("model.depth = True", "model.depth must be int, not True, which is bool"),
        ("model.depth = None", "model.depth must be int, not None"),
        ("model.width = 'x'", "model.width must be int or None, not 'x'"),
        ("model.dropout = True", "model.dropout must be float, not True"),
        ("model.tied = 1", "model.tied must be bool, not 1, which is int"),
        ("model.host = 'serial'", "model.host must be one of 'sequential', 'parallel', not 'serial'"),
        ("model.scales = 1.0", "model.scales must be a tuple, each float, not 1.0"),
        ("model.scales = (1.0, 'a')", "model.scales must be a tuple, each float, not (1.0, 'a'), which is tuple"),
        ("model.names = ['a', 1]", "model.names must be list[str] or None"),
        ("model.table = {'a': 'b'}", "model.table must be dict[str, float] or None"),
        ("model.initialise = 3", "model.initialise must be a reference (@name) or None, not 3"),
        ("data.corpus = 3", "data.corpus must be str, not 3"),
        ("data.corpus = @residual.gate", "data.corpus must be str, not @residual.gate, a reference"),
        ("residual.gate.first = 'none'", "residual.gate.first must be one of 'standard', 'zero', not 'none'"),
        ("residual.gate.n = 1.5", "residual.gate.n must be int or None, not 1.5"),
        ("X = 'a'\nmodel.depth = %X", "model.depth must be int, not 'a' (from %X), which is str"),
    ],
)
def test_mistyped_values_are_told_with_file_and_line(binding: str, told: str) -> None:
    line = 2 if "\n" in binding else 1
    assert f"a.gin:{line}: {told}" in error_of(binding)


@pytest.mark.usefixtures("project")
def test_a_choice_that_there_is_not_has_the_right_type() -> None:
    assert "'serial'" in (sentence := error_of("model.host = 'serial'")) and "which is str" not in sentence
    assert "not 3, which is int" in error_of("model.host = 3")


@pytest.mark.usefixtures("project")
def test_a_mistyped_value_is_told_even_where_a_later_one_replaces_it() -> None:
    assert "a.gin:1: model.depth must be int" in error_of("model.depth = 'x'", "model.depth=3")


@pytest.mark.usefixtures("project")
def test_a_value_becomes_what_the_annotation_says() -> None:
    loaded = load(
        "model.depth = 1\nmodel.dropout = 1\nmodel.scales = [1, 2]\nmodel.table = {'a': 2}\nmodel.anything = [1]",
        "model.implied=None",
    )
    built = loaded.build("model", 100)
    for got, wanted in {
        built.dropout: 1.0,
        built.scales: (1.0, 2.0),
        built.table["a"]: 2.0,
    }.items():
        assert repr(got) == repr(wanted)
    assert built.anything == [1]


Twice = collections.namedtuple("Twice", "a b")


@pytest.mark.parametrize(
    "value, wanted, result",
    [
        (1, int | float, 1),
        (1, float | int, 1),
        (1, float | None, 1.0),
        (True, bool | int, True),
        ("a", Literal["a", None], "a"),
        (None, Literal["a", None], None),
        ([1, "a"], tuple[float, str], (1.0, "a")),
        ((1,), Sequence[int], (1,)),
        ([1], list, [1]),
        ("folder/x", Path, "folder/x"),
        ({"a": [1]}, dict[str, list[float]], {"a": [1.0]}),
        (Reference("x"), Callable[[int], int], Reference("x")),
        (3, Any, 3),
        (3, "Unknown", 3),
    ],
)
def test_values_that_fit(value: Any, wanted: Any, result: Any) -> None:
    fitted = values.coerce(value, wanted)
    assert fitted == result and values.render(fitted) == values.render(result)


@pytest.mark.parametrize(
    "value, wanted",
    [
        (True, Literal[1]),
        ([1], tuple[int, int]),
        ((1, 2, 3), tuple[int, int]),
        (1, str | None),
        (10**400, float),
        ("a", list[str]),
        ({1: 1}, dict[str, int]),
        (3, Path),
        (Reference("x"), int),
        (3, Twice),
    ],
)
def test_values_that_do_not_fit(value: Any, wanted: Any) -> None:
    with pytest.raises(Mismatch):
        values.coerce(value, wanted)


# --- what replaces what


@pytest.mark.usefixtures("project")
def test_two_files_that_bind_one_slot_are_refused() -> None:
    one, two = (
        write("one.gin", "\nmodel.residual = @residual.gate"),
        write("two.gin", "model.residual = @residual.half"),
    )
    with pytest.raises(ConfigError) as caught:
        load_config([one, two])
    assert str(caught.value).startswith(
        "two.gin:1: model.residual = @residual.half is the second method for one slot: one.gin:2"
    )
    with pytest.raises(ConfigError, match="second method"):  # an include is no way around it
        load_config([write("run.gin", "include 'one.gin'\nmodel.residual = @residual.half")])
    assert load_config([one], ["model.residual=@residual.half", "model.depth=1"]).name == "half"
    assert load_config([one], ["model.residual=None", "model.depth=1"]).name == "baseline"
    assert load_config([one, one], ["model.depth=1"]).name == "gate"  # the same line twice


@pytest.mark.usefixtures("project")
def test_two_files_for_two_slots_compose() -> None:
    one, two = (
        write("one.gin", "model.residual = @residual.half"),
        write("two.gin", "model.score_mixing = @score_mixing.blend"),
    )
    loaded = load_config([two, one], ["model.depth=1"])
    assert loaded.name == "half+blend" and loaded.warnings == ()
    assert [(f.name, f.source) for f in loaded.plugins] == [
        ("residual.half", "some-methods 0.7"),
        ("score_mixing.blend", "some-methods 0.7"),
    ]


@pytest.mark.usefixtures("project")
def test_one_file_may_bind_several_slots() -> None:
    both = write("both.gin", "model.residual = @residual.gate\nmodel.head_mixing = @head_mixing.gate\n")
    loaded = load_config([both], ["model.depth=1"])
    assert loaded.name == "gate" and loaded.warnings == ()  # one method, which stands in two slots
    assert [f.name for f in loaded.plugins] == ["residual.gate", "head_mixing.gate"]


def test_a_value_that_a_second_file_replaces_is_told(project: Path) -> None:
    one, two = (
        write("one.gin", "model.depth = 1\nmodel.width = 4\nX = 1"),
        write("two.gin", "\nmodel.depth = 2\nmodel.width = 4"),
    )
    loaded = load_config([one, two], ["model.anything=%X"])
    assert loaded.warnings == ("two.gin:2: model.depth = 2 replaces 1 of one.gin:1",)
    assert loaded.get("model.depth") == 2
    (project / "gin/defaults.gin").write_text("train.steps = 1\nmodel.depth = 9")
    assert load_config([one], ["model.width=5", "model.width=6", "model.anything=%X"]).warnings == ()  # meant to be
    twice = load_config([write("twice.gin", "model.depth = 1\nmodel.depth = 2")])
    assert twice.warnings == ("twice.gin:2: model.depth = 2 replaces 1 of twice.gin:1",)
    (project / "gin/defaults.gin").write_text("train.steps = 1\ntrain.steps = 2")
    assert load_config([one], ["model.anything=%X"]).warnings[0].endswith("defaults.gin:1")  # a mistake in them is told


@pytest.mark.usefixtures("project")
def test_a_file_may_change_what_it_includes() -> None:
    write("base.gin", "model.depth = 1\nmodel.width = 1")
    assert load_config([write("run.gin", "include 'base.gin'\nmodel.depth = 2")]).warnings == ()
    before = load_config([write("run.gin", "model.depth = 2\ninclude 'base.gin'")])
    assert before.warnings == ("base.gin:1: model.depth = 1 replaces 2 of run.gin:1",)


# --- macros and required values


@pytest.mark.usefixtures("project")
def test_macros_are_resolved() -> None:
    loaded = load("DEPTH = 3\nSAME = %DEPTH\nmodel.depth = %SAME\nmodel.anything = [%DEPTH, {'a': %SAME}]", "DEPTH=5")
    assert loaded.text.splitlines()[1:3] == ["model.anything = [5, {'a': 5}]", "model.depth = 5"]
    assert loaded.warnings == ()


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "text, told",
    [
        ("D = 3\nmodel.depth = %d\nmodel.width=%D", "a.gin:2: model.depth: the macro %d is not defined (nearest: D)"),
        ("A = %B\nB = %A\nmodel.depth = %A", "a.gin:3: model.depth: the macro %A is defined by itself"),
        ("model.depth = %gin.REQUIRED", "a.gin:1: model.depth: must be given a value, in a Gin file or with --set"),
        ("A = %gin.REQUIRED\nmodel.depth = %A", "a.gin:2: model.depth: must be given a value"),
    ],
)  # fmt: skip
def test_what_is_left_open_is_told_with_file_and_line(text: str, told: str) -> None:
    assert told in error_of(text)
    if "REQUIRED" in text:
        assert load(text, "model.depth=3", "A=1", "model.anything=%A").get("model.depth") == 3


@pytest.mark.usefixtures("project")
def test_a_macro_that_nothing_uses_is_told() -> None:
    assert "--set 'depth=3': depth = 3 sets nothing" in error_of("model.depth = 1", "depth=3")
    assert "did you mean model.depth?" in error_of("model.depth = 1", "depth=3")
    assert load("depth = 3\nmodel.depth = 1").warnings[0].startswith("a.gin:1: depth = 3 sets nothing")


def test_what_must_be_set_is_asked_for(project: Path) -> None:
    (project / "gin/defaults.gin").write_text("")
    assert error_of("model.depth = 1") == "train.steps must be set, in a Gin file or with --set"
    assert "a.gin:1: residual.needy.must must be set" in error_of("model.residual = @residual.needy", "train.steps=1")
    assert load("residual.needy.must = 3\nmodel.residual = @residual.needy", "train.steps=1").name == "needy"
    with pytest.raises(ConfigError, match="^model.depth must be set, in a Gin file or with --set$"):
        load("train.steps = 1").build("model", 100)
    assert load("train.steps = 1").build("model", 100, depth=3).depth == 3


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "binding, told",
    [
        ("", "expected NAME=VALUE"),
        ("data.corpus=sotu", "strings need quotes"),
        ("model", "expected NAME=VALUE, such as train.steps=500"),
        ("train.steps", "expected NAME=VALUE, such as train.steps=500"),
    ],
)
def test_bindings_that_make_no_sense(binding: str, told: str) -> None:
    error = error_of("model.depth = 1", binding)
    assert error.startswith(f"--set {binding!r}: ") and told in error
