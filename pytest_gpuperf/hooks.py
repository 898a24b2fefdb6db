"""pytest's hooks while `--gpuperf` is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.facade import Gpuperf
from pytest_gpuperf.item_state import STATE, ItemState, Marker
from pytest_gpuperf.options import Settings
from pytest_gpuperf.session import Session, start

if TYPE_CHECKING:
    from collections.abc import Generator

    from _pytest.terminal import TerminalReporter

SESSION = pytest.StashKey[Session]()
FIXTURES = frozenset(("gpuperf", "gpu_warmup", "gpu_timer", "ncu"))


def activate(config: pytest.Config) -> None:
    """Start a session for this run and listen to it."""
    if getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
        raise pytest.UsageError(
            "gpuperf: tests that share a GPU would disturb each other's times under pytest-xdist; "
            "run --gpuperf without -n (or with -n 0)"
        )
    try:
        session = start(Settings.from_config(config))
    except GpuperfError as error:
        raise pytest.UsageError(f"gpuperf: {error}") from None
    config.stash[SESSION] = session
    config.pluginmanager.register(Hooks(session), "gpuperf-hooks")


def facade_of(request: pytest.FixtureRequest) -> Gpuperf:
    """The façade of the test that asks."""
    session = request.config.stash[SESSION]
    return Gpuperf(request.node.stash[STATE], session.instruments, session.settings)


class Hooks:
    """Connects one `Session` to pytest."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Read markers and baselines before anything is measured; a mistake in them ends the run here."""
        only = self._session.only
        if only is not None:
            dropped = [item for item in items if item.nodeid not in only]
            items[:] = [item for item in items if item.nodeid in only]
            config.hook.pytest_deselected(items=dropped)
        try:
            for item in items:
                if FIXTURES.intersection(getattr(item, "fixturenames", ())):
                    item.stash[STATE] = ItemState(item.nodeid, Marker.of(item))
                    self._session.expect(item.nodeid)
        except GpuperfError as error:
            raise pytest.UsageError(f"gpuperf: {error}") from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Read the counters of all selected tests at once, before the first of them runs."""
        config = session.config
        if config.option.collectonly or (
            session.testsfailed and not config.option.continue_on_collection_errors
        ):
            return
        states = [item.stash[STATE] for item in session.items if STATE in item.stash]
        reporter: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
        invocation = config.invocation_params
        self._session.read_counters(states, [str(arg) for arg in invocation.args], invocation.dir, reporter)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Judge what the test has measured, as part of the test."""
        state = item.stash.get(STATE, None)
        if state is None:
            return (yield)
        try:
            outcome = yield
        except pytest.skip.Exception:
            raise
        except BaseException as error:
            self._session.keep_failed(state, error)
            raise
        result = self._session.judge(state)
        item.user_properties.extend(self._session.properties(result))
        if result.verdict.status.fails:
            raise pytest.fail.Exception(result.verdict.message(), pytrace=False)
        return outcome

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the run, and the baselines where the user asked for it."""
        try:
            self._session.finish(complete=exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED))
        except GpuperfError as error:
            self._session.notices.append(f"error: {error}")
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the table of all tests."""
        self._session.report(terminalreporter)
