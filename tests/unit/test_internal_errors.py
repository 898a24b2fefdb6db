"""The wrapper around hooks: which errors pass, which fail a test, and which become a line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.plugin.internal_errors import ISSUES, OwnErrors, guarded

if TYPE_CHECKING:
    from collections.abc import Generator

RUN: Any = SimpleNamespace(stash=pytest.Stash())


def test_tracker_is_the_one_of_the_package() -> None:
    project = msgspec.toml.decode((Path(__file__).parents[2] / "pyproject.toml").read_bytes())["project"]
    assert project["urls"]["Issues"] == ISSUES


def ends_with(error: BaseException, hook: str) -> OwnErrors:
    """Run a hook that raises."""

    def raises() -> None:
        raise error

    raises.__name__ = hook
    RUN.stash = pytest.Stash()
    guarded(raises, RUN)()
    return OwnErrors.of(RUN)


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        pytest.UsageError("x"),
        pytest.exit.Exception("x"),
        pytest.skip.Exception("x"),
        pytest.Session.Failed("x"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA out of memory. Tried to allocate 9.00 GiB"),
    ],
)
def test_errors_of_others_pass(error: BaseException) -> None:
    with pytest.raises(type(error), match=str(error) or None):
        ends_with(error, "pytest_sessionfinish")


@pytest.mark.parametrize(
    ("hook", "raised"),
    [("pytest_runtestloop", pytest.UsageError), ("pytest_runtest_call", pytest.fail.Exception)],
)
def test_error_to_fix_is_not_called_internal(hook: str, raised: type[BaseException]) -> None:
    with pytest.raises(raised, match=r"gpuperf: mend it$"):
        ends_with(GpuperfError("mend it"), hook)


def test_only_the_first_error_of_a_hook_is_kept() -> None:
    own = ends_with(ValueError("first"), "pytest_sessionfinish")
    own.note("pytest_sessionfinish", ValueError("second"))
    (line,) = own.news.failures.values()
    assert line.startswith("internal error in pytest_sessionfinish: ValueError: first")


def around(before: object = None, after: object = None) -> Generator[None, object, object]:
    """Make a hook wrapper that raises before or after the wrapped hook."""

    def pytest_collection() -> Generator[None, object, object]:
        if before is not None:
            raise ValueError(before)
        try:
            return (yield)
        finally:
            if after is not None:
                raise ValueError(after)

    RUN.stash = pytest.Stash()
    wrapper: Generator[None, object, object] = guarded(pytest_collection, RUN)()
    next(wrapper)
    return wrapper


@pytest.mark.parametrize(("before", "after"), [(None, None), ("x", None), (None, "x")])
def test_wrapper_hands_on_what_it_wraps(before: object, after: object) -> None:
    with pytest.raises(StopIteration) as end:
        around(before, after).send("outcome")
    assert end.value.value == "outcome"
    with pytest.raises(KeyError, match="theirs"):
        around(before, after).throw(KeyError("theirs"))
    assert bool(OwnErrors.of(RUN).news.failures) == bool(before or after)
