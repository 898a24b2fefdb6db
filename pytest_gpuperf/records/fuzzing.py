"""Result of a search for shapes, types and strides with a wrong output."""

from __future__ import annotations

from pytest_gpuperf.records.base import Record
from pytest_gpuperf.records.number_ranges import Count, Seconds


class Fuzzing(Record, frozen=True, kw_only=True):
    """A search with generated arguments."""

    passed: bool
    cases: Count
    """Cases that were compared with the reference."""
    refused: Count = 0
    """Cases that the reference, or the function by an exception of `refuses`, did not take."""
    seconds: Seconds
    found_after: Count = 0
    """Number of the first failed case, from 1; 0 if none failed."""
    case: str = ""
    """The smallest failed case: `m=1, n=1025, float32, transposed`."""
    line: str = ""
    """Python that builds its arguments and calls the function."""
    failure: str = ""
    """Message of the failure; empty if it passed."""
