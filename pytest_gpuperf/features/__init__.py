"""The optional features, one folder each: deleting a folder deletes the feature."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.registry import Registry

FEATURES: Mapping[str, tuple[str, ...]] = {
    "compare": (),
    "doctor": (),
    "explain": ("compare", "ncu"),
    "export": (),
    "fleet": (),
    "github": (),
    "history": ("page",),
    "ncu": ("compare",),
    "page": (),
    "ranks": (),
    "starter": (),
    "trace": ("compare",),
    "trial": (),
}
"""All features, each with those that it cannot do without: if one of them is deleted, it is absent too."""


def register(registry: Registry) -> None:
    """Let every feature that is there add its parts.

    Raises:
        ImportError: A feature is there and cannot be imported.
    """
    absent = {name for name in FEATURES if not _is_there(name)}
    while more := {name for name, needs in FEATURES.items() if absent.intersection(needs)} - absent:
        absent |= more
    # All names first: a feature may show more if another one is there.
    registry.features += [name for name in FEATURES if name not in absent]
    for name in registry.features:
        import_module(f"{__name__}.{name}").register(registry)


def _is_there(name: str) -> bool:
    spec = find_spec(f"{__name__}.{name}")
    # A folder with nothing but what Python has compiled is none.
    return spec is not None and spec.origin is not None
