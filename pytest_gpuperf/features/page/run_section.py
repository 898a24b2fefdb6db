"""Section: the results of one run on one GPU model, and the facts that the page shows with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_gpuperf.records.run import STATIC_SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_gpuperf.baseline.store import Expectations
    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Run
    from pytest_gpuperf.records.baseline import MeasurementBaseline, RunNote
    from pytest_gpuperf.report.rows import Summary


@dataclass(frozen=True)
class SourceLinks:
    """Links to the files of the tests at the commit that was measured."""

    repository: str = ""
    """Address of the repository on a web site, without a slash at its end; empty if it has none."""
    prefix: str = ""
    """Folder of pytest's rootdir in the repository; empty for its top."""

    def of_commit(self, commit: str) -> str:
        """Return the address of a commit; empty if it is not known."""
        return f"{self.repository}/commit/{quote(commit)}" if self._has(commit) else ""

    def of_test(self, commit: str, nodeid: str, line: int | None = None) -> str:
        """Return the address of a test's file at a commit; empty if it is not known.

        Args:
            commit: The commit; empty if it is not known.
            nodeid: The test.
            line: Its line, counted from 1; None if it is not known.
        """
        if not self._has(commit):
            return ""
        path = "/".join(filter(None, (self.prefix, nodeid.partition("::")[0])))
        return f"{self.repository}/blob/{quote(commit)}/{quote(path)}" + (f"#L{line}" if line else "")

    def _has(self, commit: str) -> bool:
        return bool(self.repository and commit)


@dataclass(frozen=True)
class Section:
    """The results of one run on one GPU model."""

    run: Run
    """The run that measured."""
    summary: Summary
    expected: Expectations
    """Baselines of the tests."""
    links: SourceLinks = field(default_factory=SourceLinks)

    @property
    def title(self) -> str:
        """Name of the GPU."""
        return self.run.environment.gpu.name or self.run.environment.gpu.slug

    def known(
        self, result: TestResult, label: str
    ) -> tuple[MeasurementBaseline | None, Mapping[str, RunNote]]:
        """Return the baseline of a measurement, None if it has none, and the origins of its sessions."""
        nodeid = result.record.nodeid
        slug = STATIC_SOURCE if result.record.measurements[label].is_static else ""
        return self.expected.measurement(nodeid, label, slug), self.expected.runs(nodeid, slug)
