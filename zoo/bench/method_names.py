"""The methods of a suite as it names them: Gin files, joined with +, each with settings of its own: `ONE+OTHER(n=6)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zoo.config.gin_files import read_binding
from zoo.config.load import load_config
from zoo.config.values import render
from zoo.errors import ConfigError
from zoo.plugins.finder import MethodEntry
from zoo.plugins.registry import installed
from zoo.plugins.settings import settings_of

PART = re.compile(r"\s*([^()'\"]+?)\s*(?:\((.*)\)\s*)?", re.DOTALL)
SETTING = re.compile(r"\s*([\w.]+)\s*=(.*)", re.DOTALL)
OPENING, CLOSING, QUOTES = "([{", ")]}", "'\""


class Named(NamedTuple):
    """The methods and settings that the name of an arm means."""

    files: tuple[str, ...]  # Gin files
    bindings: tuple[str, ...]  # of its own settings
    label: str  # the name that people read; empty: what the configuration is called


def split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that are outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote and text[index - 1] != "\\" else quote
        elif character in QUOTES:
            quote = character
        elif character in OPENING:
            depth += 1
        elif character in CLOSING:
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def parse_name(name: str) -> Named:
    """The files and the bindings of a method or combination, from its name in a suite."""
    parts = [_parsed(part, name) for part in split(name, "+") if part.strip()]
    files = tuple(file for file, _ in parts)
    if not any(settings for _, settings in parts):
        return Named(files, (), "")
    bindings, labels = [], []
    for file, settings in parts:
        loaded = load_config([file])
        bound = [_binding(setting, loaded.plugins, file) for setting in settings]
        bindings += [f"{key} = {value}" for key, _, value in bound]
        shown = ", ".join(f"{given}={value}" for _, given, value in bound)
        labels.append(f"{loaded.name}({shown})" if shown else loaded.name)
    return Named(files, tuple(bindings), "+".join(labels))


def _parsed(part: str, name: str) -> tuple[str, list[tuple[str, str]]]:
    """The file of one part and its settings as they are written."""
    match = PART.fullmatch(part)
    if match is None:
        raise ConfigError(f"{part.strip()!r} is no method: write FILE, or FILE(setting=value, …) as in 'METHOD(n=6)'")
    if match[2] is None:
        return match[1], []
    settings = []
    for text in split(match[2], ","):
        setting = SETTING.fullmatch(text)
        if setting is None or not setting[2].strip():
            raise ConfigError(f"{text.strip()!r} is no setting of {match[1]}: write setting=value, as in 'METHOD(n=6)'")
        settings.append((setting[1], setting[2].strip()))
    names = [given for given, _ in settings]
    if len(set(names)) < len(names):
        raise ConfigError(f"{name!r} sets one thing twice")
    return match[1], settings


def _binding(setting: tuple[str, str], plugins: Sequence[MethodEntry], file: str) -> tuple[str, str, str]:
    """The key that a setting means, its name as given, and its value in Gin's notation."""
    given, text = setting
    key = given if "." in given else _key(given, plugins, file)
    (statement, *more) = read_binding(f"{key} = {text}")
    if more:
        raise ConfigError(f"{given}={text} binds more than one value")
    return key, given, render(statement.value)


def _key(setting: str, plugins: Sequence[MethodEntry], file: str) -> str:
    """The key of a method's setting, by the method that the file puts into a slot."""
    if len(plugins) == 1:
        return f"{plugins[0].name}.{setting}"
    if not plugins:
        raise ConfigError(
            f"{file} names no method that could have a setting {setting}: write CONFIGURABLE.SETTING=VALUE"
        )
    having = [plugin.name for plugin in plugins if setting in _settings(plugin)]
    if len(having) != 1:
        names = " or ".join(f"{name}.{setting}" for name in having or [plugin.name for plugin in plugins])
        raise ConfigError(f"{file} names several methods: write {names}")
    return f"{having[0]}.{setting}"


def _settings(plugin: MethodEntry) -> Iterator[str]:
    factory = installed().get(plugin.slot, plugin.id).factory
    assert factory is not None
    return (setting.name for setting in settings_of(factory))
