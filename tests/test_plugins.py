from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import Site, forget_modules

from zoo import plugin_states, plugins
from zoo.cli import plugins as cli
from zoo.errors import PluginError, nearest
from zoo.plugins import REQUIRED, Found, Registry, Setting

FINE = "def build(layer, gain: float = 1.0): return ('built', layer, gain)\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The only place where plugins are installed, and a home of its own."""
    folder = tmp_path / "site"
    original = plugins.importlib.metadata.distributions
    monkeypatch.setattr(plugins.importlib.metadata, "distributions", lambda: original(path=[str(folder)]))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield Site(folder)
    forget_modules(folder)


def _found(value: str = "fine:build", slot: str = "residual", id: str = "fine") -> Found:
    return Found(slot, id, value, "a-method", "1.0")


# --- find


def test_an_entry_point_is_found_without_importing_it(site: Site) -> None:
    site.install("a-method", {"residual": {"fine": "fine:build"}}, {"fine.py": "raise SystemError"}, version="1.2")
    assert plugins.find() == [Found("residual", "fine", "fine:build", "a-method", "1.2")]
    assert "fine" not in sys.modules


def test_methods_are_sorted_by_slot_and_id(site: Site) -> None:
    site.install("one", {"temporal_mixing": {"a": "m:a"}, "residual": {"c": "m:c", "b": "m:b"}})
    site.install("two", {"score_mixing": {"d": "n:d"}, "elsewhere": {"e": "n:e"}})
    assert [f.name for f in plugins.find()] == ["residual.b", "residual.c", "score_mixing.d", "temporal_mixing.a"]


def test_one_project_seen_twice_is_one(site: Site) -> None:
    entries = {"residual": {"fine": "fine:build"}}
    site.install("A.Method", entries, {"fine.py": FINE})
    site.install("a-method", entries, kind="egg-info")
    assert len(plugins.find()) == 1
    assert plugins.registry().get("residual", "fine").factory


def test_mangled_metadata_hides_only_itself(site: Site) -> None:
    site.install("a-method", {"residual": {"fine": "fine:build"}})
    site.install("mangled", {})
    (site.folder / "mangled-1.0.dist-info/entry_points.txt").write_text("[zoo.residual]\nthis is no entry\n")
    assert [f.id for f in plugins.find()] == ["fine"]


# --- load


def test_loading_gives_the_factory(site: Site) -> None:
    site.install("a-method", {}, {"pack/__init__.py": "", "pack/m.py": f"class Holder:\n    {FINE}"})
    loaded = plugins.load(_found("pack.m:Holder.build"))
    assert loaded.error is None and loaded.factory is not None
    assert loaded.factory("layer", gain=2.0) == ("built", "layer", 2.0)


@pytest.mark.parametrize(
    "code, told",
    [
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise ValueError('inside')", "ValueError: inside"),
        ("def f(:", "SyntaxError"),
        ("import sys; sys.exit('leaving')", "SystemExit: leaving"),
        ("class Odd(BaseException): pass\nraise Odd('odd')", "Odd: odd"),
        ("other = 1", "AttributeError: module 'bad' has no attribute 'build'"),
    ],
)
def test_a_plugin_that_fails_to_import_carries_its_traceback(site: Site, code: str, told: str) -> None:
    site.install("a-method", {}, {"bad.py": code})
    loaded = plugins.load(_found("bad:build"))
    assert loaded.factory is None
    assert loaded.error and told in loaded.error
    assert loaded.traceback and "Traceback" in loaded.traceback and told in loaded.traceback


def test_ctrl_c_while_importing_is_not_the_plugins_fault(site: Site) -> None:
    site.install("a-method", {}, {"slow.py": "raise KeyboardInterrupt"})
    with pytest.raises(KeyboardInterrupt):
        plugins.load(_found("slow:build"))


@pytest.mark.parametrize(
    "code, told",
    [
        ("build = 3", "not callable: it is int"),
        ("def build(layer, *args): pass", "*args"),
        ("def build(layer, **settings): pass", "**settings, which would swallow misspelt settings"),
        ("def build(): pass", "no positional parameter for the layer"),
        ("def build(*, gain=1): pass", "no positional parameter for the layer"),
        ("def build(layer, gain, /): pass", "gain by position only"),
        ("class build:\n    def __init__(self, *args): pass", "*args"),
        ("def build(layer): pass\nbuild.__signature__ = 3", "no signature"),
    ],
)
def test_what_cannot_be_called_with_a_layer_and_settings_is_broken(site: Site, code: str, told: str) -> None:
    site.install("a-method", {}, {"odd.py": code})
    loaded = plugins.load(_found("odd:build"))
    assert loaded.factory is None and loaded.error and told in loaded.error


@pytest.mark.parametrize("value", ["", ":", "a b", "no.such.module:x", "fine:", "..fine:build"])
def test_an_entry_that_points_nowhere_is_broken(site: Site, value: str) -> None:
    site.install("a-method", {}, {"fine.py": FINE})
    assert plugins.load(_found(value)).error


@pytest.mark.parametrize("id", ["two words", "a-b", "1st", "a.b", "é", "", "class"])
def test_an_id_is_an_identifier(id: str) -> None:
    loaded = plugins.load(_found(id=id))
    assert loaded.error and "cannot be an id" in loaded.error


# --- classify


def test_a_broken_plugin_hurts_nobody_until_it_is_named(site: Site) -> None:
    site.install("a-method", {"residual": {"fine": "fine:build"}}, {"fine.py": FINE})
    site.install("bad-method", {"residual": {"bad": "bad:build"}}, {"bad.py": "import no_such_thing"}, version="0.3")
    registry = plugins.registry()
    assert registry.get("residual", "fine").factory
    with pytest.raises(PluginError) as caught:
        registry.get("residual", "bad")
    message = str(caught.value)
    assert "residual.bad of bad-method 0.3 is broken: ModuleNotFoundError" in message
    assert "Traceback" in message and "bad.py" in message


def test_two_distributions_with_one_id_are_both_named(site: Site) -> None:
    site.install("a-method", {"residual": {"same": "a:build", "own": "fine:build"}}, {"fine.py": FINE})
    site.install("b-method", {"residual": {"same": "b:build"}}, version="2.0")
    registry = plugins.registry()
    assert registry.get("residual", "own").factory
    with pytest.raises(PluginError, match=r"residual.same of a-method 1.0 \(a:build\) and .* b-method 2.0 \(b:build\)"):
        registry.get("residual", "same")


def test_one_id_in_two_slots_is_told(site: Site) -> None:
    site.install("a-method", {"residual": {"same": "a:build"}})
    site.install("b-method", {"score_mixing": {"same": "b:build"}})
    with pytest.raises(PluginError, match="residual.same of a-method 1.0 .* score_mixing.same of b-method 1.0"):
        plugins.registry().get("score_mixing", "same")


def test_an_unknown_id_suggests_the_nearest() -> None:
    registry = Registry([_found(id="gated"), _found(id="gates"), _found(slot="score_mixing", id="other")])
    with pytest.raises(PluginError, match=r"no residual method gatd \(nearest: gated, gates\)"):
        registry.get("residual", "gatd")
    with pytest.raises(PluginError, match=r"nearest: score_mixing.other"):
        registry.get("score_mixng", "othr")
    with pytest.raises(
        PluginError, match="other is a score_mixing method, not a residual method: write score_mixing.other"
    ):
        registry.get("residual", "other")


def test_nearest_does_not_mind_case_and_dashes() -> None:
    assert nearest("Sizes-Tiny", ["sizes_tiny", "else"]) == " (nearest: sizes_tiny)"
    assert nearest("-a-", ["_a_"]) == " (nearest: _a_)"
    assert nearest("xyz", ["sizes_tiny"]) == ""


# --- what a plugin says about itself


def test_settings_of_functions_classes_and_written_annotations(site: Site) -> None:
    code = (
        "from __future__ import annotations\n"
        "from typing import Literal, TYPE_CHECKING\n"
        "if TYPE_CHECKING: from x import Hidden\n"
        "class Build:\n"
        "    def __init__(self, layer, first: Literal['a', 'b'] = 'a', *, gain: float | None = None, n: int): pass\n"
        "def build(layer: Hidden, hidden: Hidden = None, plain=3): pass\n"
    )
    site.install("a-method", {}, {"said.py": code})
    import typing

    build = plugins.load(_found("said:Build")).factory
    assert build and plugins.settings(build) == [
        Setting("first", typing.Literal["a", "b"], "a"),
        Setting("gain", typing.Optional[float], None),  # noqa: UP045 - how get_type_hints says it
        Setting("n", int, REQUIRED),
    ]
    build = plugins.load(_found("said:build")).factory
    assert build and [(s.name, s.annotation, s.default) for s in plugins.settings(build)] == [
        ("hidden", "Hidden", None),
        ("plain", REQUIRED, 3),
    ]


def test_card_gin_file_and_origin_are_found_without_an_import(site: Site) -> None:
    files = {
        "outer/__init__.py": "raise SystemError",
        "outer/inner/__init__.py": "",
        "outer/inner/m.py": "",
        "outer/cards/near.md": "outer",
        "outer/inner/cards/near.md": "inner",
        "outer/gin/far.gin": "",
    }
    site.install("a-method", {}, files)
    near, far = _found("outer.inner.m:build", id="near"), _found("outer.inner:build", id="far")
    assert plugins.card(near) == site.folder / "outer/inner/cards/near.md"
    assert plugins.card(far) is None
    assert plugins.gin_file(far) == site.folder / "outer/gin/far.gin"
    assert plugins.gin_file(near) is None
    assert plugins.origin(near) == site.folder / "outer/inner/m.py"
    assert plugins.origin(far) == site.folder / "outer/inner/__init__.py"
    assert plugins.packages(_found("no_such_package.m:x")) == []
    assert "outer" not in sys.modules


def test_the_projects_gin_folder_in_a_checkout_and_in_a_wheel(tmp_path: Path) -> None:
    checkout, wheel = tmp_path / "checkout", tmp_path / "site-packages"
    for folder in (checkout / "gin", wheel / "gin", wheel / "zoo_gin"):
        folder.mkdir(parents=True)
    for folder in (checkout / "gin", wheel / "zoo_gin"):
        (folder / "defaults.gin").touch()
    assert plugins.project_gin(checkout) == [checkout / "gin"]
    assert plugins.project_gin(wheel) == [wheel / "zoo_gin"]  # gin/ beside it is gin-config's code
    assert plugins.project_gin(tmp_path) == []
    assert [folder.name for folder in plugins.project_gin()] == ["gin"]


# --- states: what the listing remembers


def test_states_are_remembered_until_the_code_changes(site: Site, tmp_path: Path) -> None:
    import zoo.model  # noqa: F401  # what it pulls in adds a folder of its own to sys.path, once

    count = f"import pathlib; pathlib.Path({str(tmp_path / 'count')!r}).open('a').write('x')\n"
    site.install("a-method", {"residual": {"fine": "pack:build"}}, {"pack/__init__.py": count + FINE})

    def problems(fresh: bool = False) -> list[str | None]:
        forget_modules(site.folder)
        return [state.problem for state in plugin_states.states(plugins.registry(), fresh)]

    def imports() -> int:
        return len((tmp_path / "count").read_text())

    assert problems() == [None] and imports() == 1
    assert problems() == [None] and imports() == 1
    assert problems(fresh=True) == [None] and imports() == 2
    (site.folder / "pack/__init__.py").write_text(count + "raise ValueError('now broken')\n")
    assert problems() == ["ValueError: now broken"] and imports() == 3
    assert problems() == ["ValueError: now broken"] and imports() == 3
    site.install("its-dependency", {})  # something was installed: perhaps what it lacked
    assert problems() == ["ValueError: now broken"] and imports() == 4


@pytest.mark.parametrize("memory", ["", "[1]", '{"evidence": 1}', "\0", '{"evidence": "x", "problems": 3}'])
def test_a_memory_that_makes_no_sense_is_ignored(site: Site, memory: str) -> None:
    site.install("a-method", {"residual": {"fine": "fine:build"}}, {"fine.py": FINE})
    registry = plugins.registry()
    plugin_states.states(registry)
    (file,) = plugin_states._memory().parent.iterdir()
    file.write_text(memory.replace('"x"', json.dumps(plugin_states._evidence(registry))))
    assert [state.problem for state in plugin_states.states(registry)] == [None]


def test_a_cache_that_cannot_be_written_does_no_harm(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    site.install("a-method", {"residual": {"fine": "fine:build"}}, {"fine.py": FINE})
    assert [state.problem for state in plugin_states.states(plugins.registry())] == [None]


# --- the command


def _fill(site: Site) -> None:
    files = {
        "pack/__init__.py": "",
        "pack/m.py": "print('noise')\n" + FINE,
        "pack/cards/fine.md": "# Fine\nIt is fine.\n",
        "pack/gin/fine.gin": "model.residual = @residual.fine\n",
        "bad.py": "import no_such_thing",
    }
    site.install("a-method", {"residual": {"fine": "pack.m:build"}, "score_mixing": {"bad": "bad:build"}}, files)


def test_the_list(site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(site)
    monkeypatch.chdir(site.folder)
    assert cli.main([]) == 0
    out, err = capsys.readouterr()
    header, fine, bad, *_ = out.splitlines()
    assert header.split() == ["id", "slot", "distribution", "version", "origin", "Gin", "file", "card"] + [
        "parameters",
        "state",
    ]
    assert fine.split() == [
        "fine",
        "residual",
        "a-method",
        "1.0",
        "pack/m.py",
        "pack/gin/fine.gin",
        "pack/cards/fine.md",
        "-",  # what this one builds is no extension
        "ok",
    ]
    assert bad.split(maxsplit=8)[-1] == "broken: ModuleNotFoundError: No module named 'no_such_thing'"
    assert header.index("state") == fine.index("ok") == bad.index("broken")
    assert "noise" in err


def test_a_terminal_gets_a_table(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(site)
    monkeypatch.chdir(site.folder)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    assert "pack/gin/fine.gin" in out and "broken: ModuleNotFoundError" in out


def test_the_list_names_both_claims_to_an_id(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    _fill(site)
    site.install("thief", {"residual": {"fine": "pack.m:build"}}, version="2.0")
    assert cli.main([]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fine ")]
    assert len(lines) == 2
    assert all("broken: the id fine is claimed more than once" in line and "thief 2.0" in line for line in lines)


def test_an_empty_list_says_so(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "No methods are installed" in capsys.readouterr().out


@pytest.mark.parametrize("id", ["fine", "residual.fine"])
def test_show(site: Site, capsys: pytest.CaptureFixture[str], id: str) -> None:
    _fill(site)
    assert cli.main(["show", id]) == 0
    out = capsys.readouterr().out
    for line in (
        "residual.fine of a-method 1.0 (pack.m:build)",
        "It is fine.",
        "  gain  float; default 1.0",
        "  model.residual = @residual.fine",
        "  residual.fine.gain = 1.0",
    ):
        assert line in out.splitlines()


@pytest.mark.parametrize(
    "id, told",
    [
        ("fin", "there is no method fin (nearest: fine)"),
        ("bad", "score_mixing.bad of a-method 1.0 is broken: ModuleNotFoundError"),
        ("residual.bad", "bad is a score_mixing method"),
    ],
)
def test_show_what_cannot_be_shown(site: Site, capsys: pytest.CaptureFixture[str], id: str, told: str) -> None:
    _fill(site)
    assert cli.main(["show", id]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"zoo-plugins: {told}")


def _run(*arguments: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], float]:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **environment}, timeout=60
    )
    return done, time.perf_counter() - start


def test_nothing_here_imports_torch_by_itself() -> None:
    code = (
        "import sys; import zoo.plugins, zoo.config, zoo.cli.plugins, zoo.plugin_states; zoo.plugins.find();"
        " sys.exit('torch' in sys.modules)"
    )
    assert _run("-c", code)[0].returncode == 0


def test_the_list_is_quick_once_it_has_seen_the_plugins(tmp_path: Path) -> None:
    site = Site(tmp_path / "site").install(
        "a-method", {"residual": {"with_torch": "heavy:build"}}, {"heavy.py": "import torch\n" + FINE}
    )
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(site.folder)}
    first, _ = _run("-m", "zoo.cli.plugins", **environment)
    assert first.returncode == 0, first.stderr
    (line,) = [line for line in first.stdout.splitlines() if line.startswith("with_torch ")]
    assert line.endswith(" ok")
    again, seconds = _run("-m", "zoo.cli.plugins", **environment)
    assert again.stdout == first.stdout
    assert seconds < 2, f"the second listing took {seconds:.1f} s"

    reading, writing = os.pipe()  # a reader that has seen enough is no error
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "zoo.cli.plugins"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        timeout=60,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
