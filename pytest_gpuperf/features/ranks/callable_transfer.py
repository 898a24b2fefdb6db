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
from pytest_gpuperf.features.ranks.messages import RankWork

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


def packed(callables: Mapping[str, Callable[..., Any]], seed: int) -> RankWork:
    """Return callables as bytes.

    Args:
        callables: By the names of the arguments that gave them, for an error.
        seed: Seed of the arguments.

    Raises:
        GpuperfError: One cannot be found by the name of its module, such as a lambda.
    """
    pickled = []
    modules: set[str] = set()
    for name, value in callables.items():
        file = io.BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(value)
        except Exception:  # pickle raises many kinds, and so do the methods of strangers
            raise GpuperfError(
                f"{name}={show_repr(value)} cannot be sent to other processes",
                expected="a function at the top level of a module, or functools.partial of one",
                next_step="give a lambda or an inner function a name at the top level of its file",
            ) from None
        pickled.append(file.getvalue())
        modules |= pickler.modules
    files = {name: getattr(sys.modules.get(name), "__file__", None) for name in modules}
    return RankWork(tuple(pickled), {name: file for name, file in files.items() if file}, seed)


def unpacked(work: RankWork) -> tuple[Callable[..., Any], ...]:
    """Import the modules, and return the callables."""
    for name, file in work.files.items():
        _import(name, file)
    return tuple(map(pickle.loads, work.pickled))


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
