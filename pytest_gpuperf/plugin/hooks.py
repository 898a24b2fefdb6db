"""pytest's hooks with `--gpuperf`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.compat.compiler_names import forget_compiled_code
from pytest_gpuperf.compat.pytest_names import early_options, kept_failure
from pytest_gpuperf.judge.result import Finding, Status, TestResult
from pytest_gpuperf.measure.counters.metric_name_check import check_names
from pytest_gpuperf.plugin.internal_errors import COLLECTED, OwnErrors, is_of_measuring, register
from pytest_gpuperf.plugin.late_reports import LateReport, Reports, invocation_of, properties, stop_timers
from pytest_gpuperf.session import start_runner
from pytest_gpuperf.session.expected_durations import load_durations
from pytest_gpuperf.session.load_balancing import spread
from pytest_gpuperf.session.lost_baselines import known_name, orphans, shifted
from pytest_gpuperf.session.marker import MARKED, STATE, ItemState, Marker, name_of
from pytest_gpuperf.session.progress import RemoteTerminal
from pytest_gpuperf.session.runner import RUNNER, Start

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Mapping

    from pytest_gpuperf.session.progress import Terminal
    from pytest_gpuperf.session.runner import Runner
    from pytest_gpuperf.session.worker_messages import Link
    from pytest_gpuperf.settings.settings import Settings

WITHOUT_EFFECT = (
    "the gpuperf marker of this test has no effect; expected `gpuperf`, or another fixture that measures, "
    "among the arguments of the test"
)
NOT_ISOLATED = (
    "the tests ran in this process, and one that breaks the GPU would have ended the run: this pytest "
    "has no known_args_namespace; type `pytest --gpuperf -n 1` for a process of their own"
)


def state_and_runner(request: pytest.FixtureRequest) -> tuple[ItemState, Runner]:
    """Return the state of a test, and the way to run."""
    state = request.node.stash.get(STATE, None)
    if RUNNER not in request.config.stash:
        # The run could not be prepared, and pytest went on.
        why = OwnErrors.of(request.config).news.failures.get(COLLECTED)
        if why is not None:
            raise pytest.fail.Exception(f"gpuperf: {why}", pytrace=False)
    if state is None:
        raise pytest.fail.Exception(
            "gpuperf: this test asks for its fixture while it runs; expected it among the test's arguments, "
            "so that the test can be profiled ahead",
            pytrace=False,
        )
    return state, request.config.stash[RUNNER]


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


def _deselect_others(config: pytest.Config, items: list[pytest.Item], names: Container[str]) -> None:
    """Deselect all other tests."""
    dropped = [item for item in items if name_of(item) not in names]
    items[:] = [item for item in items if name_of(item) in names]
    config.hook.pytest_deselected(items=dropped)


class Hooks:
    """Connects a `Runner` to pytest, once there is a test that measures.

    Args:
        settings: The options.
        link: Leads to the controller; None if this process does everything.
        reports: Shows the results; None in a worker and in a child.
    """

    def __init__(self, settings: Settings, link: Link | None = None, reports: Reports | None = None) -> None:
        self._settings = settings
        self._link = link
        self._reports = reports
        self.late_report = LateReport()
        """Reports tests that are timed again later; registered in a process that judges."""
        self._runner: Runner | None = None
        self._seen: set[str] = set()

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note a test before options deselect it."""
        self._seen.add(item.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that was collected, also without a test in it."""
        if report.passed:
            self._seen.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Read markers and baselines before anything is measured; `register` lets a mistake end the run."""
        measuring = [item for item in items if "gpuperf" in getattr(item, "fixturenames", ())]
        for item in measuring:
            item.stash[STATE] = ItemState(item.nodeid, Marker(), item.path)
        self._read_other_markers([item for item in items if STATE not in item.stash])
        if not measuring:
            self._keep_shard(config, items)
            return
        runner = self._make_runner(measuring)
        self._runner = config.stash[RUNNER] = runner
        register(config, runner, "gpuperf-runner")
        if self._reports is not None:
            self._reports.report = runner.report
        if (report := runner.report) is not None:
            for item in items:
                # One that no longer asks for a fixture fails: nothing measures what its baseline has. A test
                # outside of pytest's rootdir has no file in its name, and no baseline.
                others = STATE not in item.stash and not item.nodeid.startswith("::")
                if others and report.judge.guards(item.nodeid):
                    item.stash[STATE] = ItemState(item.nodeid, Marker(), item.path, plain=True)
        if runner.only is not None:
            _deselect_others(config, items, runner.only)
        self._keep_shard(config, items)
        for item in items:
            if report is not None and STATE in item.stash:
                report.select(name_of(item), (item.location[1] or 0) + 1)

    def _keep_shard(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the part of the tests that `--gpuperf-shard=K/N` names, of N that take about the same time.

        Tests that do not measure are spread, too: each test runs in one part.
        """
        if self._settings.shard is None:
            return
        number, count = self._settings.shard
        report = self._runner.report if self._runner is not None else None
        durations: Mapping[str, float] = {}
        if report is not None:
            # The machines of the other parts may have another model of GPU.
            durations = load_durations(report.judge.expected.store)
        # By themselves, so that no part fails because it has no test to judge.
        measuring = [name_of(item) for item in items if STATE in item.stash]
        others = [name_of(item) for item in items if STATE not in item.stash]
        parts = (spread(names, durations, {}, [""] * count)[number] for names in (measuring, others))
        _deselect_others(config, items, frozenset().union(*parts))

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

    def _make_runner(self, measuring: list[pytest.Item]) -> Runner:
        news = OwnErrors.of(measuring[0].config).news
        runner = start_runner(self._settings, news, self._link)
        if self._link is None and runner.on_gpu and early_options(measuring[0].config) is None:
            news.note(NOT_ISOLATED)
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
        if runner.report is not None:
            judge = runner.report.judge
            for item in measuring:
                judge.guards(name_of(item))  # a broken file ends the run
            judge.check_metrics([item.stash[STATE] for item in measuring])
        return runner

    def _named(self, item: pytest.Item, runner: Runner) -> ItemState:
        """Return the state of a test, under the name by which the run knows it."""
        if runner.report is not None:
            name = known_name(item, self._settings.root, runner.report.judge.knows)
        else:
            name = known_name(item, self._settings.root, (runner.only or frozenset()).__contains__)
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
        judged = [item for item in session.items if STATE in item.stash]
        states = [item.stash[STATE] for item in judged]
        given = [item.nodeid for item in session.items]
        if self._link is not None:
            given = self._link.orders.spread(given)[self._link.orders.worker]
        names = {item.nodeid: item.stash[STATE].nodeid for item in judged}
        own = {names[nodeid] for nodeid in given if nodeid in names}
        reporter: Terminal | None = config.pluginmanager.get_plugin("terminalreporter")
        if self._link is not None:
            reporter = RemoteTerminal(self._link)
        beginning = Start(own, invocation_of(config, self._settings), reporter)
        errors, judge = OwnErrors.of(config), runner.report.judge if runner.report is not None else None
        errors.run(
            "pytest_runtestloop",
            lambda: errors.news.error(*(orphans(config, judge, self._seen) if judge is not None else ())),
            lambda: errors.news.note(*(shifted(config, judge, self._seen) if judge is not None else ())),
            lambda: runner.begin(states, beginning),
            self._tell_facts,
        )

    def _tell_facts(self) -> None:
        """Tell the controller the state of the run, if there is one."""
        if self._link is not None and self._runner is not None and self._runner.report is not None:
            self._link.tell(self._runner.report.facts)
            self._link.tell(self._runner.report.news)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin with no measurements and no compiled code, also if a plugin runs a test again."""
        if STATE in item.stash:
            item.stash[STATE] = item.stash[STATE].fresh()
            forget_compiled_code()
            # An earlier run of the test has left some.
            others = [one for one in item.user_properties if not one[0].startswith("gpuperf.")]
            item.user_properties[:] = others

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Judge what a fixture has measured before it ended the test.

        Forget all after the last fixture has ended: pytest keeps all tests until its end.
        """
        if (state := item.stash.get(STATE, None)) is not None:
            item.stash[STATE] = state.fresh()
            if not state.ended and self._runner is not None and self._runner.report is not None:
                self._judge_failed(item, state, pytest.skip.Exception())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Judge the measurements of a test as part of the test, so that a slower kernel fails it.

        The test ends in one of four ways: it raises, and what it measured is kept with the name of the
        exception; it skips itself, or fails as expected, and what it measured may fail it or warn; it
        returns, and its verdict passes it or fails it; or it is a unittest, whose runner hands its exception
        over instead of raising it.
        """
        state = item.stash.get(STATE, None)
        if state is None or self._runner is None or self._runner.report is None:
            return (yield)
        if not state.may_run:
            # The errors of the sanitizer fail it here: this raises.
            self._conclude(item, state)
        try:
            outcome = yield
        except BaseException as error:
            self._judge_failed(item, state, error)
            if isinstance(error, Exception) and is_of_measuring(error):
                line = OwnErrors.of(item.config).note("a measurement", error)
                raise pytest.fail.Exception(f"gpuperf: {line}").with_traceback(error.__traceback__) from None
            raise
        finally:
            state.ended = True
        # unittest's runner keeps an exception for pytest to find later.
        raised = kept_failure(item)
        if not raised:
            self._conclude(item, state)
        elif _succeeded_unexpectedly(item, raised[-1].value):
            try:
                self._conclude(item, state, may_wait=False)
            except pytest.fail.Exception as failure:
                # The failure that unittest expects, only later.
                raised.clear()
                raise pytest.xfail.Exception(str(failure.msg)) from None
        else:
            try:
                self._judge_failed(item, state, raised[-1].value)
            except pytest.fail.Exception:
                raised.clear()
                raise
        return outcome

    def _judge_failed(self, item: pytest.Item, state: ItemState, error: BaseException) -> None:
        """Judge the measurements of a test that an exception ended; they may fail one that skips itself."""
        assert self._runner is not None
        assert self._runner.report is not None
        # A replay skips a test of which it has only a part.
        if state.measurements and state.nodeid not in self._runner.report.facts.skipped:
            result = self._result(state, type(error).__name__)
            if not result.record.failed:  # but skipped, or as expected: pytest fails the others itself
                self._apply_verdict(item, result)

    def _result(self, state: ItemState, failure: str = "") -> TestResult:
        """Judge a test and keep its result; one that could not be judged keeps its measurements."""
        assert self._runner is not None
        report = self._runner.report
        assert report is not None
        try:
            result = self._runner.judge(state, failure)
        except BaseException:
            findings = (Finding(Status.INVALID, "the test could not be judged"),)
            report.take(TestResult(report.judge.record(state, failure), Status.INVALID, findings))
            raise
        report.take(result)
        return result

    def _conclude(self, item: pytest.Item, state: ItemState, *, may_wait: bool = True) -> None:
        """Judge a test that has ended, and fail it if its verdict does.

        A suspect (its time is outside of the noise of its baseline) is timed again in turn with its old code
        first. That waits until the teardown of the test has freed its memory, unless `may_wait` is False.
        """
        result = self._result(state)
        if not result.suspects:
            self._apply_verdict(item, result)
            return
        settle = partial(self._settle, item, state, result)
        if not (may_wait and self.late_report.wait(settle)):
            stop_timers(item)
            settle()

    def _settle(self, item: pytest.Item, state: ItemState, result: TestResult) -> None:
        assert self._runner is not None
        assert self._runner.report is not None
        settled = self._runner.settle(state, result)
        self._runner.report.take(settled)
        self._apply_verdict(item, settled)

    def _apply_verdict(self, item: pytest.Item, result: TestResult) -> None:
        item.user_properties.extend(properties(result))
        if result.unfinished is not None:
            return  # it is judged again when all tests have ended
        if result.fails:
            raise pytest.fail.Exception(result.message(), pytrace=False) from None
        if why := result.warning:
            try:
                item.warn(pytest.PytestWarning(f"gpuperf: {why}"))
            except pytest.PytestWarning as error:  # with `-W error`; a test that drifted never fails
                if not result.drift:
                    raise pytest.fail.Exception(str(error), pytrace=False) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End the processes of the run; then write it, or tell the controller its last facts."""
        steps: list[Callable[[], object]] = [self._tell_facts]
        if self._runner is not None:
            steps.insert(0, self._runner.end)
        OwnErrors.of(session.config).run("pytest_sessionfinish", *steps)
        if self._reports is not None:
            self._reports.finish(session, exitstatus)
