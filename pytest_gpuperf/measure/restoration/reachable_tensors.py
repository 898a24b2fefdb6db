"""Tensors that a callable can reach: parameters and buffers of modules, states of optimizers, caches."""

from __future__ import annotations

import gc
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.measure.timing.relocated_calls import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_OBJECTS = 50_000
"""Objects that are looked at, in some tens of milliseconds."""
_CLOSED = (BuiltinFunctionType, CodeType, FrameType, ModuleType, type, str, bytes, int, float, torch.Tensor)
_OTHERS = ("_pytest", "pytest", "pytest_gpuperf", "torch", "triton", "numpy", "builtins")
"""Packages whose functions hold no tensors of a callable by the names in their code."""


def tensors_in_reach(*roots: object) -> list[torch.Tensor]:
    """Return the strided tensors that closures, attributes, containers and names in the code lead to.

    Not by the garbage collector's list of objects: it leaves out what `gc.freeze` has put aside.
    """
    found: list[torch.Tensor] = []
    seen: dict[int, object] = {}  # with the objects: the id of one that is gone can be that of another one
    ahead: list[Any] = [*roots]
    while ahead and len(seen) < MOST_OBJECTS:
        one = ahead.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if type(one) in PLAIN:
            found.append(one)
        elif isinstance(one, FunctionType):
            ahead += [one.__closure__, one.__defaults__, one.__kwdefaults__, vars(one), *_named(one)]
        elif not (issubclass(type(one), _CLOSED) or _is_foreign(one)):
            ahead += gc.get_referents(one)
    return [one for one in found if one.layout == torch.strided and one.device.type != "meta"]


def _named(function: FunctionType) -> Iterator[object]:
    """Yield the global variables that a function names, and those of modules that it names."""
    names = function.__globals__
    if str(names.get("__name__")).partition(".")[0] in _OTHERS:
        return
    codes = [function.__code__]
    for code in codes:
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    used = {name for code in codes for name in code.co_names}
    for name in used & names.keys():
        value = names[name]
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value)[one] for one in used & vars(value).keys())


def _is_foreign(one: object) -> bool:
    """Return True for the variables of a module, and for objects of pytest, of this plugin and of Triton."""
    if type(one) is dict:
        return "__spec__" in one
    return type(one).__module__.partition(".")[0] in ("_pytest", "pytest", "pytest_gpuperf", "triton")
