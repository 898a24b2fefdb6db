"""Values in nested tuples, lists and dicts: the arguments and outputs of calls."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return the same tree with the results for its values; a container of another class is a value."""
    kind = type(tree)
    if kind in (dict, OrderedDict):
        return kind((key, mapped(function, value)) for key, value in tree.items())
    if kind in (tuple, list):
        return kind(mapped(function, value) for value in tree)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return kind(*(mapped(function, value) for value in tree))
    return function(tree)


def values_in(tree: Any) -> list[Any]:
    """Return the values of a tree."""
    found: list[Any] = []
    mapped(found.append, tree)
    return found
