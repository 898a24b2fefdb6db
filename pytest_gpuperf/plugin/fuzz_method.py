"""The method `fuzz` of the `gpuperf` fixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.plugin.arguments import (
    check_callable,
    check_exceptions,
    check_seconds,
    reference_of,
)
from pytest_gpuperf.plugin.facade_base import Recorder
from pytest_gpuperf.records.call import LAYOUTS, FuzzCall

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytest_gpuperf.features.fuzz.case import FuzzCase
    from pytest_gpuperf.records import Fuzzing


class Fuzzes(Recorder):
    """Compares a callable with its reference on generated arguments."""

    def fuzz(
        self,
        fn: Callable[..., Any],
        /,
        *,
        expected: Callable[..., Any],
        shapes: str,
        dtypes: Any,
        sizes: Mapping[str, Any] | None = None,
        layouts: Collection[str] = LAYOUTS,
        inputs: Callable[[FuzzCase], Any] | None = None,
        refuses: type[Exception] | tuple[type[Exception], ...] = (),
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        mutates: bool | Collection[int | str] = (),
        seconds: float = 5.0,
        label: str = "main",
    ) -> Fuzzing:
        """Fail the test with the smallest shape, type and strides for which the output is wrong.

        Compares as `check` does, for fixed cases and then for those that Hypothesis draws, until the time is
        over. Hypothesis keeps the failure for the next run.

        Args:
            fn: The callable under test.
            expected: A reference callable that takes the same arguments. A case in which it raises does not
                count.
            shapes: Dimensions of each tensor, by name or size: `(m,k),(k,n)`; `...` for any number of them.
            dtypes: Types of the tensors; all tensors of a case have one type.
            sizes: For a name its sizes, such as `[64, 128]` or `range(1, 4097)`; by default any, also 0.
            layouts: Some of `contiguous`, `transposed`, `padded` (gaps between rows), `strided` (every second
                element) and `misaligned` (begins one element late).
            inputs: Makes the arguments of a case from `case.tensors`, `case.sizes`, `case.dtype` and
                `case.device`; by default they are the tensors.
            refuses: Exceptions by which `fn` may refuse a case.
            rtol: As in `check`.
            atol: As in `check`.
            equal_nan: As in `check`.
            mutates: As in `check`.
            seconds: Time to search; a failure is made smaller for at most as long again.
            label: Name of the measurement.

        Returns:
            The number of cases and the time they took.
        """
        __tracebackhide__ = True
        source, call = self._begin("fuzz", label, fn, (), {})
        try:
            reference = reference_of(check_callable("expected", expected), rtol, atol, equal_nan, mutates)
            result = source.fuzz(
                FuzzCall(
                    call.nodeid,
                    label,
                    fn,
                    reference=reference,
                    shapes=shapes,
                    sizes={} if sizes is None else sizes,
                    dtypes=dtypes,
                    layouts=layouts,
                    make=None if inputs is None else check_callable("inputs", inputs),
                    refuses=check_exceptions(refuses),
                    seconds=check_seconds(seconds),
                )
            )
        except GpuperfError as error:
            self._fail(error)
        self._keep(label, fuzz=result)
        if not result.passed:
            pytest.fail(result.failure)
        return result
