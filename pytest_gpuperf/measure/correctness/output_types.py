"""Types of outputs: a tensor that computes its values only when it is read has done nothing before."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import getattr_static
from pathlib import Path
from types import MemberDescriptorType
from typing import Any

import torch

PLAIN = (torch.Tensor, torch.nn.Parameter)
_ARRAYS = ("__dlpack__", "__cuda_array_interface__")
_INSTALLED = ("site-packages", "dist-packages")


def strange_types(tree: Any, name: str = "output") -> Iterator[tuple[type, str]]:
    """Yield the types of the program's own among outputs, each with a message.

    Subclasses of `torch.Tensor` must be torch's. Arrays and containers may come from any installed library.

    Args:
        tree: The value of a call.
        name: Name of the value in messages.
    """
    kind = type(tree)
    if tree is None or kind in PLAIN:
        return
    if isinstance(tree, torch.Tensor):
        if not _is_from_torch(kind):
            yield kind, _text(name, kind, "a torch.Tensor")
    elif isinstance(tree, (Mapping, tuple, list)):
        if not (_is_plain_container(kind) or _is_installed(kind)):
            yield kind, _text(name, kind, "a tuple, list or dict")
            return
        for key, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from strange_types(value, f"{name}[{key!r}]")
    elif is_dataclass(tree) and not isinstance(tree, type):
        if not (_is_plain_dataclass(kind) or _is_installed(kind)):
            yield kind, _text(name, kind, "a dataclass with plain fields")
            return
        for field in fields(kind):
            yield from strange_types(getattr(tree, field.name), f"{name}.{field.name}")
    elif any(hasattr(kind, how) for how in _ARRAYS) and not _is_installed(kind):
        yield kind, _text(name, kind, "a torch.Tensor")


def types_in(tree: Any) -> Iterator[type]:
    """Yield the types of all values in nested tuples, lists and dicts, and of these."""
    yield type(tree)
    if isinstance(tree, Mapping):
        for value in tree.values():
            yield from types_in(value)
    elif isinstance(tree, (tuple, list)):
        for value in tree:
            yield from types_in(value)


def _is_from_torch(kind: type) -> bool:
    """Return True for a class that torch's own module of that name has: the name alone could be set."""
    module = sys.modules.get(kind.__module__)
    return kind.__module__.partition(".")[0] == "torch" and getattr(module, kind.__name__, None) is kind


def _is_plain_container(kind: type) -> bool:
    if issubclass(kind, Mapping):
        return kind in (dict, OrderedDict)
    # A named tuple is read like a tuple.
    base = tuple if issubclass(kind, tuple) else list
    return all(getattr(kind, name) is getattr(base, name) for name in ("__iter__", "__getitem__"))


def _is_plain_dataclass(kind: type) -> bool:
    """Return True if to read a field of an object runs no code of its class."""
    own = [name for base in kind.__mro__[:-1] for name in vars(base)]
    if "__getattribute__" in own or "__getattr__" in own:
        return False
    found = (getattr_static(kind, field.name, None) for field in fields(kind))
    return all(isinstance(one, MemberDescriptorType) or not hasattr(one, "__get__") for one in found)


def _is_installed(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    # The module of a class can be set to any text, so the class must be there.
    where = getattr(module, "__file__", None)
    known = getattr(module, kind.__name__, None) is kind
    root = sys.modules.get(kind.__module__.partition(".")[0])
    where = where or getattr(root, "__file__", None)
    return known and where is not None and any(part in _INSTALLED for part in Path(where).parts)


def _text(name: str, kind: type, expected: str) -> str:
    return (
        f"{name} is a {kind.__qualname__} of the module {kind.__module__}; expected {expected}, or the type "
        "that the reference returns, since a type of its own may compute its values only when it is read"
    )
