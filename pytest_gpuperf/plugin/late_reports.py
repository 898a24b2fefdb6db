"""Reports of tests that wait until these are settled, and the files and tables at the end of the run."""

from __future__ import annotations

import faulthandler
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any
from warnings import WarningMessage

import pytest

from pytest_gpuperf.compat.pytest_names import calls_held
from pytest_gpuperf.errors import GpuperfError, of_system
from pytest_gpuperf.plugin.internal_errors import OwnErrors
from pytest_gpuperf.records.passes import Invocation
from pytest_gpuperf.records.run import top_stall
from pytest_gpuperf.registry import registry
from pytest_gpuperf.session.lost_baselines import name_of_file

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from _pytest._io import TerminalWriter
    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.session.run_report import End, RunReport
    from pytest_gpuperf.settings.settings import Settings

NOTHING_JUDGED = "no test was judged; expected one that asks for the gpuperf fixture, or leave out --gpuperf"
TIMER = "gpuperf.timer"
"""Property of a test that another plugin times by the GPU: a run of such tests needs no verdict."""
PREFIX = "gpuperf: "
"""Begin of each finding; lines below it are indented."""
_INTENDED = "if this is intended"
TIMED = ("time_us", "spread_pct", "mode", "gb_per_s", "tflop_per_s")
"""Values of a time that go into the properties."""
COUNTERS = (
    "sm_throughput",
    "memory_throughput",
    "dram_throughput",
    "achieved_occupancy",
    "theoretical_occupancy",
    "tensor_active",
    "registers_per_thread",
)
"""Counters to write, by short name, in the catalogue's units."""


TRACED = ("launches", "gpu_busy", "launch_gap", "copies", "synchronizations", "tensor_core_share")
"""Trace values to write, by the names of limits."""


def invocation_of(config: pytest.Config, settings: Settings) -> Invocation:
    """Return the command that started pytest, for the passes."""
    typed = config.invocation_params
    arguments = [str(argument) for argument in typed.args]
    first, variables = settings.first_on_path, dict(os.environ)
    addopts: list[str] = config.getini("addopts")
    return Invocation(arguments, typed.dir, settings.root, settings.mode, first, variables, addopts)


class Reports:
    """Shows the results of a run, and writes its files.

    Reports of unfinished tests wait until these are judged again.

    Args:
        settings: The options.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.report: RunReport | None = None
        """The results; None if no test measures."""
        self._held: list[pytest.TestReport] = []
        self._failed: dict[str, str] = {}
        self._nothing = ""
        self._timed = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Hold reports while the tests run; if they all ran, finish these tests, then log them."""
        ended = False
        try:
            # No hook of pytest can keep a report from the other plugins.
            with calls_held(session.config.hook.pytest_runtest_logreport, self._hold):
                outcome = yield
            ended = True
            return outcome
        finally:
            if self._held:
                self._release(session, all_ran=ended)

    def _hold(self, call: dict[str, Any]) -> bool:
        """Return True if the report of this call waits."""
        report = call["report"]
        if self.report is None or not self.report.unfinished or report.when == "setup":
            return False
        if waits := self._name(report) in self.report.unfinished:
            self._held.append(report)
        return waits

    def _name(self, report: pytest.TestReport) -> str:
        """Return the name of a test in the results, whatever links lead to its file."""
        assert self.report is not None
        known = report.nodeid in self.report.unfinished
        return report.nodeid if known else name_of_file(report.nodeid, self._settings.root)

    def _release(self, session: pytest.Session, *, all_ran: bool) -> None:
        names = [self._name(report) for report in self._held]
        try:
            results = self._finish(session) if all_ran else {}
            for report, name in zip(self._held, names, strict=True):
                if (result := results.get(name)) is not None:
                    self._judge(session, report, result)
        except Exception as error:
            OwnErrors.of(session.config).note("pytest_runtestloop", error)
        finally:
            for report in self._held:
                session.config.hook.pytest_runtest_logreport(report=report)

    def _finish(self, session: pytest.Session) -> dict[str, TestResult]:
        from pytest_gpuperf.session.late_work import finish_tests

        assert self.report is not None
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        return finish_tests(self.report, invocation_of(session.config, self._settings), terminal)

    def _judge(self, session: pytest.Session, report: pytest.TestReport, result: TestResult) -> None:
        """Give a report the new verdict, and warn of it; what failed for another reason stays as it is."""
        from pytest_gpuperf.report.brief import shortened

        others = [one for one in report.user_properties if not one[0].startswith("gpuperf.")]
        report.user_properties = [*others, *properties(result)]
        if report.when == "call" and result.warning:
            file, line, _ = report.location
            text = pytest.PytestWarning(f"gpuperf: {result.warning}")
            shown = WarningMessage(text, pytest.PytestWarning, file, line or 0)
            told = {"warning_message": shown, "when": "runtest", "nodeid": report.nodeid, "location": None}
            session.config.hook.pytest_warning_recorded.call_historic(kwargs=told)
        if report.when == "call" and report.passed and result.fails:
            message = result.message()
            report.outcome = "skipped" if hasattr(report, "wasxfail") else "failed"
            report.longrepr = shortened(message) if self._settings.brief else message

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note expected failures, and the messages of others, and colour those of verdicts."""
        if report.when == "call" and report.passed:
            self._timed |= any(one[0] == TIMER for one in report.user_properties)
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self._failed[report.nodeid] = crash.message if crash is not None else report.longreprtext
        if report.failed and (text := report.longreprtext).startswith(PREFIX):
            report.longrepr = Failure(text)
        if self.report is not None and hasattr(report, "wasxfail"):
            # The results have the name of a test's own file, whatever links lead to it.
            self.report.expect_failure(report.nodeid, name_of_file(report.nodeid, self._settings.root))

    def finish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the run and the files that the user asked for; an error in one of them fails the run."""
        own, report, settings = OwnErrors.of(session.config), self.report, self._settings
        passed = exitstatus == pytest.ExitCode.OK and not session.config.option.collectonly
        if report is None:
            if passed and not self._timed:
                self._nothing = NOTHING_JUDGED
                session.exitstatus = pytest.ExitCode.USAGE_ERROR
            return
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        complete = ended and not session.shouldfail and not session.shouldstop
        steps: list[Callable[[], object]] = [
            lambda: report.finish(complete=complete, passed=passed),
            *(partial(self._write, write, session, complete=complete) for write in registry().outputs),
        ]
        own.run("pytest_sessionfinish", *(partial(self._done, session, report, step) for step in steps))
        if own.news.failures and (
            settings.update != "never" or settings.against or settings.sanitize != "off"
        ):
            # What was asked for may not have been done.
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _done(self, session: pytest.Session, report: RunReport, step: Callable[[], object]) -> None:
        """Do a step; an error that the user can fix ends the run with pytest's status for that."""
        try:
            step()
        except (GpuperfError, OSError) as error:
            report.news.error(of_system(error) if isinstance(error, OSError) else error)
        if report.news.failed:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _write(
        self, write: Callable[[RunReport, End], None], session: pytest.Session, *, complete: bool
    ) -> None:
        from pytest_gpuperf.session.run_report import End

        assert self.report is not None
        # An error of the file before has changed the status.
        write(self.report, End(complete, int(session.exitstatus), self._failed))

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the table of all tests."""
        if self._nothing:
            terminalreporter.write_line(f"gpuperf: error: {self._nothing}")
        if self.report is not None:
            from pytest_gpuperf.report.terminal_summary import publish

            publish(self.report.summary(), terminalreporter, brief=self._settings.brief)


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
            settle: Called when the fixtures have ended; raises the error that fails the test.
        """
        if self._can_wait:
            self._settle = settle
        return self._can_wait

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Hold the report of a suspect."""
        # `item.ihook` may leave out plugins by a caller that each access makes from this one.
        with calls_held(item.config.hook.pytest_runtest_logreport, self._hold) as self._can_wait:
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


def stop_timers(item: pytest.Item) -> None:
    """Let a test that has ended be settled for as long as it takes.

    There is one timer of `faulthandler`, for `--gpuperf-timeout` and for pytest's `faulthandler_timeout`.
    """
    faulthandler.cancel_dump_traceback_later()
    if (stop := getattr(item.config.hook, "pytest_timeout_cancel_timer", None)) is not None:
        stop(item=item)


class Failure(str):
    """Text of a failed test: findings are red, the way to accept a change is dim."""

    __slots__ = ()

    def toterminal(self, writer: TerminalWriter) -> None:
        """Write the text; pytest calls this for its section of failures."""
        for line in self.splitlines():
            found = line.startswith(PREFIX)
            writer.line(line, red=found, bold=found, light=line.strip().startswith(_INTENDED))


def properties(result: TestResult) -> list[tuple[str, str]]:
    """Return names and values for pytest's `user_properties`, such as `("gpuperf.main.time_us", "5.3")`.

    Names are `gpuperf.<label>.<value>`; except for counters they contain the unit. Numbers have four digits.
    """
    written = [("gpuperf.verdict", result.status.value)]
    if result.replayed:
        written.append(("gpuperf.replayed", "true"))
    for label, measurement in result.record.measurements.items():
        values: dict[str, float | str | None] = {}
        if timing := measurement.timing:
            values |= {name: getattr(timing, name) for name in TIMED}
            if time := result.times.get(label):
                values |= {
                    "change_pct": time.decision.change_pct,
                    "change_low_pct": time.decision.low_pct,
                    "change_high_pct": time.decision.high_pct,
                }
        if measurement.correctness and (accuracy := measurement.correctness.accuracy):
            values |= accuracy.values
        if profile := measurement.profile:
            values |= {name: profile.combined.get(name) for name in COUNTERS}
            if top := top_stall(profile.combined):
                values |= {"top_stall": top[0].removeprefix("stall."), "top_stall_pct": top[1]}
        if trace := measurement.trace:
            values |= {name: trace.values.get(name) for name in TRACED}
        written += [
            # All tests of a large run share the strings.
            (sys.intern(f"gpuperf.{label}.{name}"), value if isinstance(value, str) else f"{value:.4g}")
            for name, value in values.items()
            if value is not None
        ]
    return written
