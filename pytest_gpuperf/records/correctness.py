"""Correctness of an output, and errors that compute-sanitizer found in the kernels."""

from __future__ import annotations

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.quantities import AbsoluteTolerance, Count, RelativeTolerance


class Correctness(Record, frozen=True, kw_only=True):
    """Difference of an output from its reference."""

    passed: bool
    max_abs_diff: float = 0.0
    max_rel_diff: float = 0.0
    max_abs_index: tuple[Count, ...] = ()
    """Index of the largest absolute difference in the output."""
    max_rel_index: tuple[Count, ...] = ()
    rtol: RelativeTolerance = 0.0
    atol: AbsoluteTolerance = 0.0
    dtype: str = ""
    elements: Count = 0
    mismatched: Count = 0
    """Elements outside the tolerance."""
    failure: str = ""
    """Message of the failure; empty if it passed."""


class SanitizerHit(Record, frozen=True, kw_only=True):
    """An error that compute-sanitizer found in a test's kernels, the first of those alike."""

    kind: str
    """Text of the tool: `Invalid __global__ write of size 4 bytes`."""
    kernel: str = ""
    """Empty if the tool names none: it was a copy."""
    places: tuple[str, ...] = ()
    """Places of the instructions: `k.py:12`, or `+0x90` in the kernel if lines are unknown; two for a
    race."""
    block: tuple[Count, Count, Count] | None = None
    threads: tuple[tuple[Count, Count, Count], ...] = ()
    """Index in the block: one, or the two of a race."""
    address: str = ""
    """Hexadecimal; the offset for shared memory."""
    detail: str = ""
    """Further text of the tool: distance to an allocation, values that raced."""
    label: str = ""
    """Label of the call that launched the kernel; empty if the test launched it outside of all calls."""
    count: Count = 1
    """Number of errors of the same kind, kernel, places and label."""


class SanitizerResult(Record, frozen=True, kw_only=True):
    """Errors that compute-sanitizer found in one test."""

    tool: str
    """`memcheck`, `racecheck`, `initcheck` or `synccheck`."""
    version: str = ""
    """Version of compute-sanitizer."""
    hits: tuple[SanitizerHit, ...] = ()
    """The first few that differ."""
    count: Count = 0
    """Number of all errors."""
    cut: bool = False
    """True if the test was ended for its many errors: there are more."""
    unchecked: str = ""
    """Reason why a test without errors was not checked to its end; empty if it was."""
