"""The report of a suspect waits until its fixtures have ended, and old and new code were timed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.compat.pytest_names import calls_held
from pytest_gpuperf.plugin.guard import stop_timers
from pytest_gpuperf.plugin.own_errors import OwnErrors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


class LateReport:
    """Settles a test when it holds no memory any more, and reports it then.

    That is after its teardown. pytest would have logged the report of the call before: it is held, and made
    again.
    """

    def __init__(self) -> None:
        self._can_wait = False
        self._settle: Callable[[], None] | None = None
        self._call: pytest.CallInfo[None] | None = None
        self._report: pytest.TestReport | None = None
        self._held = False

    def wait(self, settle: Callable[[], None]) -> bool:
        """Return False if the report of the test that runs cannot wait.

        Args:
            settle: Called when the fixtures have ended; raises what fails the test.
        """
        if self._can_wait:
            self._settle = settle
        return self._can_wait

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Hold the report of a suspect."""
        with calls_held(item.ihook.pytest_runtest_logreport, self._hold) as self._can_wait:
            try:
                return (yield)
            finally:
                self._log(item)  # if something has ended the run meanwhile

    def _hold(self, call: dict[str, Any]) -> bool:
        holds = self._report is not None and call["report"] is self._report
        self._held = self._held or holds
        return holds

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the report of the call; after the teardown settle the test."""
        settle = self._settle
        if settle is not None and call.when == "teardown":
            self._settle = None
            self._report_again(item, settle)
        report = yield
        if settle is not None and call.when == "call":
            # A test that something else has failed is not settled.
            self._settle = settle if call.excinfo is None else None
            self._call, self._report = (call, report) if call.excinfo is None else (None, None)
        return report

    def _report_again(self, item: pytest.Item, settle: Callable[[], None]) -> None:
        before, report = self._call, self._report
        assert before is not None
        assert report is not None
        # pytest forgets them only after the report of the teardown.
        getattr(item, "funcargs", {}).clear()
        stop_timers(item)
        call = pytest.CallInfo.from_call(
            partial(OwnErrors.of(item.config).run, "pytest_runtest_call", settle),
            when="call",
            reraise=(KeyboardInterrupt, pytest.exit.Exception),
        )
        call.start, call.stop, call.duration = before.start, before.stop, before.duration
        made = item.ihook.pytest_runtest_makereport(item=item, call=call)
        vars(report).clear()
        vars(report).update(vars(made))
        self._log(item)

    def _log(self, item: pytest.Item) -> None:
        report, held = self._report, self._held
        self._settle = self._call = self._report = None
        self._held = False
        if held:
            item.ihook.pytest_runtest_logreport(report=report)
