"""News of a run: the one channel for what its reader should know besides the verdicts."""

from __future__ import annotations

import msgspec

ERROR = "error: "
"""Beginning of an error among the notices."""


class News(msgspec.Struct, tag=True):
    """Facts and errors of a run that no verdict has."""

    notices: list[str] = []
    """Lines about the whole run; errors begin with `ERROR`."""
    failed: bool = False
    """True if one of these errors fails the run."""
    failures: dict[str, str] = {}
    """The first unexpected error of each hook, as a line."""
    no_counters: str = ""
    """Reason why the whole run has no counters; empty if it has, or if no test asks for any."""

    def note(self, *lines: str) -> None:
        """Add facts."""
        self.notices += lines

    def error(self, *lines: object) -> None:
        """Add errors that fail the run."""
        self.notices += [f"{ERROR}{line}" for line in lines]
        self.failed = self.failed or bool(lines)

    def merge(self, other: News) -> None:
        """Add what is newer in the news of a worker."""
        self.notices[:] = dict.fromkeys((*self.notices, *other.notices))
        self.failed = self.failed or other.failed
        self.failures = {**other.failures, **self.failures}
        self.no_counters = other.no_counters
