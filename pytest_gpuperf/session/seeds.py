"""The same data and the same code in every session, whichever tests run before.

Random numbers are seeded by the test's id, and code that torch.compile has made for other tests is forgotten.
"""

from __future__ import annotations

import hashlib
import random
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.compat.compiler_names import forget_compiled_code
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
        """Leave the numbers of other tests alone, and let pytest-randomly seed by the test's id as well."""
        option = item.config.option
        if not _measures(item):
            return (yield)
        with ExitStack() as stack:
            stack.enter_context(random_numbers_kept())
            if hasattr(option, RANDOMLY):
                stack.callback(setattr, option, RANDOMLY, getattr(option, RANDOMLY))
                setattr(option, RANDOMLY, seed_of(name_of(item)))
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Seed by the test's id, also if a plugin runs the test again."""
        if _measures(item):
            seed(seed_of(name_of(item)))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: SubRequest
    ) -> Generator[None, object, object]:
        """Seed by the id of a fixture that several tests share; restore the test's numbers after it.

        The code that it has compiled is forgotten: the tests after the first one find none either.
        """
        if request.scope == "function":
            return (yield)
        with random_numbers_kept(), ExitStack() as stack:
            stack.callback(forget_compiled_code)
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
def random_numbers_kept() -> Iterator[None]:
    """Restore all random numbers at the end of the block."""
    with ExitStack() as stack:
        stack.callback(random.setstate, random.getstate())
        if (numpy := _imported("numpy", "random")) is not None:
            stack.callback(numpy.random.set_state, numpy.random.get_state())
        if (torch := _imported("torch", "random")) is not None:
            stack.callback(torch.set_rng_state, torch.get_rng_state())
            # A broken GPU draws no numbers any more.
            with suppress(RuntimeError):
                if torch.cuda.is_initialized():
                    stack.callback(_restore_on_gpus, torch, torch.cuda.get_rng_state_all())
        yield


def _restore_on_gpus(torch: Any, states: object) -> None:
    with suppress(RuntimeError):
        torch.cuda.set_rng_state_all(states)
