"""Whether an output is right, and what compute-sanitizer says of the kernels."""

from __future__ import annotations

from pytest_gpuperf.records.base import Record


class Correctness(Record, frozen=True, kw_only=True):
    """How an output differs from its reference."""

    passed: bool
    max_abs_diff: float = 0.0
    max_rel_diff: float = 0.0
    max_abs_index: tuple[int, ...] = ()
    """Where the largest absolute difference is, as an index into the output."""
    max_rel_index: tuple[int, ...] = ()
    rtol: float = 0.0
    atol: float = 0.0
    dtype: str = ""
    elements: int = 0
    mismatched: int = 0
    """Elements outside the tolerance."""
    failure: str = ""
    """Why it failed, as shown to the user; empty where it passed."""


class SanitizerHit(Record, frozen=True, kw_only=True):
    """An error that compute-sanitizer found in a test's kernels, the first of those alike."""

    kind: str
    """As the tool says it: `Invalid __global__ write of size 4 bytes`."""
    kernel: str = ""
    """Empty where the tool names none: it was a copy."""
    places: tuple[str, ...] = ()
    """Of the instructions: `k.py:12`, or `+0x90` in the kernel where lines are unknown; two for a race."""
    block: tuple[int, int, int] | None = None
    threads: tuple[tuple[int, int, int], ...] = ()
    """Index in the block: one, or the two of a race."""
    address: str = ""
    """Hexadecimal; of shared memory the offset in it."""
    detail: str = ""
    """What else the tool says: how far from which allocation, which values raced."""
    label: str = ""
    """Of the call that launched the kernel; empty where the test launched it outside of all calls."""
    count: int = 1
    """How many are alike: same kind, kernel, places and label."""


class SanitizerResult(Record, frozen=True, kw_only=True):
    """What compute-sanitizer found in one test."""

    tool: str
    """`memcheck`, `racecheck`, `initcheck` or `synccheck`."""
    version: str = ""
    """Of compute-sanitizer."""
    hits: tuple[SanitizerHit, ...] = ()
    """The first few that differ."""
    count: int = 0
    """Of all errors; 0 where the test has none."""
    cut: bool = False
    """The test was ended for its many errors: there are more."""
    unchecked: str = ""
    """Why a test without errors was not checked to its end; empty where it was."""
