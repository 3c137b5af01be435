"""A project to load configurations in: fake configurables, a few fake methods, Gin files of its own."""

from __future__ import annotations

import importlib.metadata
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Optional

import gin
import gin.config
import pytest
from helpers.fake_distributions import Site, forget_modules

from zoo.config import gin_bridge, load as load_module
from zoo.config.configuration import Config
from zoo.errors import ConfigError
from zoo.plugins import resources

METHODS = '''
from __future__ import annotations
from typing import Literal


class Gate:
    """A gate."""

    def __init__(self, layer, gain: float = 1.0, first: Literal["standard", "zero"] = "standard", *, n: int | None = 0):
        self.layer, self.gain, self.first, self.n = layer, gain, first, n


def preset(build, **fixed):
    import inspect

    def method(layer, **settings):
        return build(layer, **fixed, **settings)

    signature = inspect.signature(build)
    left = [p for p in signature.parameters.values() if p.name not in fixed]
    method.__signature__ = signature.replace(parameters=left)
    method.__module__ = build.__module__
    return method


half = preset(Gate, gain=0.5)
def needy(layer, must: int): return ("needy", layer, must)
def refusing(layer): raise __import__("zoo.errors").errors.ZooError("a sentence of its own")
def failing(layer, gain: float = 1.0): raise ValueError("gain and layer do not go together")
'''
ENTRIES = {
    "residual": {
        "gate": "methods:Gate",
        "half": "methods:half",
        "needy": "methods:needy",
        "failing": "methods:failing",
        "refusing": "methods:refusing",
    },
    "score_mixing": {"blend": "methods:Gate"},
    "head_mixing": {"gate": "methods:Gate"},
}


class Run:
    """What the fake `model` builds."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)


def _model(
    vocab_size: int,
    *,
    depth: int,
    width: Optional[int] = None,  # noqa: UP045
    dropout: float = 0.0,
    tied: bool = True,
    host: Literal["sequential", "parallel"] = "sequential",
    scales: tuple[float, ...] = (),
    names: list[str] | None = None,
    table: dict[str, float] | None = None,
    initialise: Callable[..., Any] | None = None,
    implied: int = None,  # type: ignore[assignment]
    anything=None,  # type: ignore[no-untyped-def]
    residual=None,  # type: ignore[no-untyped-def]
    score_mixing=None,  # type: ignore[no-untyped-def]
    temporal_mixing=None,  # type: ignore[no-untyped-def]
    head_mixing=None,  # type: ignore[no-untyped-def]
) -> Run:
    given = locals()
    return Run(**given, extensions=[f("layer") for f in (residual, score_mixing, temporal_mixing, head_mixing) if f])


def _data(corpus: str = "sotu", length: int = 256) -> tuple[str, int]:
    return corpus, length


def _train(lr: float = 1e-3, seed: int = 0, steps: int = gin.REQUIRED) -> tuple[float, int, int]:
    return lr, seed, steps


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """gin/defaults.gin, plugin distributions, a working directory and a Gin registry, all for one test.

    The registry is swapped: the real configurables, if another test imported them, are neither seen nor hurt.
    """
    registry = gin.config.selector_map.SelectorMap()
    for selector, configurable in gin.config._REGISTRY.items():
        if selector.startswith("gin."):
            registry[selector] = configurable
    monkeypatch.setattr(gin.config, "_REGISTRY", registry)
    monkeypatch.setattr(gin.config, "_INVERSE_REGISTRY", dict(gin.config._INVERSE_REGISTRY))
    gin_bridge.reset_config()
    for name, function in {"model": _model, "data": _data, "train": _train}.items():
        gin.register(name, module="zoo")(function)
    monkeypatch.setattr(gin_bridge, "CONFIGURABLES", ())

    site = tmp_path / "site"
    Site(site).install("some-methods", ENTRIES, {"methods.py": METHODS}, version="0.7")
    Site(site).install("broken-method", {"residual": {"broken": "broken:x"}}, {"broken.py": "import no_such_thing"})
    original = importlib.metadata.distributions
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: original(path=[str(site)]))
    monkeypatch.syspath_prepend(str(site))

    root = tmp_path / "project"
    (root / "gin/sizes").mkdir(parents=True)
    (root / "gin/defaults.gin").write_text("train.steps = 10\n")
    monkeypatch.setattr(resources, "ROOT", root)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    yield root
    gin_bridge.reset_config()
    forget_modules(site)


def write(name: str, text: str) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return name


def load(text: str, *bindings: str) -> Config:
    return load_module.load_config([write("a.gin", text)], bindings)


def error_of(text: str, *bindings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, *bindings)
    return str(caught.value)
