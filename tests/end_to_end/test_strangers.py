"""Someone else's method: written with `zoo-plugins new`, built, installed with pip, used by name, removed again."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers import tiny_training
from helpers.fake_distributions import Site, forget_modules
from helpers.fresh_environment import Environment

import zoo
from zoo.catalogue import scaffold
from zoo.cli import plugins as cli
from zoo.config.gin_bridge import reset_config
from zoo.config.load import load_config
from zoo.errors import ZooError
from zoo.plugins import api_version, finder, loader, registry, resources, settings as settings_module
from zoo.plugins.source_hash import hash_of_tree
from zoo.slots import SLOTS
from zoo.testing import properties

SHORT = ["--gin", "sizes/tiny", "--set", "train.steps=4", "train.validate_every=2", "train.save_every=4"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"data.corpus='{tiny_training.write_corpus(tmp_path_factory.mktemp('corpus'))}'"


# --- zoo-plugins new


@pytest.mark.parametrize("slot", SLOTS)
def test_a_new_project_is_complete(slot: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new", "my-own.method", "--slot", slot, "--into", str(tmp_path)]) == 0
    folder = tmp_path / "my-own.method"
    assert f"pip install -e {folder}" in capsys.readouterr().out
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "pyproject.toml", "README.md", "tests/test_my_own_method.py", "my_own_method/__init__.py",
        "my_own_method/method.py", "my_own_method/gin/my_own_method.gin", "my_own_method/cards/my_own_method.md",
    }  # fmt: skip
    for name in files:
        text = (folder / name).read_text("utf-8")
        assert "$" not in text and all(len(line) <= 120 for line in text.splitlines())
    assert len((folder / "tests/test_my_own_method.py").read_text().splitlines()) == 3
    module = ast.parse((folder / "my_own_method/method.py").read_text("utf-8"))
    assert "MyOwnMethod" in {node.name for node in module.body if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize("slot", SLOTS)
def test_the_worked_example_conforms(slot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, from the source; with pip and pytest below."""
    torch.set_num_threads(1)
    id = f"own_{slot}"  # torch's compiler remembers modules by their names
    folder = scaffold.new(id, slot, tmp_path)
    monkeypatch.syspath_prepend(str(folder))
    name = "".join(part.capitalize() for part in id.split("_"))
    found = finder.MethodEntry(slot, id, f"{id}.method:{name}", id, "0.1.0")
    before = finder.find_methods()
    monkeypatch.setattr(registry, "find_methods", lambda: [*before, found])
    try:
        assert cli.main(["check", id]) == 0
        loaded = load_config([id])
        assert loaded.plugins == (found,)
        assert resources.card_file(found) == folder / f"{id}/cards/{id}.md"
        settings = {s.name for s in settings_module.settings_of(registry.installed().get(slot, id).factory)}
        assert {key.rpartition(".")[2] for key in loaded.values if key.startswith(found.name)} == settings
    finally:
        reset_config()
        forget_modules(folder)


@pytest.mark.parametrize(
    ("name", "slot", "told"),
    [
        ("my method", "residual", "'my method' cannot be a name: use letters, digits and hyphens"),
        ("2nd", "residual", "cannot be a name"),
        ("-x", "residual", "cannot be a name"),
        ("../up", "residual", "cannot be a name"),
        ("class", "residual", "class is a word of Python's"),
        ("wr-1", "residual", "the id wr_1 is taken: temporal_mixing.wr_1 of transformer-zoo"),
        ("json", "residual", "a module json is installed already"),
        ("my-method", "residul", "there is no slot residul (nearest: residual)"),
    ],
)
def test_a_bad_name_is_refused(
    name: str, slot: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["new", f"--slot={slot}", f"--into={tmp_path}", "--", name]) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "my-method").mkdir()
    with pytest.raises(ZooError, match="my-method exists already"):
        scaffold.new("my-method", "residual", tmp_path)
    with pytest.raises(ZooError, match="is not a folder"):
        scaffold.new("my-method", "residual", tmp_path / "nowhere")


# --- what a plugin was written against


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Site(tmp_path)
    forget_modules(tmp_path)


def _load(site: Site, declaration: str, where: str = "pack/m.py") -> loader.LoadedMethod:
    files = {"pack/__init__.py": "", "pack/m.py": "def build(layer): ...\n"}
    files[where] = f"{declaration}\n{files[where]}"
    site.install("a-method", {}, files)
    return loader.load_method(finder.MethodEntry("residual", "m", "pack.m:build", "a-method", "1.0"))


@pytest.mark.parametrize("where", ["pack/m.py", "pack/__init__.py"])
@pytest.mark.parametrize("declaration", ["ZOO_API", "ZOO_API: object"])
@pytest.mark.parametrize(
    ("version", "told"),
    [
        ((2, 0), "written for API 2.0, this is 1.0: install a newer zoo"),
        ((1, 7), "written for API 1.7, this is 1.0: install a newer zoo"),
        ((0, 9), "written for API 0.9, this is 1.0: install a newer version of the plugin"),
        ("1.0", "ZOO_API = '1.0' is no version"),
        ((1, 0, 0), "is no version"),
    ],
)
def test_another_interface_is_told(
    site: Site, version: object, told: str, declaration: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_version, "API_VERSION", (1, 0))
    loaded = _load(site, f"{declaration} = {version!r}\nimport zoo.no_longer_there", where)
    assert loaded.factory is None and loaded.error and told in loaded.error


@pytest.mark.parametrize("declaration", ["", f"ZOO_API = {zoo.API_VERSION}", "ZOO_API: tuple[int, int] = (1, 0)"])
def test_this_interface_or_none_is_fine(site: Site, declaration: str) -> None:
    assert _load(site, declaration).error is None


def test_the_interface_has_one_version() -> None:
    from zoo import extension

    assert zoo.API_VERSION == extension.API_VERSION == (1, 2)


# --- from end to end


def _listed(environment: Environment) -> dict[str, str]:
    """What zoo-plugins shows of each method."""
    lines = environment.run("zoo-plugins").splitlines()
    return {line.split()[0]: line for line in lines[1:] if line.strip() and not line.startswith("`")}


def test_a_strangers_plugins(environment: Environment, corpus: str) -> None:
    """Two wheels, one fine and one that fails on import: listed, checked, trained, refused, and gone again."""
    work = environment.folder
    good = scaffold.new("good-method", "temporal_mixing", work)
    bad = scaffold.new("bad-method", "residual", work)
    method = bad / "bad_method/method.py"
    method.write_text("import something_that_nobody_has\n" + method.read_text("utf-8"), "utf-8")
    environment.run("pip", "install", "-q", "--no-deps", *environment.wheels(good, bad))
    try:
        listed = _listed(environment)
        assert listed.keys() - set(registry.installed().ids()) == {"good_method", "bad_method"}
        assert "good-method" in listed["good_method"] and listed["good_method"].endswith("ok")
        assert "broken: ModuleNotFoundError: No module named 'something_that_nobody_has'" in listed["bad_method"]
        environment.run("zoo-plugins", "check", "good_method", "--only", "builds", "causal", "cached")

        environment.run("zoo-train", "--gin", "good_method", *SHORT, corpus, "--run", "run")
        made_with = json.loads((work / "run/versions.json").read_text())
        (plugin,) = made_with["plugins"]
        (written,) = {file.read_bytes() for file in work.glob("good-method/**/method.py")}
        assert plugin.pop("code") == hash_of_tree(written)
        assert plugin == {
            "slot": "temporal_mixing", "id": "good_method", "distribution": "good-method", "version": "0.1.0",
        }  # fmt: skip
        told = environment.run("zoo-train", "--gin", "bad_method", *SHORT, corpus, code=2)
        assert "residual.bad_method of bad-method 0.1.0 is broken: ModuleNotFoundError" in told
        assert "Traceback" in told and "bad_method/method.py" in told
    finally:
        environment.run("pip", "uninstall", "-q", "-y", "good-method", "bad-method")
    assert "there is no Gin file good_method" in environment.run("zoo-train", "--gin", "good_method", code=2)
    assert not {path.name for path in environment.site.iterdir()} - {"beside.pth", "__pycache__"}


@pytest.mark.slow
def test_a_taken_id_names_both(environment: Environment, corpus: str) -> None:
    before = _listed(environment)
    thief = scaffold.new("thief", "temporal_mixing", environment.folder)
    project = thief / "pyproject.toml"
    project.write_text(project.read_text().replace('thief = "thief', 'wr_1 = "thief'))
    environment.run("pip", "install", "-q", "--no-deps", *environment.wheels(thief))
    try:
        assert "broken: the id wr_1 is claimed more than once" in _listed(environment)["wr_1"]
        for command in (["zoo-train", "--gin", "wr_1", *SHORT, corpus], ["zoo-plugins", "check", "wr_1"]):
            told = environment.run(*command, code=2)
            assert "temporal_mixing.wr_1 of thief 0.1.0" in told and "temporal_mixing.wr_1 of transformer-zoo" in told
        environment.run("zoo-train", "--gin", "wr_6", *SHORT, corpus, "--run", "other")
    finally:
        environment.run("pip", "uninstall", "-q", "-y", "thief")
    assert _listed(environment) == before


@pytest.mark.slow
@pytest.mark.parametrize("slot", SLOTS)
def test_a_new_project_passes_as_written(environment: Environment, slot: str, corpus: str) -> None:
    name = f"fresh-{slot.replace('_', '-')}"
    id = name.replace("-", "_")
    environment.run("zoo-plugins", "new", name, "--slot", slot)
    environment.run("pip", "install", "-q", "-e", name)
    try:
        assert f"{len(properties())} passed" in environment.run("pytest", name)
        assert f"collected {len(properties())} items" in environment.run("pytest", "--zoo-method", id)
        assert "it conforms" in environment.run("zoo-plugins", "check", id)
        assert f"model.{slot} = @{slot}.{id}" in environment.run("zoo-plugins", "show", id)
        assert f"  {name} 0.1.0: {id}" in environment.run("zoo-train", "--version")
        assert "left out" not in environment.run("zoo-plugins", "matrix")
        told = environment.run("zoo-bench", "--gin", id, *SHORT, corpus, "--seeds", "2", "--store", f"bench-{slot}")
        assert id in told
    finally:
        environment.run("pip", "uninstall", "-q", "-y", name)
