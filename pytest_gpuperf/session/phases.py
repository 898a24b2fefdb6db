"""Seconds of a run by what it did."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

Phase: TypeAlias = Literal["imports", "checks", "code", "times", "counters", "settlement"]
LONG_S = 10.0
"""A shorter run is not worth a line."""


class Phases:
    """Adds up the seconds of each phase; the first launch of a kernel, which compiles it, is in its phase."""

    def __init__(self) -> None:
        self._seconds: dict[Phase, float] = {"imports": _age_s()}

    @contextmanager
    def __call__(self, phase: Phase) -> Iterator[None]:
        """Count the seconds of the block."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + time.monotonic() - begin

    def lines(self) -> list[str]:
        """Return a line about a long run; none about a short one."""
        whole = _age_s()
        parts = [f"{phase} {seconds:.0f}" for phase, seconds in self._seconds.items() if seconds >= 1]
        return [f"seconds: {whole:.0f}, of which {', '.join(parts)}"] if whole >= LONG_S and parts else []


def _age_s() -> float:
    """Return the seconds since this process began; 0 if the system does not tell."""
    try:
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # Field 22 is the start in clock ticks since the boot (proc_pid_stat(5)); the first two are cut off.
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(after_name[19]) / os.sysconf("SC_CLK_TCK")
