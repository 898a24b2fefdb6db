"""Results of the runs of pytest in a test."""

from __future__ import annotations

import pytest


def expect(result: pytest.RunResult, *lines: str, **outcomes: int) -> None:
    """Check the outcomes of the tests of a run, and look for lines of its output."""
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(lines)


def expect_usage_error(result: pytest.RunResult, *lines: str) -> None:
    """Check that a run ended with a usage error, and look for lines of it."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(lines)


def said(result: pytest.RunResult) -> str:
    """Return the output of a run without line breaks."""
    return " ".join(result.stdout.str().split())
