"""The files that belong to a method: its source, Gin file and card. Imports nothing of the method."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

from zoo.plugins.finder import MethodEntry

ROOT = Path(__file__).resolve().parents[2]  # the checkout, or the folder of installed packages


def package_folders(method: MethodEntry) -> list[Path]:
    """The folders of the packages around the entry point's module, innermost first. Imports nothing."""
    top, *rest = method.value.partition("[")[0].partition(":")[0].strip().split(".")
    spec = _spec(top)
    folders: list[Path] = []
    for location in (spec.submodule_search_locations or ()) if spec else ():
        nested = [Path(location, *rest[:depth]) for depth in range(len(rest), -1, -1)]
        folders += [folder for folder in nested if folder.is_dir()]
    return folders


def source_file(method: MethodEntry) -> Path | None:
    """The file of the entry point's module. Imports nothing."""
    top, *rest = method.value.partition("[")[0].partition(":")[0].strip().split(".")
    spec = _spec(top)
    if spec and not rest and spec.origin:
        return Path(spec.origin)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        base = Path(location, *rest)
        for file in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
            if file.is_file():
                return file
    return None


def source_files(method: MethodEntry) -> list[Path]:
    """The file of the entry point's module and of the packages around it."""
    return [*filter(None, [source_file(method)]), *(folder / "__init__.py" for folder in package_folders(method))]


def _spec(top: str) -> importlib.machinery.ModuleSpec | None:
    """Where a top-level package is: a real package before a mere folder of that name."""
    # Only for a top-level name: for a submodule, find_spec would import its parents.
    try:
        spec = importlib.util.find_spec(top)
        return (_real_package(top) or spec) if _is_folder(spec) else spec
    except Exception:  # an odd name, or a module without a spec
        return None


def _real_package(top: str) -> importlib.machinery.ModuleSpec | None:
    """The package that a folder of its name hides; from now on an import finds it too.

    An editable install may add a finder behind the one that looks at sys.path, which takes any folder for a namespace
    package: a project's own folder in the working directory would hide the package inside it.
    """
    for finder in list(sys.meta_path):
        spec = finder.find_spec(top, None)
        if spec is not None and not _is_folder(spec):
            sys.meta_path.remove(finder)
            sys.meta_path.insert(0, finder)
            return spec
    return None


def _is_folder(spec: importlib.machinery.ModuleSpec | None) -> bool:
    """Whether this is a namespace package: a folder without code of its own."""
    return spec is not None and spec.origin is None and spec.submodule_search_locations is not None


def card_file(method: MethodEntry) -> Path | None:
    """The method's card, <package>/cards/ID.md."""
    return _first(folder / "cards" / f"{method.id}.md" for folder in package_folders(method))


def gin_file(method: MethodEntry) -> Path | None:
    """The method's Gin file, <package>/gin/ID.gin, or among the project's own."""
    return _first(
        folder / f"{method.id}.gin"
        for folder in [*(p / "gin" for p in package_folders(method)), *project_gin_folders()]
    )


def _first(files: Iterable[Path]) -> Path | None:
    return next((file for file in files if file.is_file()), None)


def project_gin_folders(root: Path | None = None) -> list[Path]:
    """The folder of the project's own Gin files: gin/ in a checkout, the package folder zoo_gin in a wheel; or none."""
    root = root or ROOT
    # Beside an installed wheel, gin/ is the code of gin-config: only the folder with our defaults is ours.
    return [root / name for name in ("gin", "zoo_gin") if (root / name / "defaults.gin").is_file()][:1]
