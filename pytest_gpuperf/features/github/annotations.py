"""GitHub workflow commands that show a failure at the test's line in a pull request."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.records.change import printable, printable_lines
from pytest_gpuperf.report.rows import failures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.judge.result import TestResult
from pytest_gpuperf.report.rows import Summary

MOST = 10
"""GitHub shows ten errors of a step and drops the others."""


def annotate(summary: Summary) -> list[str]:
    """Return the annotations of a run, which GitHub reads from the log; none elsewhere."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return []
    unexpected = [
        result for result in summary.results if result.record.nodeid not in summary.expected_failures
    ]
    prefix = _folder_in_repository(summary.root)
    return error_annotations(unexpected, lines=summary.lines, prefix=prefix)


def error_annotations(
    results: Sequence[TestResult], *, lines: Mapping[str, int] | None = None, prefix: str = ""
) -> list[str]:
    """Return `::error` commands for the failed tests that GitHub shows, the worst first.

    Names and messages may come from a pull request. They are escaped in the same way as by GitHub's own
    toolkit, so that none of them can start a command.

    Args:
        results: Every test with its verdict, without tests that pytest expected to fail.
        lines: Line of a test in its file, counted from 1, by node id.
        prefix: Folder of pytest's rootdir in the repository, such as `packages/kernels`; empty for its top.
    """
    failed = failures(results)[:MOST]
    return [_annotation(result, (lines or {}).get(result.record.nodeid), prefix) for result in failed]


def _annotation(result: TestResult, line: int | None, prefix: str) -> str:
    file, _, name = result.record.nodeid.partition("::")
    properties = {
        "file": posixpath.join(prefix, file),
        "line": "" if line is None else str(line),
        "title": f"gpuperf: {result.status.value}: {name}",
    }
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::error {written}::{_data(result.message())}"


def _data(text: str) -> str:
    return printable_lines(text).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


def _folder_in_repository(root: Path) -> str:
    """Return the path of pytest's rootdir in the repository on GitHub; empty for its top."""
    try:
        folder = root.relative_to(Path(os.environ.get("GITHUB_WORKSPACE", root))).as_posix()
    except ValueError:
        return ""
    return "" if folder == "." else folder
