"""Let the autotuners of Triton choose again in each test; the plugin leaves their choices in the process."""

from __future__ import annotations

from typing import Any

from triton.runtime.autotuner import Autotuner

_TUNERS: list[Any] = []


def pytest_configure() -> None:
    """Note each autotuner; tests import theirs during the collection."""
    make = Autotuner.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        _TUNERS.append(self)

    Autotuner.__init__ = init


def pytest_runtest_setup() -> None:
    """Drop the choices in memory. Triton has none on disk, unless a kernel asks for it."""
    for tuner in _TUNERS:
        tuner.cache.clear()
