"""Hook that shortens the failures of tests that measure, for `--gpuperf-brief`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.report.brief import shortened
from pytest_gpuperf.session.marker import STATE

if TYPE_CHECKING:
    from collections.abc import Generator


class BriefReports:
    """Replaces tracebacks and long messages by at most ten lines."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Shorten the report of a failed phase."""
        report = yield
        if report.failed and call.excinfo is not None and STATE in item.stash:
            report.longrepr = shortened(_message(call.excinfo), _place(item, call.excinfo))
        return report


def _message(raised: pytest.ExceptionInfo[BaseException]) -> str:
    failure = raised.value
    if isinstance(failure, pytest.fail.Exception):
        return str(failure.msg)
    return raised.exconly(tryshort=True)


def _place(item: pytest.Item, raised: pytest.ExceptionInfo[BaseException]) -> str:
    """Return file and line of the innermost frame in the project; of the test if none is.

    The plugin itself may lie in the project.
    """
    root, plugin = item.config.rootpath, Path(__file__).parents[1]
    for entry in reversed(raised.traceback.filter(raised)):
        path = Path(entry.path)
        if path.is_relative_to(root) and not {"site-packages", plugin} & {*path.parts, *path.parents}:
            return f"{path.relative_to(root).as_posix()}:{entry.lineno + 1}"
    file, line, _ = item.location
    return f"{file}:{(line or 0) + 1}"
