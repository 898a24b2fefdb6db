"""The code that a test runs, as one hash: its file, the conftest files above it, and what they import.

Followed are import statements, wherever in a file they stand, modules that are named in a text, as in
`pytest.importorskip("kernels.square")`, and all modules of a package that computes which of them it imports.
What is installed is not read but known by its versions, and sources of other languages below the root are
taken as they are, whoever reads them. With the code go the variables of the environment that it names.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import sys
import sysconfig
from contextlib import suppress
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NATIVE = frozenset(
    f".{ending}"
    for ending in "c cc cpp cu cubin cuh cxx fatbin h hh hip hpp hxx inc inl ptx so".split()  # noqa: SIM905
)
"""What else than Python kernels are made of."""

_INSTALLED = frozenset(("site-packages", "dist-packages"))
_IMPORTERS = frozenset(("__import__", "import_module", "importorskip"))
"""Functions that import what their first argument, or the one of these names, says."""
_NAMES = frozenset(("name", "modname"))
_COMPUTERS = frozenset(("__getattr__", "__path__", "iter_modules", "walk_packages"))
"""What code names that looks for its package's modules, or imports them when they are asked for."""
_ALL_BELOW = "*"
_PACKAGE = Path(__file__).parents[2]
"""This plugin: what of it matters to counters is known by its version."""


class ImportedCode:
    """Hashes of the code of tests.

    Args:
        root: The project: sources of other languages are looked for below it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._python = Path(sysconfig.get_path("stdlib")).resolve()
        self._digests: dict[Path, str] = {}
        self._files: dict[Path, tuple[str, frozenset[Path]]] = {}
        self._found: dict[str, Path | None] = {}

    def digest(self, test: Path) -> str:
        """The hash of all that a test's file may run.

        Args:
            test: The file; the modules that it imports at its top have been imported.
        """
        if test not in self._digests:
            self._digests[test] = self._digest(test)
        return self._digests[test]

    def _digest(self, test: Path) -> str:
        ahead = [test, *(folder / "conftest.py" for folder in test.parents)]
        left = [path.resolve() for path in ahead if path.is_file()]
        seen: dict[Path, str] = {}
        while left:
            path = left.pop()
            if path not in seen:
                seen[path], imported = self._read(path)
                left.extend(imported)
        text = "\n".join([self._native, *(f"{path} {seen[path]}" for path in sorted(seen))])
        return hashlib.sha256(text.encode()).hexdigest()

    def _read(self, path: Path) -> tuple[str, frozenset[Path]]:
        if path not in self._files:
            try:
                source = path.read_bytes()
            except OSError:
                source = b""
            tree = _parsed(source) if path.suffix == ".py" else None
            package = self._module_of(path)
            names = (*_with_parents(package), *(_imported(tree, package) if tree is not None else ()))
            found = (file for name in dict.fromkeys(names) for file in self._files_of(name))
            imported = frozenset(file for file in found if self._is_ours(file))
            variables = "\n".join(_variables(tree) if tree is not None else ())
            self._files[path] = hashlib.sha256(source + variables.encode()).hexdigest(), imported
        return self._files[path]

    def _files_of(self, name: str) -> Iterable[Path]:
        """The file of a module; of `package.*` those of all modules below the package."""
        package, _, last = name.rpartition(".")
        file = self._file(package if last == _ALL_BELOW else name)
        if file is None:
            return ()
        if last != _ALL_BELOW:
            return (file,)
        # What is imported when it is asked for may not have been: the folder knows it all the same.
        return file.parent.rglob("*.py") if file.name == "__init__.py" and self._is_ours(file) else ()

    def _is_ours(self, path: Path) -> bool:
        installed = _INSTALLED.intersection(path.parts) or path.is_relative_to(self._python)
        return not installed and not path.is_relative_to(_PACKAGE)

    @cached_property
    def _modules(self) -> dict[Path, str]:
        named = ((_file_of(name), name) for name in sorted(sys.modules))
        return {file: name for file, name in named if file is not None}

    def _module_of(self, path: Path) -> tuple[str, ...]:
        """The names of the packages around a file, outermost first, from which its relative imports start."""
        name = self._modules.get(path)
        if name is not None:
            parts = name.split(".")
            return tuple(parts if path.name == "__init__.py" else parts[:-1])
        folder = path.parent
        names: list[str] = []
        while (folder / "__init__.py").exists():
            names.insert(0, folder.name)
            folder = folder.parent
        return tuple(names)

    def _file(self, name: str) -> Path | None:
        """The file of a module that has been imported, or would be; nothing is imported to find out."""
        if name not in self._found:
            self._found[name] = _file_of(name) if name in sys.modules else _searched(name)
        return self._found[name]

    @cached_property
    def _native(self) -> str:
        """Sources and binaries of other languages below the root, by size and time: there may be many."""
        found = []
        for folder, folders, files in os.walk(self._root):
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".")
                and name not in _INSTALLED
                and not Path(folder, name, "pyvenv.cfg").exists()
            )
            for name in sorted(files):
                if Path(name).suffix in NATIVE:
                    path = Path(folder, name)
                    # A link may lead nowhere, as Emacs' locks do, and a file may be gone since.
                    with suppress(OSError):
                        about = path.stat()
                        found.append(f"{path.relative_to(self._root)} {about.st_size} {about.st_mtime_ns}")
        return hashlib.sha256("\n".join(found).encode()).hexdigest()


def installed() -> str:
    """A hash of which distributions are installed, in which version and when."""
    folders = [Path(entry) for entry in dict.fromkeys(sys.path) if Path(entry).name in _INSTALLED]
    found = []
    for about in (about for folder in folders for about in folder.glob("*.dist-info")):
        with suppress(OSError):
            found.append(f"{about.name} {about.stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()


def _parsed(source: bytes) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _imported(tree: ast.Module, package: Sequence[str]) -> Iterator[str]:
    """Names of the modules that a file may import, those of the packages around them included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = _from(package, node.level, node.module or "")
            yield from _with_parents(base)
            # What is imported from a package may be a module of it; of `*` its `__all__` decides.
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in sys.modules:
            yield from _with_parents(node.value.split("."))
        elif isinstance(node, ast.Call) and _name_of(node.func) in _IMPORTERS:
            for given in (*node.args[:1], *(word.value for word in node.keywords if word.arg in _NAMES)):
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    module = given.value.lstrip(".")
                    yield from _with_parents(_from(package, len(given.value) - len(module), module))
                elif package:
                    yield ".".join([*package, _ALL_BELOW])
        if package and _name_of(node) in _COMPUTERS:
            yield ".".join([*package, _ALL_BELOW])


def _variables(tree: ast.Module) -> Iterator[str]:
    """Variables of the environment that a text of a file names, with their values."""
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    # Shells put into `_` what was typed.
    return (f"{name}={os.environ[name]}" for name in sorted(texts.intersection(os.environ) - {"_"}))


def _from(package: Sequence[str], level: int, module: str) -> list[str]:
    """The module that dots and a name stand for, seen from a package."""
    around = list(package[: len(package) - level + 1]) if level else []
    return around + (module.split(".") if module else [])


def _name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    # As a method it is of a class.
    if isinstance(node, ast.FunctionDef) and not node.col_offset:
        return node.name
    return node.name if isinstance(node, ast.alias) else ""


def _with_parents(parts: Sequence[str]) -> Iterable[str]:
    return [".".join(parts[: length + 1]) for length in range(len(parts))]


def _file_of(name: str) -> Path | None:
    # Not by `getattr`, at which some modules import others.
    file = getattr(sys.modules.get(name), "__dict__", {}).get("__file__")
    return Path(file).resolve() if isinstance(file, str) else None


def _searched(name: str) -> Path | None:
    spec = None
    locations: list[str] | None = None
    for part in _with_parents(name.split(".")):
        module = sys.modules.get(part)
        if module is not None:
            locations = list(getattr(module, "__dict__", {}).get("__path__") or ()) or None
        else:
            spec = PathFinder.find_spec(part, locations) if locations is not None else _top_level(part)
            locations = list(spec.submodule_search_locations or ()) if spec else None
        if locations is None and part != name:
            return None
    return Path(spec.origin).resolve() if spec is not None and spec.origin and spec.has_location else None


def _top_level(name: str) -> ModuleSpec | None:
    """Of a package that is installed in the way of `pip install -e` only a finder of its own knows."""
    with suppress(ImportError, ValueError):
        return importlib.util.find_spec(name)
    return None
