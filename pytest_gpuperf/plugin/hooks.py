"""pytest's hooks while `--gpuperf` is on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.plugin.facade import Gpuperf
from pytest_gpuperf.session import Session, start
from pytest_gpuperf.session.marker import STATE, ItemState, Marker
from pytest_gpuperf.settings.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from _pytest.terminal import TerminalReporter

SESSION = pytest.StashKey[Session]()
FIXTURES = frozenset(("gpuperf", "gpu_warmup", "gpu_timer", "ncu"))


def activate(config: pytest.Config, first_on_path: str) -> None:
    """Check the options, and wait for tests that measure.

    Args:
        config: pytest's.
        first_on_path: The first import folder before pytest added those of tests.
    """
    option = config.option
    spread = getattr(option, "numprocesses", None) or getattr(option, "tx", None)
    if spread or getattr(option, "dist", "no") != "no" or hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "gpuperf: tests that share a GPU would disturb each other's times under pytest-xdist; "
            "run --gpuperf without -n (or with -n 0)"
        )
    settings = Settings.from_config(config, first_on_path)
    child = settings.profiling_pass or settings.sanitizing_pass
    if child is not None:
        from pytest_gpuperf.session.profiling import prepare_child

        prepare_child(config, child)
    if settings.worker is not None:
        from pytest_gpuperf.session.worker import prepare_worker

        prepare_worker(config, settings.worker)
    config.pluginmanager.register(Hooks(settings), "gpuperf-hooks")


def facade_of(request: pytest.FixtureRequest) -> Gpuperf:
    """The façade of the test that asks."""
    state = request.node.stash.get(STATE, None)
    if state is None:
        raise pytest.fail.Exception(
            "gpuperf: this test asks for its fixture while it runs; expected it among the test's arguments, "
            "so that the test can be profiled ahead",
            pytrace=False,
        )
    session = request.config.stash[SESSION]
    return Gpuperf(state, session.instruments, session.settings)


class Hooks:
    """Connects a `Session` to pytest, once there is a test that measures."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session: Session | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Read markers and baselines before anything is measured; a mistake in them ends the run here."""
        measuring = [item for item in items if FIXTURES.intersection(getattr(item, "fixturenames", ()))]
        if not measuring:
            return
        try:
            session = start(self._settings)
            for item in measuring:
                item.stash[STATE] = ItemState(item.nodeid, Marker.of(item))
                session.expect(item.nodeid)
                session.lines[item.nodeid] = (item.location[1] or 0) + 1
            session.check_metrics([item.stash[STATE] for item in measuring])
        except GpuperfError as error:
            raise pytest.UsageError(f"gpuperf: {error}") from None
        self._session = config.stash[SESSION] = session
        if session.only is not None:
            dropped = [item for item in items if item.nodeid not in session.only]
            items[:] = [item for item in items if item.nodeid in session.only]
            config.hook.pytest_deselected(items=dropped)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Read counters of all selected tests, and time old code beside new, before the first runs."""
        config = session.config
        if self._session is None or config.option.collectonly:
            return
        if session.testsfailed and not config.option.continue_on_collection_errors:
            return
        measuring = [item for item in session.items if STATE in item.stash]
        states = [item.stash[STATE] for item in measuring]
        reporter: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
        invocation = config.invocation_params
        arguments = [str(argument) for argument in invocation.args]
        self._session.begin(reporter)
        self._session.read_counters(states, arguments, invocation.dir, reporter)
        paths = {item.nodeid: item.path for item in measuring}
        try:
            self._session.pair(states, paths, arguments, invocation.dir, reporter)
        except GpuperfError as error:
            raise pytest.UsageError(f"gpuperf: {error}") from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin with nothing measured, also where a plugin runs a test again."""
        if STATE in item.stash:
            item.stash[STATE] = item.stash[STATE].fresh()
            if self._session is not None:
                self._session.enter(item.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Judge what the test has measured, as part of the test."""
        state = item.stash.get(STATE, None)
        if state is None or self._session is None:
            return (yield)
        if not self._session.may_run(item.nodeid):
            self._conclude(item, state)
        try:
            outcome = yield
        except (pytest.skip.Exception, pytest.xfail.Exception):
            raise
        except BaseException as error:
            self._session.keep_failed(state, error)
            raise
        # unittest's runner keeps what a test raised for pytest to find later.
        raised = getattr(item, "_excinfo", None)
        if raised:
            self._session.keep_failed(state, raised[-1].value)
            return outcome
        self._conclude(item, state)
        return outcome

    def _conclude(self, item: pytest.Item, state: ItemState) -> None:
        assert self._session is not None
        result = self._session.judge(state)
        item.user_properties.extend(self._session.properties(result))
        if result.verdict.fails:
            raise pytest.fail.Exception(result.verdict.message(), pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Learn which failures are expected ones."""
        if self._session is not None and hasattr(report, "wasxfail"):
            self._session.expected_failures.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the run, the summary for CI, and the baselines where the user asked for it."""
        if self._session is None:
            return
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        complete = ended and not session.shouldfail and not session.shouldstop
        try:
            # Each by itself: a summary that cannot be written must not lose the run, nor the other way round.
            with _said(self._session, session):
                self._session.finish(complete=complete)
            with _said(self._session, session):
                self._session.check_problems()
            with _said(self._session, session):
                self._session.write_markdown()
        finally:
            self._session.end()

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the table of all tests."""
        if self._session is not None:
            self._session.report(terminalreporter)


@contextmanager
def _said(session: Session, of_pytest: pytest.Session) -> Iterator[None]:
    """Turn what could not be written into a line of the summary and into pytest's exit status."""
    try:
        yield
    except (GpuperfError, OSError) as error:
        session.notices.append(f"error: {error}")
        of_pytest.exitstatus = pytest.ExitCode.USAGE_ERROR
