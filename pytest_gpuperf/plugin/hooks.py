"""pytest's hooks with `--gpuperf`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError, guarded, of_system
from pytest_gpuperf.measure.counters.metric_names import check_names
from pytest_gpuperf.plugin.benchmark_timer import is_timed_by_gpu
from pytest_gpuperf.plugin.facade import Gpuperf
from pytest_gpuperf.plugin.guard import without_timeout
from pytest_gpuperf.plugin.ranks import GpuperfRanks
from pytest_gpuperf.records.passes import Invocation
from pytest_gpuperf.session import start
from pytest_gpuperf.session.base import RUNNER
from pytest_gpuperf.session.marker import STATE, ItemState, Marker, name_of
from pytest_gpuperf.session.orphans import is_narrowed, known_name, name_of_file, orphans
from pytest_gpuperf.session.progress import RemoteTerminal
from pytest_gpuperf.session.spread import spread

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Iterator

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.errors import PluginPart
    from pytest_gpuperf.session.base import Runner
    from pytest_gpuperf.session.link import Link
    from pytest_gpuperf.session.progress import Terminal
    from pytest_gpuperf.settings.settings import Settings

FIXTURES = frozenset(("gpuperf", "gpuperf_ranks", "gpu_warmup", "gpu_timer", "ncu"))
WITHOUT_EFFECT = (
    "the gpuperf marker of this test has no effect; expected `gpuperf`, or another fixture that measures, "
    "among the arguments of the test"
)


def facade_of(request: pytest.FixtureRequest) -> Gpuperf:
    """Return the object behind the `gpuperf` fixture of a test."""
    return Gpuperf(*_measuring(request))


def ranks_of(request: pytest.FixtureRequest) -> GpuperfRanks:
    """Return the object behind the `gpuperf_ranks` fixture of a test."""
    return GpuperfRanks(*_measuring(request))


def _measuring(request: pytest.FixtureRequest) -> tuple[ItemState, Runner]:
    state = request.node.stash.get(STATE, None)
    if state is not None and RUNNER not in request.config.stash:
        hooks = request.config.pluginmanager.get_plugin("gpuperf-hooks")
        assert isinstance(hooks, Hooks)
        raise pytest.fail.Exception(f"gpuperf: {hooks.failure}", pytrace=False)
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
        self._narrowed = False
        self._failed: dict[str, str] = {}
        self.failure = ""
        """The error of this plugin that keeps tests from being measured; empty without one."""

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note a test before options deselect it."""
        self._seen.add(item.nodeid)

    def pytest_deselected(self) -> None:
        """Note that options deselect tests."""
        self._narrowed = True

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
        measuring = [item for item in items if FIXTURES.intersection(getattr(item, "fixturenames", ()))]
        for item in measuring:
            item.stash[STATE] = ItemState(item.nodeid, Marker(), item.path)
        self._read_other_markers([item for item in items if STATE not in item.stash])
        if not measuring:
            self._keep_shard(config, items)
            return
        failed: list[str] = []
        try:
            with guarded("start", failed.append):
                self._runner = self._start(measuring)
        except GpuperfError as error:
            raise pytest.UsageError(f"gpuperf: {error}") from None
        self.failure = "".join(failed)
        if self._runner is None:
            return
        runner = config.stash[RUNNER] = self._runner
        if runner.only is not None:
            _keep(config, items, runner.only)
        with runner.guarded("baseline"):
            self._keep_shard(config, items)

    def _keep_shard(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self._settings.shard is not None:
            number, count = self._settings.shard
            try:
                seconds = self._runner.durations() if self._runner is not None else {}
            except GpuperfError as error:
                raise pytest.UsageError(f"gpuperf: {error}") from None
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
            failed: list[str] = []
            try:
                with guarded("marker", failed.append):
                    check_names(Marker.of(item).metrics, "")
            except GpuperfError as error:
                raise pytest.UsageError(f"gpuperf: {error}") from None
            # One of a class or a module may be for other tests, and one without arguments for `-m gpuperf`.
            idle = any(mark.name == "gpuperf" and mark.kwargs for mark in item.own_markers)
            if failed or (idle and not is_timed_by_gpu(item)):
                _warn(item, failed[0] if failed else WITHOUT_EFFECT)

    def _start(self, measuring: list[pytest.Item]) -> Runner:
        runner = start(self._settings, self._link)
        linked = {path for path in {item.path for item in measuring} if path.resolve() != path}
        for item in measuring:
            state = item.stash[STATE]
            if item.path in linked:
                state = self._named(item, runner)
            failed: list[str] = []
            with guarded("marker", failed.append):
                state.marker = Marker.of(item)
            state.unavailable = "".join(failed)
            item.stash[STATE] = state
            runner.lines[state.nodeid] = (item.location[1] or 0) + 1
        if runner.judges:
            for item in measuring:
                with runner.guarded("baseline"):
                    runner.expect(name_of(item))
            with runner.guarded("baseline"):
                runner.check_metrics([item.stash[STATE] for item in measuring])
        return runner

    def _named(self, item: pytest.Item, runner: Runner) -> ItemState:
        """Return the state of a test, under the name by which the run knows it."""
        name, path = item.nodeid, item.path
        with runner.guarded("baseline"):
            name = known_name(item, runner)
            path = path if name == item.nodeid else path.resolve()
            self._seen.add(name)
        return ItemState(name, Marker(), path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Run the passes over all selected tests before the first test runs."""
        config = session.config
        if self._runner is None or config.option.collectonly:
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
        if self._runner.judges:
            self._runner.narrowed = self._narrowed or is_narrowed(config)
            with self._runner.guarded("baseline"):
                self._runner.problems += orphans(config, self._runner, self._seen)
        typed, settings = config.invocation_params, self._settings
        arguments = [str(argument) for argument in typed.args]
        with self._runner.guarded("lock"):
            self._runner.begin(reporter)
        first, seed, variables = settings.first_on_path, settings.seed, dict(os.environ)
        invocation = Invocation(arguments, typed.dir, settings.root, settings.mode, first, seed, variables)
        try:
            with self._runner.guarded("passes"):
                self._runner.run_passes(states, invocation, reporter)
        except GpuperfError as error:
            raise pytest.UsageError(f"gpuperf: {error}") from None
        with self._runner.guarded("run file"):
            self._runner.tell_facts()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin with no measurements, also if a plugin runs a test again."""
        if STATE in item.stash:
            item.stash[STATE] = item.stash[STATE].fresh()
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
            with self._runner.guarded("judging"):
                self._runner.keep_failed(state, error)
            raise
        # unittest's runner keeps an exception for pytest to find later.
        raised = getattr(item, "_excinfo", None)
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
            with self._runner.guarded("judging"):
                self._runner.keep_failed(state, raised[-1].value)
        return outcome

    def _conclude(self, item: pytest.Item, state: ItemState) -> None:
        from pytest_gpuperf.report.junit import properties

        assert self._runner is not None
        why: list[str] = []
        result = None
        with guarded("judging", why.append), without_timeout(item):
            result = self._runner.judge(state)
        if result is None:
            raise pytest.fail.Exception(f"gpuperf: {why[0]}", pytrace=False)
        with self._runner.guarded("JUnit properties"):
            item.user_properties.extend(properties(result))
        if result.verdict.fails:
            raise pytest.fail.Exception(result.verdict.message(), pytrace=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note expected failures, and the messages of others."""
        if report.failed and self._settings.json is not None:
            crash = getattr(report.longrepr, "reprcrash", None)
            self._failed[report.nodeid] = crash.message if crash is not None else report.longreprtext
        if self._runner is not None and hasattr(report, "wasxfail"):
            # The results have the name of a test's own file, whatever links lead to it.
            names = (report.nodeid, name_of_file(report.nodeid, self._settings.root))
            self._runner.expected_failures.update(names)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the run, the summary for CI, and the baselines if the user asked for that."""
        if self._runner is None:
            return
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        complete = ended and not session.shouldfail and not session.shouldstop
        try:
            # Each by itself: an error in one must not lose the others.
            with self._reported(session, "run file"):
                self._runner.finish(complete=complete)
            if self._link is not None:
                with self._runner.guarded("run file"):
                    self._runner.tell_facts()
                return
            with self._reported(session, "report"):
                self._runner.check_problems()
            with self._reported(session, "Markdown summary"):
                self._runner.write_markdown()
            with self._reported(session, "HTML report"):
                self._runner.write_html()
            with self._reported(session, "verdicts"):
                from pytest_gpuperf.report.verdicts import End

                if self._runner.judges:
                    self._runner.write_json(End(complete, int(session.exitstatus), self._failed))
        finally:
            with self._runner.guarded("lock"):
                self._runner.end()
        if "run file" in self._runner.own_failures and self._settings.update != "never":
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    @contextmanager
    def _reported(self, session: pytest.Session, part: PluginPart) -> Iterator[None]:
        """Turn an error into a line of the summary, and one that a user can fix into pytest's exit status."""
        assert self._runner is not None
        with self._runner.guarded(part):
            try:
                yield
            except (GpuperfError, OSError) as error:
                shown = of_system(error) if isinstance(error, OSError) else error
                self._runner.notices.append(f"error: {shown}")
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the table of all tests."""
        if self._runner is not None and self._runner.judges and self._link is None:
            with self._runner.guarded("report"):
                self._runner.report(terminalreporter)
            for line in self._runner.own_failures.values():
                terminalreporter.write_line(f"gpuperf: {line}")
