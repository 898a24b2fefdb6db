"""The one kind of error this package raises on purpose."""

from __future__ import annotations


class GpuperfError(Exception):
    """Something a user can mend: says what was found, what was expected and what to do next.

    Args:
        found: What was found, a sentence without a final stop.
        expected: What was expected instead.
        next_step: What to type or change next.
    """

    def __init__(self, found: str, *, expected: str = "", next_step: str = "") -> None:
        self.found = found
        self.expected = expected
        self.next_step = next_step
        parts = [found]
        if expected:
            parts.append(f"expected {expected}")
        if next_step:
            parts.append(next_step)
        super().__init__("; ".join(parts))


class NoGpuError(GpuperfError):
    """There is neither a GPU nor a recording of one: no fault of the test that asked."""
