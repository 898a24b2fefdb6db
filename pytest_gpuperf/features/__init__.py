"""The optional features, one folder each: deleting a folder deletes the feature."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from pytest_gpuperf.registry import Registry

FEATURES: Mapping[str, tuple[str, ...]] = {
    "bisect": ("export",),
    "compare": (),
    "doctor": (),
    "explain": ("compare", "ncu", "trace"),
    "fleet": ("github",),
    "fuzz": (),
    "github": (),
    "history": ("page",),
    "metric_catalogue": (),
    "ncu": ("compare",),
    "page": (),
    "ranks": ("trace",),
    "sanitizer": (),
    "starter": (),
    "static": (),
    "trace": ("compare",),
    "trial": (),
    # The last one: its file of verdicts tells of errors of the other files.
    "export": (),
}
"""All features, each with those that it cannot do without: if one of them is deleted, it is absent too."""


def register(registry: Registry) -> None:
    """Let every feature that is there add its parts.

    Raises:
        ImportError: A feature is there and cannot be imported.
    """
    there = {name: module for name in FEATURES if (module := _module(name)) is not None}
    while lost := [name for name in there if not there.keys() >= set(FEATURES[name])]:
        for name in lost:
            del there[name]
    # All names first: a feature may show more if another one is there.
    registry.features += there
    for module in there.values():
        module.register(registry)


def _module(name: str) -> ModuleType | None:
    """Return a feature; None if its folder was deleted, or has nothing but what Python has compiled."""
    try:
        module = import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        return None
    return module if module.__file__ else None
