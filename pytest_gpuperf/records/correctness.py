"""Correctness of an output, and errors that compute-sanitizer found in the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.quantities import AbsoluteTolerance, Count, Ratio, RelativeTolerance

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_ULP = 2**-10
"""Smallest error that a ratio of errors tells from none."""


class Accuracy(Record, frozen=True, kw_only=True):
    """Error of an output in units in the last place (ULP) of its type; of several, the worst output's."""

    reference: str = ""
    """Type of the reference: `float64`, unless `note` says why not; empty without figures."""
    output: str = ""
    """Name of the output: `output[1]`."""
    dtype: str = ""
    """Type of the output, and of the ULP."""
    elements: Count = 0
    """Elements compared: all, or a sample of a large output."""
    max_ulp: Ratio | None = None
    """Largest error of an element, in ULP of its reference."""
    max_ulp_index: tuple[Count, ...] = ()
    rms_ulp: Ratio | None = None
    """Root mean square of all errors, in ULP of the root mean square of the reference."""
    bits: Ratio | None = None
    """Significant bits that are right: the root mean square error is 2^-bits of that of the reference."""
    reference_rms_ulp: Ratio | None = None
    """Root mean square error of the reference in the output's type; None if not computed in that type."""
    same_bits: bool = True
    """True if two calls with the same arguments gave the same bits."""
    note: str = ""
    """Why figures are missing, or why the reference is not in float64."""
    others: tuple[Accuracy, ...] = ()
    """Figures of the other outputs of floating types."""

    @property
    def by_output(self) -> Mapping[str, Accuracy]:
        """The figures of each output, by its name."""
        return {one.output: one for one in (self, *self.others)}

    @property
    def kind(self) -> str:
        """Types of output and reference: `float32 against float64`. Only errors of one kind are compared."""
        return f"{self.dtype} against {self.reference}"

    @property
    def error_ratio(self) -> float | None:
        """Root mean square error over the reference's own; None if that is not known."""
        if self.rms_ulp is None or self.reference_rms_ulp is None:
            return None
        return max(self.rms_ulp, LEAST_ULP) / max(self.reference_rms_ulp, LEAST_ULP)

    @property
    def values(self) -> dict[str, float]:
        """The figures by the names that limits use; those that are not known are left out."""
        found = {name: getattr(self, name) for name in ("max_ulp", "rms_ulp", "error_ratio", "same_bits")}
        return {name: float(value) for name, value in found.items() if value is not None}


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
    low_signal: str = ""
    """Reason why the reference tells little, such as one constant; empty if it does not."""
    accuracy: Accuracy | None = None
    """None if the output is wrong."""
    argument_bytes: Count = 0
    """Memory of the tensors among the arguments; 0 if the output is wrong."""
    output_bytes: Count = 0
    """Memory of the outputs that are no arguments."""
    written_bytes: Count = 0
    """Part of the outputs that is new memory, so that the call wrote every element."""


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
