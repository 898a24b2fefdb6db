"""Compare a function with its reference for shapes, types and strides that nobody has thought of."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.errors import GpuperfError, show_repr
from pytest_gpuperf.features.fuzz.case import EndOfSearchError, FuzzCase, arguments_of, line_of
from pytest_gpuperf.features.fuzz.layouts import LAYOUTS
from pytest_gpuperf.features.fuzz.shape_signature import parse_signature
from pytest_gpuperf.features.fuzz.space import LARGE, Space
from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.measure.device.lasting_errors import why_broken
from pytest_gpuperf.measure.device.memory import free_bytes
from pytest_gpuperf.records.fuzzing import Fuzzing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_gpuperf.features.fuzz.search import Search
    from pytest_gpuperf.records.call import FuzzCall

COPIES = 10
"""Memory of a comparison, in sizes of its largest tensor: arguments, outputs, and copies of both."""


def fuzz(call: FuzzCall, device: torch.device, progress: Callable[[str], None]) -> Fuzzing:
    """Search for a case in which the function differs from its reference.

    Args:
        call: The function, its reference, and the cases.
        device: The device of the tensors.
        progress: Shows how far it is.

    Raises:
        GpuperfError: Hypothesis is missing, the cases are not described as expected, or none of them
            could be compared.
    """
    from pytest_gpuperf.features.fuzz.search import Search

    space = space_of(call, device)
    begin = time.monotonic()
    tested = _Tested(call)
    search = Search(space, tested.failure, f"{call.nodeid}#{call.label}", call.seconds, progress)
    on_gpu = device.type == "cuda"
    before = torch.get_rng_state(), torch.cuda.get_rng_state(device) if on_gpu else None
    try:
        search.run(_large(space, device))
    finally:
        progress("")
        torch.set_rng_state(before[0])
        if before[1] is not None and not tested.broken:
            torch.cuda.set_rng_state(before[1], device)
    case = search.smallest
    if case is None and search.cases == tested.refused:
        raise GpuperfError(
            f"none of {search.cases} cases could be compared, the first because {tested.why_refused}",
            expected="cases that the callable and its reference take",
            next_step="correct expected=, sizes=, inputs= or refuses=, or give more seconds=",
        )
    line = "" if case is None else line_of(case, call.fn, call.make, tested.stars)
    return Fuzzing(
        passed=case is None,
        cases=search.cases - tested.refused,
        refused=tested.refused,
        seconds=time.monotonic() - begin,
        found_after=search.found_after,
        case="" if case is None else str(case),
        line=line,
        failure="" if case is None else _message(call, search, line),
    )


def space_of(call: FuzzCall, device: torch.device) -> Space:
    """Return the cases that a call describes.

    Raises:
        GpuperfError: They are not described as expected.
    """
    return Space(
        call.shapes,
        parse_signature(call.shapes, call.sizes),
        _dtypes(call.dtypes),
        _layouts(call.layouts),
        device.type,
    )


def _message(call: FuzzCall, search: Search, line: str) -> str:
    return (
        f"{call} fails for {search.smallest} (the smallest failure of {search.cases} cases):\n"
        f"{search.failure}\n"
        f"to repeat it: {line}"
    )


@dataclass
class _Tested:
    """Compares the function with its reference on one case."""

    call: FuzzCall
    refused: int = 0
    """Cases that could not be compared."""
    why_refused: str = ""
    """Reason for the first of them."""
    stars: str = "*"
    """As in `Arguments`."""
    broken: bool = False
    """True if a kernel broke the GPU."""

    def failure(self, case: FuzzCase) -> str:
        """Return why a case fails; empty if it passes, or if it cannot be compared."""
        if self.broken:
            raise EndOfSearchError
        # The tensors of a case live as long as the case.
        try:
            args, kwargs, self.stars = arguments_of(replace(case), self.call.make)
        except torch.OutOfMemoryError:
            return self._refused("its arguments do not fit into memory")
        except Exception as error:
            raise GpuperfError(
                f"inputs raised {type(error).__name__}: {error}",
                expected="a callable that returns the arguments of a case",
                next_step=f"call it with {case!r}",
            ) from error
        reference = self.call.reference
        try:
            result = check(
                self.call.fn,
                args,
                kwargs,
                expected=reference.expected,
                rtol=reference.rtol,
                atol=reference.atol,
                equal_nan=reference.equal_nan,
                mutates=reference.mutates,
                figures=False,
            )
        except GpuperfError:
            raise
        except torch.OutOfMemoryError:
            return self._refused("it does not fit into memory")
        except Exception as error:
            return self._raised(error, args, kwargs)
        return "" if result.passed else result.failure

    def _refused(self, why: str) -> str:
        """Count a case that was not compared."""
        self.refused += 1
        self.why_refused = self.why_refused or why
        return ""

    def _raised(self, error: Exception, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        if why := why_broken():
            self.broken = True
            return f"it breaks the GPU: {why}"
        try:
            self.call.reference.expected(*args, **kwargs)
        except Exception as own:
            return self._refused(f"the reference raises {type(own).__name__}: {own}")
        if isinstance(error, self.call.refuses):
            return self._refused(f"the callable refuses it: {type(error).__name__}: {error}")
        return f"it raises {type(error).__name__}: {error}"


def _large(space: Space, device: torch.device) -> list[FuzzCase]:
    """Return the cases with more than 2**31 elements, if there is memory for them."""
    if device.type != "cuda":
        return []
    least = min(dtype.itemsize for dtype in space.dtypes) * LARGE
    return space.large() if COPIES * least < free_bytes(device) else []


def _dtypes(given: object) -> tuple[torch.dtype, ...]:
    some = tuple(given) if isinstance(given, (list, tuple, set, frozenset)) else (given,)
    if not some or not all(isinstance(one, torch.dtype) for one in some):
        raise GpuperfError(
            f"dtypes={show_repr(given)}", expected="types such as (torch.float32, torch.bfloat16)"
        )
    return some


def _layouts(given: object) -> tuple[str, ...]:
    some = tuple(given) if isinstance(given, (list, tuple, set, frozenset)) else (given,)
    if not some or not all(isinstance(one, str) and one in LAYOUTS for one in some):
        raise GpuperfError(f"layouts={show_repr(given)}", expected=f"some of {', '.join(LAYOUTS)}")
    return tuple(name for name in LAYOUTS if name in some)
