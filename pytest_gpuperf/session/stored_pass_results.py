"""Results of the passes on disk, for a process that replaces the one that ran them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.measure.counters.profiling_pass import PassReading
from pytest_gpuperf.records import SanitizerResult
from pytest_gpuperf.records.files import write_files

if TYPE_CHECKING:
    from pathlib import Path


class PassResults(msgspec.Struct):
    """The results of all passes of a run."""

    counters: PassReading | None = None
    unavailable: str = ""
    """Reason for having no counters."""
    sanitized: dict[str, SanitizerResult] = {}
    skipped: dict[str, SanitizerResult] = {}

    def write(self, path: Path) -> None:
        """Write the results."""
        write_files({path: msgspec.msgpack.encode(self)})


def read_results(path: Path) -> PassResults | None:
    """Read the results that another process has written; None if there are none."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.msgpack.decode(path.read_bytes(), type=PassResults)
    return None
