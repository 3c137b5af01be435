"""Gin files: where they are found, and what they say, each statement with its file and line.

Only the syntax is Gin's here. Its own reader is not used: it looks for includes in the working directory, logs an error
for every folder that it tried in vain, and forgets which file a binding came from.
"""

from __future__ import annotations

import os
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gin import config_parser

from zoo.errors import ConfigError, nearest
from zoo.plugins.registry import Registry, installed
from zoo.plugins.resources import package_folders, project_gin_folders
from zoo.system.regular_files import possible, read_regular

Source = Literal["defaults", "file", "set"]
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but newline and tab: they could play tricks on a terminal

# Far beyond what anyone writes: a file that is no Gin file, or one that multiplies itself, ends in a sentence soon.
LONGEST = 1 << 20  # bytes of a file
MOST_FILES = 1000  # read for one configuration, a file again for each time that it is included
DEEPEST = 50  # includes within each other, and macros
DIGITS = 30  # of an integer


@dataclass(frozen=True)
class Reference:
    """@name in a Gin file: a configurable itself, not a value."""

    name: str
    called: bool = False  # @name()

    def __str__(self) -> str:
        return f"@{self.name}{'()' if self.called else ''}"

    __repr__ = __str__


@dataclass(frozen=True)
class Macro:
    """%name in a Gin file."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"

    __repr__ = __str__


class Statement(NamedTuple):
    """One binding: selector.parameter = value; a macro has no parameter."""

    selector: str
    parameter: str
    value: Any
    where: str  # "file:line", or the --set argument
    source: Source
    files: tuple[str, ...]  # the file it stands in, after those that include it

    @property
    def key(self) -> str:
        return f"{self.selector}.{self.parameter}" if self.parameter else f"%{self.selector}"


class _Delegate(config_parser.ParserDelegate):
    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
        return Reference(scoped_configurable_name, evaluate)

    def macro(self, macro_name: str) -> Macro:
        return Macro(macro_name)


# --- where they are


def gin_folders(registry: Registry | None = None) -> list[Path]:
    """The project's Gin folder, then the one inside each plugin's package."""
    folders = project_gin_folders()
    for method in (registry or installed()).entries:
        folders += [package / "gin" for package in package_folders(method) if (package / "gin").is_dir()]
    return list(dict.fromkeys(folders))


def find_gin_file(name: str, first: Sequence[Path] = (), folders: Sequence[Path] | None = None) -> Path:
    """The file that a path or a bare name ("sizes/tiny") means: from `first` (else: here), or from the Gin folders.

    A folder of that name hides nothing: only a file counts.
    """
    folders = gin_folders() if folders is None else folders
    asked = Path(os.path.expanduser(name))
    if not name.strip() or not possible(name):
        raise ConfigError(f"{name!r} is not the name of a Gin file")
    bases = [*first] or [Path.cwd()]
    if ".." not in asked.parts:  # a bare name does not climb out of a Gin folder
        bases += folders
    directory = None
    for base in bases:
        for path in (base / asked, base / f"{asked}.gin"):
            try:
                if path.is_dir():
                    directory = directory or path
                elif path.exists():
                    return path.absolute()
            except OSError as error:  # such as a name that is too long
                raise ConfigError(f"the Gin file {name} cannot be looked up: {error.strerror}") from None
    if directory:
        raise ConfigError(f"{shown_path(directory)} is a folder, not a Gin file{_instead(directory, asked)}")
    known = {str(file.relative_to(top).with_suffix("")) for top in folders for file in top.rglob("*.gin")}
    stem = asked.with_suffix("") if asked.suffix == ".gin" else asked
    same_stem = [each for each in known if Path(each).name == stem.name]
    near = f" (nearest: {', '.join(sorted(same_stem)[:3])})" if same_stem else _nearest(stem, known)
    raise ConfigError(f"there is no Gin file {name}{near}; looked in {', '.join(map(shown_path, bases))}")


def _instead(directory: Path, asked: Path) -> str:
    """What someone may have meant who named a folder."""
    if inside := sorted(f"{asked}/{file.stem}" for file in directory.glob("*.gin"))[:9]:
        return f" (it holds {', '.join(inside)})"
    if (directory / "pyproject.toml").is_file():
        return f": to use the methods of the project in it, install it (pip install -e {shown_path(directory)})"
    return ""


def _nearest(stem: Path, known: set[str]) -> str:
    """Names like the whole of what was asked for, else like its last part."""
    return nearest(str(stem), known) or nearest(stem.name, {Path(each).name for each in known})


def shown_path(path: Path) -> str:
    """A path as a person here would write it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


# --- what they say


@dataclass
class GinReader:
    """Reads files with what they include, and keeps the text of each."""

    folders: list[Path]
    texts: dict[Path, str] = field(default_factory=dict)
    count: int = 0

    def read_file(self, path: Path, source: Source, above: tuple[Path, ...] = ()) -> Iterator[Statement]:
        chain = (*above, path)
        self.count += 1
        if self.count > MOST_FILES or len(chain) > DEEPEST:
            how = f"more than {DEEPEST} deep" if len(chain) > DEEPEST else f"more than {MOST_FILES:,} in all"
            raise ConfigError(f"{shown_path(chain[0])}: too many includes, {how} ({shown_path(path)} is one of them)")
        if path not in self.texts:
            self.texts[path] = _text(path)
        files = tuple(map(shown_path, chain))
        for line, statement in _parse(self.texts[path], shown_path(path)):
            where = f"{shown_path(path)}:{line}"
            if isinstance(statement, config_parser.IncludeStatement):
                included = self._included(statement.filename, path, where)
                if included in chain:
                    raise ConfigError(f"{where}: {shown_path(included)} ends up including itself")
                yield from self.read_file(included, source, chain)
            else:
                yield from _binding(statement, where, source, files)

    def _included(self, name: str, path: Path, where: str) -> Path:
        try:
            return find_gin_file(name, first=[path.parent], folders=self.folders)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None


def read_binding(text: str) -> Iterator[Statement]:
    """The statement in one --set argument."""
    where = f"--set {text!r}" if len(text) <= 100 else f"--set '{text[:60]}…'"
    if "=" not in text and not text.lstrip().startswith(("include", "import", "from")):
        example = f"{text.strip()}=500" if re.fullmatch(r"\s*\w+(\.\w+)+\s*", text) else "train.steps=500"
        raise ConfigError(f"{where}: expected NAME=VALUE, such as {example}")
    for _, statement in _parse(text, where, numbered=False):
        if isinstance(statement, config_parser.IncludeStatement):
            raise ConfigError(f"{where}: only bindings can be set here; give the file with --gin")
        yield from _binding(statement, where, "set", ())


def _text(path: Path) -> str:
    try:
        return read_regular(path, LONGEST).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise ConfigError(f"{shown_path(path)} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{shown_path(path)} is not a Gin file: it is not UTF-8 text (byte {error.start})") from None


def _parse(text: str, name: str, numbered: bool = True) -> Iterator[tuple[int, Any]]:
    """Gin's statements with their lines; what it cannot parse becomes a sentence that shows the line."""
    lines = text.split("\n")
    start = 1
    try:
        parser = config_parser.ConfigParser(text, _Delegate())
        while True:
            start = parser.current_token.start[0]
            statement = parser.parse_statement()
            if statement is None:
                return
            yield statement.location.line_num, statement
    except Exception as error:  # Gin's parser leaks those of the tokeniser and of the literals too
        while start < len(lines) and lines[start - 1].strip()[:1] in ("", "#"):
            start += 1
        line, why = _explain(error, start)
        line = min(max(line, 1), len(lines))
        where = f"{name}:{line}" if numbered else name
        shown = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", lines[line - 1].strip()[:200])
        raise ConfigError(f"{where}: {CONTROLS.sub(' ', why[:500])}\n    {shown}") from None


def _explain(error: BaseException, start: int) -> tuple[int, str]:
    """The line of a failure to parse, and what it means."""
    if isinstance(error, tokenize.TokenError):
        return start, "cannot be parsed: a bracket or a string that begins here is never closed"
    if isinstance(error, SyntaxError):
        line, message = error.lineno or start, str(error.msg)
        if "Failed to parse token" in message:
            token = message.rpartition("Failed to parse token")[2].strip()
            return line, f"{token} is not a value: strings need quotes, methods an @, macros a %"
        if "Unable to parse value" in message:
            return line, "the value cannot be parsed: strings need quotes, methods an @, macros a %"
        return line, f"cannot be parsed: {message.rstrip('.')}"
    return start, f"cannot be parsed: {type(error).__name__}: {error}"


def _binding(statement: Any, where: str, source: Source, files: tuple[str, ...]) -> Iterable[Statement]:
    if isinstance(statement, config_parser.ImportStatement):
        raise ConfigError(
            f"{where}: `{statement.format()}` is refused: a Gin file runs no code;"
            " methods come from installed distributions, as entry points (zoo-plugins lists them)"
        )
    if isinstance(statement, config_parser.BlockDeclaration):  # its bindings follow as statements of their own
        return
    if statement.scope:
        scoped = f"{statement.scope}/{statement.selector}.{statement.arg_name}".rstrip(".")
        raise ConfigError(f"{where}: {scoped} is scoped; nothing runs in a Gin scope here, so it would have no effect")
    bound = Statement(statement.selector, statement.arg_name, statement.value, where, source, files)
    if any(isinstance(each, int) and abs(each) >= 10**DIGITS for each in leaves(bound.value)):
        raise ConfigError(f"{where}: {bound.key}: an integer of more than {DIGITS} digits is out of range")
    yield bound


def leaves(value: Any) -> Iterator[Any]:
    """What stands in nested lists, tuples and dictionaries, keys too; any other value itself."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(key)
            yield from leaves(each)
    else:
        yield value
