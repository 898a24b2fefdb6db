"""The end of other processes."""

from __future__ import annotations

import time
from pathlib import Path


def has_gone(pid: int, within_s: float) -> bool:
    """Wait until a process has ended; it may stay as a zombie until its parent looks."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False
