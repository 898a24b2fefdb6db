"""The pytest that a worker of a fleet starts: it hands the results of a group of tests to the worker."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fleet.messages import Answer, EndOfTest, Test, encode
from pytest_gpuperf.features.fleet.worker_functions import ANSWER_ENV, PARENT_ENV
from pytest_gpuperf.records.run_store import RUN_FILES, file_of_run
from pytest_gpuperf.session.marker import Marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.session.run_report import RunReport

WATCHED_S = 1.0
"""Seconds between two looks at the worker."""
GRACE_S = 5.0
"""Seconds between the request to end and the kill."""


class ResultCollector:
    """Collects the results of one execution of pytest.

    Args:
        path: The file for the worker.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answer = Answer()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep the names of the tests."""
        self._answer.collected = tuple(Test(item.nodeid, _gpus(item)) for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the end of a test: its worst phase."""
        before = self._answer.outcomes.get(report.nodeid)
        seconds = report.duration + (before.seconds if before else 0.0)
        if before is None or before.ending == "passed" or report.outcome == "failed":
            self._answer.outcomes[report.nodeid] = EndOfTest(report.outcome, seconds, _message(report))
        else:
            self._answer.outcomes[report.nodeid] = msgspec.structs.replace(before, seconds=seconds)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write everything."""
        reports = session.config.pluginmanager.get_plugin("gpuperf-reports")
        report: RunReport | None = getattr(reports, "report", None)
        if report is not None:
            self._take(report)
        self._answer.status = int(session.exitstatus)
        self._path.write_bytes(encode(self._answer))

    def _take(self, report: RunReport) -> None:
        answer, folder = self._answer, report.summary().folder
        answer.run = msgspec.structs.replace(report.run(), tests=())
        answer.results = tuple(msgspec.structs.replace(result, unfinished=None) for result in report.results)
        if folder is not None:
            answer.files = dict(_traces(answer.results, folder / RUN_FILES[0]))


def _traces(results: Sequence[TestResult], run_file: Path) -> list[tuple[str, bytes]]:
    names = [name for result in results for name in result.record.trace_files]
    paths = [(name, file_of_run(run_file, name)) for name in names]
    return [(name, path.read_bytes()) for name, path in paths if path.is_file()]


def _gpus(item: pytest.Item) -> int:
    try:
        return max(1, Marker.of(item).gpus)
    except GpuperfError:  # the test itself tells of the mistake
        return 1


def _message(report: pytest.TestReport) -> str:
    if report.outcome == "passed":
        return ""
    if isinstance(report.longrepr, tuple):  # file, line and reason of a skip
        return str(report.longrepr[2])
    return report.longreprtext


def _end_with(parent: int) -> None:
    """End this process and its group if the worker is killed: the next one needs the GPU."""
    while os.getppid() == parent:
        time.sleep(WATCHED_S)
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(0, number)
        time.sleep(GRACE_S)


def pytest_configure(config: pytest.Config) -> None:
    """Begin, in the process that the worker started."""
    # Neither the processes that pytest starts nor those of a test are a group of the fleet.
    path, parent = os.environ.pop(ANSWER_ENV, ""), os.environ.pop(PARENT_ENV, "0")
    if path:
        threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
        config.pluginmanager.register(ResultCollector(Path(path)), "gpuperf-fleet-group")
