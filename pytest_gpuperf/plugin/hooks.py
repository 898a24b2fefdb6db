"""pytest's hooks with `--gpuperf`."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.compat.pytest_names import early_options, kept_failure
from pytest_gpuperf.errors import GpuperfError, of_system
from pytest_gpuperf.measure.counters.metric_names import check_names
from pytest_gpuperf.plugin.facade import Gpuperf
from pytest_gpuperf.plugin.guard import TIMEOUT_SETTINGS, without_timeout
from pytest_gpuperf.plugin.own_errors import COLLECTED, OwnErrors, is_of_measuring
from pytest_gpuperf.records.passes import Invocation
from pytest_gpuperf.registry import registry
from pytest_gpuperf.report.failure import PREFIX, Failure
from pytest_gpuperf.session import start
from pytest_gpuperf.session.base import RUNNER
from pytest_gpuperf.session.marker import MARKED, STATE, ItemState, Marker, name_of
from pytest_gpuperf.session.orphans import known_name, name_of_file, orphans
from pytest_gpuperf.session.progress import RemoteTerminal
from pytest_gpuperf.session.seeds import forget_compiled_code
from pytest_gpuperf.session.spread import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.session.base import Runner
    from pytest_gpuperf.session.link import Link
    from pytest_gpuperf.session.progress import Terminal
    from pytest_gpuperf.settings.settings import Settings

WITHOUT_EFFECT = (
    "the gpuperf marker of this test has no effect; expected `gpuperf`, or another fixture that measures, "
    "among the arguments of the test"
)
NOTHING_JUDGED = "no test was judged; expected one that asks for the gpuperf fixture, or leave out --gpuperf"

NOT_ISOLATED = (
    "the tests ran in this process, and one that breaks the GPU would have ended the run: this pytest "
    "has no known_args_namespace; type `pytest --gpuperf -n 1` for a process of their own"
)


def facade_of(request: pytest.FixtureRequest) -> Gpuperf:
    """Return the object behind the `gpuperf` fixture of a test."""
    return Gpuperf(*measuring(request))


def measuring(request: pytest.FixtureRequest) -> tuple[ItemState, Runner]:
    """Return the state of a test, and the way to run."""
    state = request.node.stash.get(STATE, None)
    why = OwnErrors.of(request.config).lines.get(COLLECTED)
    if why is not None and RUNNER not in request.config.stash:
        raise pytest.fail.Exception(f"gpuperf: {why}", pytrace=False)
    if state is None:
        raise pytest.fail.Exception(
            "gpuperf: this test asks for its fixture while it runs; expected it among the test's arguments, "
            "so that the test can be profiled ahead",
            pytrace=False,
        )
    return state, request.config.stash[RUNNER]


def _drop_properties(item: pytest.Item) -> None:
    """Drop the JUnit properties of an earlier run of the test."""
    item.user_properties[:] = [one for one in item.user_properties if not one[0].startswith("gpuperf.")]


def _succeeded_unexpectedly(item: pytest.Item, raised: BaseException) -> bool:
    """Return True for a test with `unittest.expectedFailure` that raised nothing itself."""
    expects = "__unittest_expecting_failure__"
    marked = any(getattr(getattr(item, name, None), expects, False) for name in ("obj", "cls"))
    return marked and isinstance(raised, pytest.fail.Exception) and "Unexpected success" in str(raised.msg)


def _warn(item: pytest.Item, text: str) -> None:
    try:
        item.warn(pytest.PytestWarning(f"gpuperf: {text}"))
    except pytest.PytestWarning as error:  # with `-W error`
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None


def invocation_of(config: pytest.Config, settings: Settings) -> Invocation:
    """Return the command that started pytest, for the passes."""
    typed = config.invocation_params
    arguments = [str(argument) for argument in typed.args]
    first, variables = settings.first_on_path, dict(os.environ)
    addopts: list[str] = config.getini("addopts")
    return Invocation(arguments, typed.dir, settings.root, settings.mode, first, variables, addopts)


def _keep(config: pytest.Config, items: list[pytest.Item], names: Container[str]) -> None:
    """Deselect all other tests."""
    dropped = [item for item in items if name_of(item) not in names]
    items[:] = [item for item in items if name_of(item) in names]
    config.hook.pytest_deselected(items=dropped)


class Hooks:
    """Connects a `Runner` to pytest, once there is a test that measures."""

    def __init__(self, settings: Settings, link: Link | None = None) -> None:
        self._settings = settings
        self._link = link
        self._runner: Runner | None = None
        self._seen: set[str] = set()
        self._failed: dict[str, str] = {}
        self._nothing = ""

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note a test before options deselect it."""
        self._seen.add(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that was collected, also without a test in it."""
        if report.passed:
            self._seen.add(report.nodeid)

    @property
    def runner(self) -> Runner | None:
        """The way to run; None if no test measures."""
        return self._runner

    def adopt(self, runner: Runner) -> None:
        """Report the results of a runner whose tests run in another process."""
        self._runner = runner

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Read markers and baselines before anything is measured; a mistake in them ends the run here."""
        measuring = [item for item in items if "gpuperf" in getattr(item, "fixturenames", ())]
        for item in measuring:
            item.stash[STATE] = ItemState(item.nodeid, Marker(), item.path)
        self._read_other_markers([item for item in items if STATE not in item.stash])
        if not measuring:
            self._keep_shard(config, items)
            return
        runner = self._start(measuring)
        self._runner = config.stash[RUNNER] = runner
        for item in items if runner.judges else ():
            # One that no longer asks for a fixture is judged by what its baseline has. A test outside of
            # pytest's rootdir has no file in its name, and no baseline.
            if STATE not in item.stash and not item.nodeid.startswith("::") and runner.guards(item.nodeid):
                item.stash[STATE] = ItemState(item.nodeid, Marker(), item.path)
                runner.expect(item.nodeid)
        if runner.only is not None:
            _keep(config, items, runner.only)
        self._keep_shard(config, items)

    def _keep_shard(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self._settings.shard is not None:
            number, count = self._settings.shard
            seconds = self._runner.durations() if self._runner is not None else {}
            parts = spread([name_of(item) for item in items], seconds, {}, [""] * count)
            _keep(config, items, frozenset(parts[number]))

    def _read_other_markers(self, items: list[pytest.Item]) -> None:
        """Refuse mistakes in markers of tests that do not measure, and warn of markers without an effect."""
        settings = self._settings
        if settings.profiling_pass or settings.sanitizing_pass or settings.side:
            return
        for item in items:
            if item.get_closest_marker("gpuperf") is None:
                continue
            check_names(Marker.of(item).metrics, "")
            # One of a class or a module may be for other tests, and one without arguments for `-m gpuperf`.
            idle = any(mark.name == "gpuperf" and mark.kwargs for mark in item.own_markers)
            if idle and not item.stash.get(MARKED, False):
                _warn(item, WITHOUT_EFFECT)

    def _start(self, measuring: list[pytest.Item]) -> Runner:
        runner = start(self._settings, self._link)
        if self._link is None and runner.on_gpu and early_options(measuring[0].config) is None:
            runner.notices.append(NOT_ISOLATED)
        linked = {path for path in {item.path for item in measuring} if path.resolve() != path}
        for item in measuring:
            state = item.stash[STATE]
            if item.path in linked:
                state = self._named(item, runner)
            state.marker = Marker.of(item)
            for limit in state.marker.limits:
                if limit.doubt:
                    _warn(item, limit.doubt)
            item.stash[STATE] = state
            runner.lines[state.nodeid] = (item.location[1] or 0) + 1
        if runner.judges:
            for item in measuring:
                runner.expect(name_of(item))
            runner.check_metrics([item.stash[STATE] for item in measuring])
        return runner

    def _named(self, item: pytest.Item, runner: Runner) -> ItemState:
        """Return the state of a test, under the name by which the run knows it."""
        name = known_name(item, runner)
        self._seen.add(name)
        return ItemState(name, Marker(), item.path if name == item.nodeid else item.path.resolve())

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Run the passes over all selected tests before the first test runs."""
        config, runner = session.config, self._runner
        if runner is None or config.option.collectonly:
            return
        if session.testsfailed and not config.option.continue_on_collection_errors:
            return
        measuring = [item for item in session.items if STATE in item.stash]
        states = [item.stash[STATE] for item in measuring]
        if self._link is not None:
            own = self._link.orders.spread([item.nodeid for item in session.items])[self._link.orders.worker]
            states = [item.stash[STATE] for item in measuring if item.nodeid in set(own)]
        reporter: Terminal | None = config.pluginmanager.get_plugin("terminalreporter")
        if self._link is not None:
            reporter = RemoteTerminal(self._link)
        invocation = invocation_of(config, self._settings)
        OwnErrors.of(config).run(
            "pytest_runtestloop",
            lambda: runner.problems.extend(orphans(config, runner, self._seen) if runner.judges else ()),
            lambda: runner.begin(reporter),
            lambda: runner.run_passes(states, invocation, reporter),
            runner.tell_facts,
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin with no measurements and no compiled code, also if a plugin runs a test again."""
        if STATE in item.stash:
            item.stash[STATE] = item.stash[STATE].fresh()
            forget_compiled_code()
            _drop_properties(item)
            if self._runner is not None:
                self._runner.enter(name_of(item))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Forget the measurements after the last fixture has ended: pytest keeps all tests until its end."""
        if STATE in item.stash:
            item.stash[STATE] = item.stash[STATE].fresh()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Judge the measurements of a test as part of the test."""
        state = item.stash.get(STATE, None)
        if state is None or self._runner is None or not self._runner.judges:
            return (yield)
        if not self._runner.may_run(state.nodeid):
            self._conclude(item, state)
        try:
            outcome = yield
        except (pytest.skip.Exception, pytest.xfail.Exception):
            raise
        except BaseException as error:
            self._runner.keep_failed(state, error)
            if isinstance(error, Exception) and is_of_measuring(error):
                line = OwnErrors.of(item.config).note("a measurement", error)
                raise pytest.fail.Exception(f"gpuperf: {line}").with_traceback(error.__traceback__) from None
            raise
        # unittest's runner keeps an exception for pytest to find later.
        raised = kept_failure(item)
        if not raised:
            self._conclude(item, state)
        elif _succeeded_unexpectedly(item, raised[-1].value):
            try:
                self._conclude(item, state)
            except pytest.fail.Exception as failure:
                # The failure that unittest expects, only later.
                raised.clear()
                raise pytest.xfail.Exception(str(failure.msg)) from None
        elif not isinstance(raised[-1].value, (pytest.skip.Exception, pytest.xfail.Exception)):
            self._runner.keep_failed(state, raised[-1].value)
        return outcome

    def _conclude(self, item: pytest.Item, state: ItemState) -> None:
        from pytest_gpuperf.report.junit import properties

        assert self._runner is not None
        with without_timeout(item):
            result = self._runner.judge(state)
        item.user_properties.extend(properties(result))
        if result.verdict.fails:
            raise pytest.fail.Exception(result.verdict.message(), pytrace=False)
        if why := result.verdict.warning:
            try:
                item.warn(pytest.PytestWarning(f"gpuperf: {why}"))
            except pytest.PytestWarning as error:  # with `-W error`; a test that drifted never fails
                if not result.verdict.drift:
                    raise pytest.fail.Exception(str(error), pytrace=False) from None

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: object) -> None:
        """Note the settings of pytest-timeout: its timer has to start again after a test is settled."""
        item.stash[TIMEOUT_SETTINGS] = settings

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note expected failures, and the messages of others, and colour those of verdicts."""
        if report.failed and self._settings.json is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            self._failed[report.nodeid] = crash.message if crash is not None else report.longreprtext
        if report.failed and (text := report.longreprtext).startswith(PREFIX):
            report.longrepr = Failure(text)
        if self._runner is not None and hasattr(report, "wasxfail"):
            # The results have the name of a test's own file, whatever links lead to it.
            names = (report.nodeid, name_of_file(report.nodeid, self._settings.root))
            self._runner.expected_failures.update(names)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the run, the summary for CI, and the baselines if the user asked for that."""
        runner, own = self._runner, OwnErrors.of(session.config)
        passed = exitstatus == pytest.ExitCode.OK and not session.config.option.collectonly
        if runner is None:
            settings = self._settings
            child = settings.profiling_pass or settings.sanitizing_pass or settings.side
            if passed and self._link is None and not child:
                self._nothing = NOTHING_JUDGED
                session.exitstatus = pytest.ExitCode.USAGE_ERROR
            return
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        complete = ended and not session.shouldfail and not session.shouldstop
        steps = [lambda: runner.finish(complete=complete), runner.tell_facts]
        if self._link is None:
            steps += [
                *([runner.check_judged] if passed and runner.judges else []),
                runner.check_problems,
                *(partial(write, runner) for write in registry().outputs),
                lambda: self._write_json(session, runner, complete=complete),
            ]
        own.run("pytest_sessionfinish", *(partial(self._done, session, step) for step in steps), runner.end)
        settings = self._settings
        if own.lines and (settings.update != "never" or settings.against or settings.sanitize != "off"):
            # What was asked for may not have been done.
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _done(self, session: pytest.Session, step: Callable[[], object]) -> None:
        """Do a step; an error that the user can fix ends the run with pytest's status for that."""
        assert self._runner is not None
        try:
            step()
        except (GpuperfError, OSError) as error:
            shown = of_system(error) if isinstance(error, OSError) else error
            self._runner.notices.append(f"error: {shown}")
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _write_json(self, session: pytest.Session, runner: Runner, *, complete: bool) -> None:
        from pytest_gpuperf.report.verdicts import End

        if runner.judges:
            runner.write_json(End(complete, int(session.exitstatus), self._failed))

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the table of all tests."""
        if self._nothing:
            terminalreporter.write_line(f"gpuperf: error: {self._nothing}")
        if self._runner is not None and self._runner.judges and self._link is None:
            self._runner.report(terminalreporter)
