"""The errors that this package raises on purpose."""

from __future__ import annotations


class GpuperfError(Exception):
    """An error that the user can fix; it states the finding, the expectation and the next step.

    Args:
        found: A sentence without a final stop.
        expected: The expected state, a noun phrase.
        next_step: A command to type, or a change to make.
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
    """Neither a GPU nor a recording is available; the test did nothing wrong."""
