"""Reports of tests with calls that ncu reads after all tests: they wait until the tests are judged again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.compat.pytest_names import calls_held
from pytest_gpuperf.plugin.own_errors import OwnErrors

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.plugin.controller import Controller
    from pytest_gpuperf.plugin.hooks import Hooks
    from pytest_gpuperf.session.base import Runner
    from pytest_gpuperf.settings.settings import Settings


class HeldReports:
    """Holds reports in the process that shows them, and logs them after its last test.

    Args:
        settings: The options.
        hooks: Has the runner.
    """

    def __init__(self, settings: Settings, hooks: Hooks | Controller) -> None:
        self._settings = settings
        self._hooks = hooks
        self._held: list[pytest.TestReport] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Hold reports while the tests run; if they all ran, let ncu read what it has to, then log them."""
        ended = False
        try:
            # No hook of pytest can keep a report from the other plugins.
            with calls_held(session.config.hook.pytest_runtest_logreport, self._hold):
                outcome = yield
            ended = True
            return outcome
        finally:
            if self._held:
                self._release(session, read=ended)

    def _hold(self, call: dict[str, Any]) -> bool:
        """Return True if the report of this call waits."""
        runner, report = self._hooks.runner, call["report"]
        if runner is None or not runner.unread or report.when == "setup":
            return False
        if waits := self._name(report, runner) in runner.unread:
            self._held.append(report)
        return waits

    def _name(self, report: pytest.TestReport, runner: Runner) -> str:
        """Return the name of a test in the results, whatever links lead to its file."""
        from pytest_gpuperf.session.orphans import name_of_file

        known = report.nodeid in runner.unread
        return report.nodeid if known else name_of_file(report.nodeid, self._settings.root)

    def _release(self, session: pytest.Session, *, read: bool) -> None:
        runner = self._hooks.runner
        assert runner is not None
        try:
            results = self._read(session) if read else {}
            for report in self._held:
                result = results.get(self._name(report, runner))
                if result is not None:
                    self._judge(report, result)
        except Exception as error:
            OwnErrors.of(session.config).note("pytest_runtestloop", error)
        finally:
            for report in self._held:
                session.config.hook.pytest_runtest_logreport(report=report)

    def _read(self, session: pytest.Session) -> dict[str, TestResult]:
        from pytest_gpuperf.plugin.hooks import invocation_of
        from pytest_gpuperf.session.keeping import KeepingRunner
        from pytest_gpuperf.session.unread import read_unread

        runner, config = self._hooks.runner, session.config
        assert isinstance(runner, KeepingRunner)
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        return read_unread(runner, invocation_of(config, self._settings), terminal)

    def _judge(self, report: pytest.TestReport, result: TestResult) -> None:
        """Give a report the new verdict; what failed for another reason stays as it is."""
        from pytest_gpuperf.report.brief import shortened
        from pytest_gpuperf.report.junit import properties

        others = [one for one in report.user_properties if not one[0].startswith("gpuperf.")]
        report.user_properties = [*others, *properties(result)]
        if report.when == "call" and report.passed and result.verdict.fails:
            message = result.verdict.message()
            report.outcome = "skipped" if hasattr(report, "wasxfail") else "failed"
            report.longrepr = shortened(message) if self._settings.brief else message
