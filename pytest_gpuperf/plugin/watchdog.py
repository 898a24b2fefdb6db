"""Hooks of the process that runs the tests: notice a broken GPU, and end what takes too long."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.compat.compiler_names import leave_compile_workers
from pytest_gpuperf.compat.pytest_names import (
    benchmarks_of,
    kept_failure,
    leave_out_summary_of_hypothesis,
    reporter_type,
)
from pytest_gpuperf.measure.device.lasting_errors import why_broken
from pytest_gpuperf.plugin.internal_errors import OwnErrors, register

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_gpuperf.session.worker_messages import Link

LAST_S = 30
"""Seconds for the end of a process whose GPU is broken: teardown of fixtures, coverage, counters."""
PR_SET_PDEATHSIG = 1
XDIST_ENV = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID")


class GpuWatch:
    """Notices after each phase of a test that the GPU is broken, and ends the run.

    Args:
        tell: Called once, with the test and the error.
    """

    def __init__(self, tell: Callable[[str, str], object] = lambda _nodeid, _error: None) -> None:
        self.broken = ""
        """The error; empty while the GPU works."""
        self._tell = tell

    @pytest.hookimpl(wrapper=True)
    def _looked(self, item: pytest.Item) -> Generator[None, object, object]:
        """Look after the fixtures, after the test, before it is judged, and after the end of the fixtures."""
        try:
            outcome = yield
        except BaseException:
            self._finds(item)
            raise
        # unittest's runner keeps an exception for pytest to find later.
        if self._finds(item) and not kept_failure(item):
            raise pytest.fail.Exception(f"gpuperf: a kernel broke the GPU: {self.broken}", pytrace=False)
        return outcome

    pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _looked

    def _finds(self, item: pytest.Item) -> bool:
        if self.broken:
            return False
        self.broken = why_broken()
        if self.broken:
            item.session.shouldstop = f"{item.nodeid} broke the GPU"
            self._tell(item.nodeid, self.broken)
        return bool(self.broken)


class Timeout:
    """Ends this process if a test takes too long.

    A thread of the C library does it: the test may hang in a library that holds Python's lock.

    Args:
        seconds: The time of one test.
        stacks: File for the stacks of all threads.
    """

    def __init__(self, seconds: float, stacks: io.TextIOWrapper) -> None:
        self._seconds = seconds
        self._stacks = stacks

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """End the time of the test."""
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Begin the time of the test, after pytest's own `faulthandler_timeout`, which only shows stacks."""
        faulthandler.dump_traceback_later(max(self._seconds, 1e-3), exit=True, file=self._stacks)


class Worker:
    """Ends this process once the GPU is broken; the controller starts another one.

    Args:
        link: Leads to the controller.
        config: pytest's.
        timeout_s: Seconds that one test may take; 0 for any time.
    """

    def __init__(self, link: Link, config: pytest.Config, timeout_s: float) -> None:
        from pytest_gpuperf.session.worker_messages import Broken

        self._link = link
        self._config = config
        own = OwnErrors.of(config)
        own.tell = lambda: link.tell(own.news)
        self._watch = GpuWatch(lambda nodeid, error: link.tell(Broken(nodeid, error)))
        register(config, self._watch, "gpuperf-watch")
        self._stacks = Path(link.orders.stacks).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
        if timeout_s:
            register(config, Timeout(timeout_s, self._stacks), "gpuperf-timeout")
        if sys.platform == "linux":
            # End at once if the controller is killed: nobody would read the results.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # It is the only worker: pytest-benchmark may time, and conftest.py needs no files of its own.
        if len(link.orders.cards) == 1:
            for name in XDIST_ENV:
                os.environ.pop(name, None)
        leave_out_summary_of_hypothesis(config)
        # The first clean-up is the last one that pytest does.
        config.add_cleanup(_leave)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def _told(self) -> Generator[None, object, object]:
        """Tell mistakes on the command line, in markers, and those that the passes have found."""
        from pytest_gpuperf.session.worker_messages import Refused

        try:
            return (yield)
        except pytest.UsageError as error:
            self._link.tell(Refused("\n".join(map(str, error.args))))
            raise

    pytest_runtestloop = _told

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Leave out garbage collections: those during an import of torch take a tenth of its time.

        What imports have made stays out of later ones, too: pytest runs five at the end.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            return (yield from self._told())
        finally:
            gc.freeze()
            if collects:
                gc.enable()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, object, object]:
        """Bring the tests into the order of the process that this one replaces."""
        outcome = yield
        if self._link.orders.nodeids is not None:
            found = {item.nodeid: item for item in items}
            items[:] = [found[nodeid] for nodeid in self._link.orders.nodeids if nodeid in found]
        return outcome

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Tell how many tests options have deselected."""
        from pytest_gpuperf.session.worker_messages import Deselected

        self._link.tell(Deselected(len(items)))

    def pytest_sessionstart(self) -> None:
        """Let the controller show the stacks of a crash."""
        faulthandler.enable(file=self._stacks)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """End without telling xdist that all is well if another process has to follow."""
        if self._watch.broken:
            faulthandler.dump_traceback_later(LAST_S, exit=True, file=self._stacks)
        try:
            outcome = yield
            self._tell_benchmarks()
            return outcome
        finally:
            if self._watch.broken:
                os._exit(0)

    def _tell_benchmarks(self) -> None:
        from pytest_gpuperf.session.worker_messages import Benchmarks

        session, reporter = benchmarks_of(self._config), reporter_type()
        if session is not None and session.benchmarks and reporter is not None:
            table = io.StringIO()
            session.display(reporter(self._config, table))
            self._link.tell(Benchmarks(table.getvalue()))


def _leave() -> None:
    """End this process without taking Python's and CUDA's objects apart: the controller waits for it."""
    leave_compile_workers()
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(0)
