"""Import problem and solution files, with the helper modules of their folders."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.records.json_files import show_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

    from pytest_gpuperf.measure.problems.cases import Task

SUBMISSION = "@SUBMISSION@"
"""Source of the solution in a `task.yml`."""


def link_helpers(task: Task | None, problem: Path, folder: Path) -> tuple[str, ...]:
    """Link the helper modules of a task into a folder, and return the folders to import from, in order.

    A `task.yml` may give a file another name or take it from another folder.
    """
    for file in (task.files if task is not None else None) or ():
        source = problem.parent / file.source
        link = folder / Path(file.name).name
        if file.source != SUBMISSION and link.suffix == ".py" and source.is_file() and not link.exists():
            link.symlink_to(source.resolve())
    here = problem.resolve().parent
    return str(folder), str(here), str(here.parent)


def load(path: Path, name: str, folders: Iterable[str], *, tried: bool = False) -> ModuleType:
    """Import a file as a module.

    Args:
        path: The file.
        name: Name of the module.
        folders: Folders that its imports may come from.
        tried: True for the solution: an exception of its own is a result of the trial.

    Raises:
        GpuperfError: The import raises; of a solution, it lacks a module.
    """
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Triton, dataclasses and torch.compile look a function's module up.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if tried and not isinstance(error, ModuleNotFoundError):
            raise
        raise _unloadable(path, error) from error
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
    """The functions of a problem, as they were before the solution was imported.

    Args:
        module: The problem.
        names: Functions and classes to keep.
    """

    def __init__(self, module: ModuleType, names: Iterable[str]) -> None:
        self._module = module
        self._names = tuple(names)
        self._before = self._parts()

    def check(self) -> str:
        """Name a part that the solution has replaced; empty if there is none."""
        now = self._parts()
        for name, part in self._before.items():
            if now.get(name) is not part:
                return f"the solution has replaced {name} of the problem"
        return ""

    def _parts(self) -> Mapping[str, object]:
        parts: dict[str, object] = {}
        for name in self._names:
            value = getattr(self._module, name, None)
            parts[name] = value
            parts[f"{name}.__code__"] = getattr(value, "__code__", None)
            if isinstance(value, type):
                for key, member in vars(value).items():
                    parts[f"{name}.{key}"] = member
                    parts[f"{name}.{key}.__code__"] = getattr(member, "__code__", None)
        return parts


def required(module: ModuleType, name: str, path: Path) -> object:
    """Return a callable of a module.

    Raises:
        GpuperfError: The module has none of this name.
    """
    value = getattr(module, name, None)
    if not callable(value):
        found = "does not define" if value is None else f"has {show_repr(value)} as"
        raise GpuperfError(f"{show_path(path)} {found} {name}", expected=f"{name} to be callable")
    return value
