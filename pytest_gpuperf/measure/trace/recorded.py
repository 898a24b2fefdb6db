"""Present classes and fusion candidates for a recorded trace.

Both are judgements, not measurements: like limits and baselines, a replay takes the present ones. What was
measured stays as it was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.measure.trace.categories import category_of, category_us
from pytest_gpuperf.measure.trace.classes import class_shares_pct, classify
from pytest_gpuperf.measure.trace.fusion import split_again

if TYPE_CHECKING:
    from pytest_gpuperf.records import Measurement, Run, TestRecord, Trace


def _classified(trace: Trace) -> Trace:
    classes = classify(trace.kernels)
    kernels = tuple(
        replace(kernel, kernel_class=found, category=category_of(kernel.name))
        for kernel, found in zip(trace.kernels, classes, strict=True)
    )
    moved_us = trace.copy_us + trace.memset_us
    return replace(
        trace,
        kernels=kernels,
        kernel_us=sum(kernel.total_us for kernel in kernels),
        category_us=category_us(kernels, moved_us),
        class_shares_pct=class_shares_pct(
            kernels, 100 * moved_us / trace.gpu_time_us if trace.gpu_time_us else 0.0
        ),
        fusion_candidates=split_again(trace.fusion_candidates, kernels),
    )


def classify_again(run: Run) -> Run:
    """Return the run with the present kernel classes and fusion candidates in its traces."""
    return replace(run, tests=tuple(map(classify_test, run.tests)))


def classify_test(test: TestRecord) -> TestRecord:
    """Return the test with the present kernel classes and fusion candidates in its traces."""
    if all(measured.trace is None for measured in test.measurements.values()):
        return test
    measurements = {label: _measurement(measured) for label, measured in test.measurements.items()}
    return replace(test, measurements=measurements)


def _measurement(measured: Measurement) -> Measurement:
    return measured if measured.trace is None else replace(measured, trace=_classified(measured.trace))
