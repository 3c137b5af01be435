"""A configuration as a whole: its text, building with it, what was used."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import gin
import gin.config
import pytest
from helpers.fake_distributions import Site, forget_modules
from helpers.fake_project import ENTRIES, METHODS, load

from zoo.config import gin_files
from zoo.config.gin_files import Reference
from zoo.config.load import load_config
from zoo.errors import ConfigError, PluginError, ZooError


@pytest.mark.usefixtures("project")
def test_get_gives_bound_values_and_defaults() -> None:
    loaded = load("model.depth = 3\nmodel.residual = @residual.gate\nresidual.gate.gain = 2")
    assert loaded.get("model.depth") == 3
    assert loaded.get("model.dropout") == 0.0
    assert loaded.get("model.residual") == Reference("residual.gate")
    assert loaded.get("residual.gate.gain") == 2.0
    assert loaded.get("residual.gate.first") == "standard"
    with pytest.raises(ConfigError, match=r"no value for model.deph \(nearest: model.depth"):
        loaded.get("model.deph")


# --- the complete text


ODD = """
model.depth = 10_0
model.dropout = 0.1e-6
model.scales = (1e999, -1e999, -0.0, 3.0000000000000004)
model.names = ["quote's", 'line\\nbreak', 'tab\\t"both" \\'kinds\\'', 'üñí\\u2028 \\ud800', '']
model.table = {}
model.anything = (None, True, -3, (), (1,), [], {'a': (@residual.gate,), 2: b'x'}, '%no_macro', '@no.reference')
model.residual = @residual.gate
residual.gate.n = None
residual.gate.gain = 3
data.corpus = '''long
text'''
"""


@pytest.mark.usefixtures("project")
def test_the_text_loads_to_itself_with_the_same_values() -> None:
    first = load(ODD)
    Path("run").mkdir()
    Path("run/config.gin").write_text(first.text, encoding="utf-8")
    second = load_config(["run/config.gin"])
    assert second.text == first.text
    assert second.fingerprint() == first.fingerprint()
    assert repr(second.values) == repr(first.values)
    assert second.warnings == ()
    assert repr(second.values["model.scales"]) == "(inf, -inf, -0.0, 3.0000000000000004)"
    assert second.values["data.corpus"] == "long\ntext"
    assert repr(second.build("model", 3).scales) == "(inf, -inf, -0.0, 3.0000000000000004)"


@pytest.mark.usefixtures("project")
def test_the_text_does_not_depend_on_how_it_was_said() -> None:
    one = load("model.depth = 1\nmodel.dropout = 0\nmodel.scales = [1]")
    two = load("S = (1.0,)\nmodel:\n  dropout = 0.0\n  scales = %S\n", "model.depth=1", "train.steps = 10")
    three = load("model.depth = 2\nmodel.dropout = 0\nmodel.scales = [1]")
    assert one.text == two.text and one.fingerprint() == two.fingerprint()
    assert one.fingerprint() != three.fingerprint()


@pytest.mark.usefixtures("project")
def test_a_configuration_can_be_pickled_and_holds_no_gin() -> None:
    loaded = load(ODD)
    data = pickle.dumps(loaded)
    assert pickle.loads(data).text == loaded.text
    assert b"gin.config" not in data


# --- building with it


@pytest.mark.usefixtures("project")
def test_methods_are_built_with_their_settings_and_stay_what_they_are() -> None:
    loaded = load("""
        model.depth = 1
        model.residual = @residual.gate
        residual.gate.gain = 2
        model.score_mixing = @score_mixing.blend
        score_mixing.blend.gain = 3
    """)
    gate, blend = loaded.build("model", 7).extensions
    import methods  # type: ignore[import-not-found]

    assert type(gate) is type(blend) is methods.Gate  # one class under two names, no subclass of Gin's
    assert (gate.layer, gate.gain, blend.gain, gate.first) == ("layer", 2.0, 3.0, "standard")
    assert type(pickle.loads(pickle.dumps(gate))) is type(copy.deepcopy(gate)) is methods.Gate
    assert methods.Gate("other").gain == 1.0  # called directly, Gin keeps out


@pytest.mark.usefixtures("project")
def test_a_preset_is_built_with_what_it_fixes_and_what_it_leaves_open() -> None:
    loaded = load("model.depth = 1\nmodel.residual = @residual.half\nresidual.half.first = 'zero'")
    (built,) = loaded.build("model", 7).extensions
    assert (built.gain, built.first) == (0.5, "zero")


@pytest.mark.usefixtures("project")
def test_an_error_while_building_keeps_its_words() -> None:
    loaded = load("model.depth = 1\nmodel.residual = @residual.failing")
    with pytest.raises(PluginError) as caught:
        loaded.build("model", 7)
    message = str(caught.value)
    line = 1 + METHODS[: METHODS.index("def failing")].count("\n")
    assert message.startswith(
        "residual.failing of some-methods 0.7 cannot be built: ValueError: gain and layer do not go together ("
    )
    assert message.endswith(f"methods.py:{line})") and "In call to configurable" not in message
    assert type(caught.value) is PluginError and isinstance(caught.value.__cause__, ValueError)

    with pytest.raises(ZooError) as caught_too:
        load("model.depth = 1\nmodel.residual = @residual.refusing").build("model", 7)
    assert str(caught_too.value) == "refusing: a sentence of its own"


@pytest.mark.usefixtures("project")
def test_loading_again_starts_anew_also_with_other_plugins(tmp_path: Path) -> None:
    first = load("model.depth = 1\nmodel.width = 3\nmodel.residual = @residual.gate")
    assert first.build("model", 7).width == 3
    second = load("model.depth = 2\nmodel.residual = @residual.gate")
    built = second.build("model", 7)
    assert (built.depth, built.width) == (2, None)
    with pytest.raises(RuntimeError, match="another configuration was loaded since"):
        first.build("model", 7)

    changed = METHODS.replace("class Gate:", "class Old: pass\n\n\nclass Gate:").replace('"""A gate."""', "new = True")
    forget_modules(tmp_path / "site")
    Site(tmp_path / "site").install("some-methods", ENTRIES, {"methods.py": changed + "\n# longer\n"}, version="0.7")
    (extension,) = load("model.depth = 2\nmodel.residual = @residual.gate").build("model", 7).extensions
    assert extension.new

    with pytest.raises(ConfigError):
        load("model.depth = 'x'")
    assert gin.config._CONFIG == {}  # a failure leaves nothing behind


# --- what was used


@pytest.mark.usefixtures("project")
def test_a_binding_that_nothing_used_is_told() -> None:
    loaded = load("""
        model.depth = 1
        model.vocab_size = 3
        model.residual = @residual.gate
        residual.gate.gain = 2
        residual.half.first = 'zero'
        data.length = 8
    """)
    loaded.build("model", 7)
    loaded.build("data")
    assert loaded.unused() == [
        "a.gin:3: model.vocab_size = 3 was never used",
        "a.gin:6: residual.half.first = 'zero' was never used: residual.half is in no slot",
    ]


@pytest.mark.usefixtures("project")
def test_the_operative_configuration_holds_defaults_and_loads() -> None:
    loaded = load("model.depth = 1\nmodel.residual = @residual.gate\nresidual.gate.gain = 2\nmodel.scales = [1]")
    assert loaded.operative() == ""
    loaded.build("model", 7)
    operative = loaded.operative()
    for line in ("model.depth = 1", "model.dropout = 0.0", "model.residual = @residual.gate", "model.scales = (1.0,)",
                 "residual.gate.first = 'standard'", "residual.gate.gain = 2.0"):  # fmt: skip
        assert line in operative.splitlines()
    assert "data." not in operative and "vocab_size" not in operative
    again = load(operative)
    assert again.get("residual.gate.gain") == 2.0


def test_gins_parser_is_the_one_that_was_read() -> None:
    """The private names that zoo.config.load leans on."""
    assert hasattr(gin.config, "_REGISTRY") and hasattr(gin.config, "_OPERATIVE_CONFIG")
    assert gin.config.Configurable._fields[:2] == ("wrapper", "wrapped")
    assert gin_files.config_parser.Location._fields[1] == "line_num"


def test_what_a_file_binds_for_benches_is_no_mistake_of_a_run() -> None:
    config = load_config(["recipes/upcycling"], ["model.start_from = None", "suite.seeds = 2"])
    unused = config.unused()
    assert "suite.baselines" in config.places and not any("suite.baselines" in each for each in unused)
    assert any(each.startswith("--set") and "suite.seeds = 2 was never used" in each for each in unused)
