"""The same random data in every session: random numbers are seeded by the test's id."""

from __future__ import annotations

import hashlib
import random
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.session.marker import STATE, name_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from _pytest.fixtures import SubRequest

RANDOMLY = "randomly_seed"
"""Option of pytest-randomly, which seeds again before the fixtures and before the test, also for faker."""


def seed_of(name: str) -> int:
    """Return the seed that belongs to a name: below 2³², as NumPy requires."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:4], "big")


def seed(number: int) -> None:
    """Seed `random`, and the global generators of NumPy and torch (CPU and all GPUs) if they are imported."""
    random.seed(number)
    if (numpy := _imported("numpy", "random")) is not None:
        numpy.random.seed(number)
    if (torch := _imported("torch", "manual_seed")) is not None:
        # Without a GPU, each call of `torch.manual_seed` keeps three stack traces for a GPU that never comes.
        (torch if torch.cuda.is_available() else torch.default_generator).manual_seed(number)


class Seeding:
    """Seeds before the fixtures of each test that measures, and before each fixture of a wider scope.

    A fixture of a module or of a session has data of its own, whichever test comes first.
    """

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Let pytest-randomly seed by the test's id as well."""
        option = item.config.option
        if not _measures(item) or not hasattr(option, RANDOMLY):
            return (yield)
        before = getattr(option, RANDOMLY)
        setattr(option, RANDOMLY, seed_of(name_of(item)))
        try:
            return (yield)
        finally:
            setattr(option, RANDOMLY, before)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Seed by the test's id, also if a plugin runs the test again."""
        if _measures(item):
            seed(seed_of(name_of(item)))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: SubRequest
    ) -> Generator[None, object, object]:
        """Seed by the id of a fixture that several tests share; restore the test's numbers after it."""
        if request.scope == "function":
            return (yield)
        with _set_aside():
            name = f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]"
            seed(seed_of(name))
            return (yield)


def _measures(item: pytest.Item) -> bool:
    return STATE in item.stash or item.get_closest_marker("gpuperf") is not None


def _imported(name: str, attribute: str) -> Any:
    """Return an imported module; None if it is not imported, or not in full."""
    module = sys.modules.get(name)
    return module if hasattr(module, attribute) else None


@contextmanager
def _set_aside() -> Iterator[None]:
    """Restore all random numbers at the end of the block."""
    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        if (numpy := _imported("numpy", "random")) is not None:
            stack.callback(numpy.random.set_state, numpy.random.get_state())
        if (torch := _imported("torch", "random")) is not None:
            gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
            stack.enter_context(torch.random.fork_rng(gpus))
        yield
