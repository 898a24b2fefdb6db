"""Import problem and solution files, with the helper modules of their folders."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from traceback import walk_tb
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.device.originals import ReplacedError
from pytest_gpuperf.records.files import show_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from types import CellType


def load(path: Path, name: str, needed: Iterable[str], *, tried: bool = False) -> ModuleType:
    """Import a file as a module.

    Args:
        path: The file.
        name: Name of the module.
        needed: Names of callables that it has to define.
        tried: True for the solution: an exception of its own is a result of the trial.

    Raises:
        GpuperfError: The import raises, or a name is missing; of a solution, it lacks a module or is not
            Python, or lacks a name.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Triton, dataclasses and torch.compile look a function's module up.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if tried and not isinstance(error, (ModuleNotFoundError, SyntaxError)):
            raise
        raise _unloadable(path, error) from error
    for one in needed:
        if not callable(getattr(module, one, None)):
            raise GpuperfError(f"{show_path(path)} does not define {one}", expected="a class or a function")
    return module


def _unloadable(path: Path, error: BaseException) -> GpuperfError:
    shown = show_path(path)
    at = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == str(path)]
    where = f"{shown}:{at[-1]}" if at else shown
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return GpuperfError(
            f"{where} imports {error.name}, which is not there",
            expected=f"{package}.py in the folder of the problem, or an installed package",
            next_step=f"type pip install {package}, or copy {package}.py next to the problem",
        )
    text = str(error).strip().partition("\n")[0]
    return GpuperfError(
        f"{where} cannot be imported: {type(error).__name__}: {text}".rstrip(": "),
        next_step=f"type python {shown}",
    )


class Unchanged:
    """A problem and its helper modules, as they were before the solution was imported.

    A solution could replace what makes its inputs, its reference, or what checks it: a function, its code, a
    tolerance in a closure, or a constant.

    Args:
        problem: The problem.
        folders: Folders of its helper modules.
    """

    def __init__(self, problem: ModuleType, folders: Collection[Path]) -> None:
        self._modules = [problem, *_modules_in(folders)]
        self._before = self._parts()

    def check(self) -> None:
        """Look at all parts.

        Raises:
            ReplacedError: The solution has replaced one.
        """
        now = self._parts()
        for path, part in self._before.items():
            found = now.get(path)
            if found is not part and not (isinstance(part, (int, float, str)) and found == part):
                raise ReplacedError(f"the solution has replaced {'.'.join(path[1:])} of the problem")

    def _parts(self) -> dict[tuple[str, ...], object]:
        parts: dict[tuple[str, ...], object] = {}
        for module in self._modules:
            for name, value in vars(module).items():
                if callable(value) or isinstance(value, ModuleType) or name.isupper():
                    _collect(value, (module.__name__, name), parts)
        return parts


def _collect(value: object, path: tuple[str, ...], parts: dict[tuple[str, ...], object]) -> None:
    """Collect a value and its parts by their paths."""
    if any(parts.get(path[:at]) is value for at in range(2, len(path))):
        return
    parts[path] = value
    inner: dict[str, object] = {}
    if isinstance(value, FunctionType):
        inner = {
            "__code__": value.__code__,
            "__defaults__": value.__defaults__,
            **(value.__kwdefaults__ or {}),
        }
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        inner |= {name: _content(cell) for name, cell in cells}
    elif isinstance(value, partial):
        inner = {"func": value.func, "args": value.args, **value.keywords}
    elif isinstance(value, (staticmethod, classmethod)):
        inner = {"__func__": value.__func__}
    elif isinstance(value, type) and value.__module__ == path[0]:
        inner = {name: one for name, one in vars(value).items() if callable(one) or isinstance(one, _METHODS)}
    elif isinstance(value, (list, tuple)):
        inner = {str(at): one for at, one in enumerate(value)}
    elif isinstance(value, dict):
        inner = {str(name): one for name, one in value.items()}
    for name, one in inner.items():
        _collect(one, (*path, name), parts)


_METHODS = (staticmethod, classmethod)


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _modules_in(folders: Collection[Path]) -> list[ModuleType]:
    """Return the imported modules and packages that lie in some folders."""
    found = []
    for module in list(sys.modules.values()):
        file = Path(getattr(module, "__file__", None) or "/")
        if (file.parent.parent if file.stem == "__init__" else file.parent) in folders:
            found.append(module)
    return found
