"""Send callables to another process: by their module and name, as pickle does."""

from __future__ import annotations

import importlib.util
import io
import pickle
import sys
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.features.ranks.messages import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType


class _Pickler(pickle.Pickler):
    """Notes the modules of all functions and classes."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (FunctionType, type)):
            self.modules.add(value.__module__)
        return NotImplemented


def packed(callables: Mapping[str, Callable[..., Any]], seed: int) -> Work:
    """Return callables as bytes.

    Args:
        callables: By the names of the arguments that gave them, for an error.
        seed: Seed of the arguments.

    Raises:
        GpuperfError: One cannot be found by the name of its module, such as a lambda.
    """
    file = io.BytesIO()
    pickler = _Pickler(file)
    for name, value in callables.items():
        if not _is_picklable(value):
            raise GpuperfError(
                f"{name}={show_repr(value)} cannot be sent to other processes",
                expected="a function at the top level of a module, or functools.partial of one",
                next_step="give a lambda or an inner function a name at the top level of its file",
            )
    pickler.dump(tuple(callables.values()))
    files = {name: str(getattr(sys.modules.get(name), "__file__", None) or "") for name in pickler.modules}
    return Work(file.getvalue(), {name: path for name, path in files.items() if path}, seed)


def _is_picklable(value: object) -> bool:
    try:
        _Pickler(io.BytesIO()).dump(value)
    except Exception:  # pickle raises many kinds, and so do the methods of strangers
        return False
    return True


def unpacked(work: Work) -> tuple[Callable[..., Any], ...]:
    """Import the modules, and return the callables."""
    for name, file in work.files.items():
        _import(name, file)
    callables: tuple[Callable[..., Any], ...] = pickle.loads(work.pickled)  # noqa: S301 - of our parent
    return callables


def _import(name: str, file: str) -> None:
    """Import a module of this name from this file: of pytest's import modes, some leave no search path."""
    if _file_of(sys.modules.get(name)) == Path(file):
        return
    try:
        if _file_of(importlib.import_module(name)) == Path(file):
            return
    except ImportError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _file_of(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file else None
