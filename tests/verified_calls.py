"""Timed calls on tensors in the memory of the host, for tests of their verification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.measure.reachable_tensors import StateSnapshot
from pytest_gpuperf.measure.verification.verifier import Verifier
from pytest_gpuperf.records.call import Call, Reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.records import Verification


class Calls:
    """Calls that take 10 µs, or what `time_us` says."""

    live = True
    memory = ()

    def __init__(self, call: Call, time_us: Callable[[], float] = lambda: 10.0) -> None:
        self._call = call
        self._time_us = time_us
        self.value: Any = None

    def reruns(self) -> Any:
        """Return the calls that are run again."""
        return [self] * 4

    def run(self, before: Callable[[], object]) -> float:
        """Run one."""
        before()
        self.value = self._call()
        return self._time_us()


def verify(call: Call, calls: Any = None, between: Callable[[], object] = lambda: None) -> Verification:
    """Verify calls.

    Args:
        call: The call.
        calls: Its timed calls.
        between: Runs between what is noted before the timing and the verification.
    """
    before = StateSnapshot(call)
    verifier = Verifier(call, before)
    between()
    found = verifier.replay((Calls(call) if calls is None else calls).reruns)
    before.restore()
    return found


def unsuspicious(found: Verification) -> bool:
    """Return True if nothing was found, and nothing left open."""
    return (found.refused, found.doubts, found.not_verified) == ("", (), "")


def times(count: int, call: Call) -> Callable[[], object]:
    """Return a function that makes some calls."""
    return lambda: [call() for _ in range(count)]


def data() -> torch.Tensor:
    """Return the same random numbers each time."""
    return torch.randn(64, 32, generator=torch.Generator().manual_seed(0))


def call_of(fn: Callable[..., Any], *args: Any, expected: Any = None, **options: Any) -> Call:
    """Return a call, with a reference if there is one."""
    if expected is None and not options:
        return Call("t", "main", fn, args)
    return Call("t", "main", fn, args, reference=Reference(expected, **options))
