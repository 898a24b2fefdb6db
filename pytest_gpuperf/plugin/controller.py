"""Hooks of the controller: the tests run in another process, which is replaced if a test ends it."""

from __future__ import annotations

import datetime
import gc
import shlex
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_gpuperf.compat import pytest_names, xdist_names
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.result import TestResult
from pytest_gpuperf.plugin.internal_errors import OwnErrors
from pytest_gpuperf.records.run_store import RunStore
from pytest_gpuperf.registry import registry
from pytest_gpuperf.session.progress import Display, News
from pytest_gpuperf.session.worker_messages import (
    Benchmarks,
    Broken,
    Deselected,
    Facts,
    Orders,
    Refused,
    decode,
)
from pytest_gpuperf.settings.settings import WORKER_ENV

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from _pytest.terminal import TerminalReporter
    from execnet import XSpec
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

    from pytest_gpuperf.measure.device.visible_gpus import VisibleGpu
    from pytest_gpuperf.plugin.late_reports import Reports
    from pytest_gpuperf.plugin.xdist_scheduler import OrderedScheduler
    from pytest_gpuperf.session.run_report import RunReport
    from pytest_gpuperf.session.worker_messages import Message
    from pytest_gpuperf.settings.settings import Settings

    Location = tuple[str, int | None, str]

STARTS = 3
"""Processes that may end in a row before any of their tests begins."""
REAPED_S = 10
"""Seconds in which a process whose pipe is closed has to end."""
STACK_LINES = 15
"""Lines of the stack of a test that took too long."""


class Controller:
    """Starts the processes of the tests, and writes and reports their results.

    It imports most of this package only after that start, while the other processes import it too.

    Args:
        config: pytest's.
        settings: The options.
        gpus: The GPU of each worker; empty if they take the GPUs as they are.
        reports: Shows the results.
    """

    def __init__(
        self, config: pytest.Config, settings: Settings, gpus: Sequence[VisibleGpu], reports: Reports
    ) -> None:
        self._config = config
        self._settings = settings
        self._gpus = gpus
        self._several = config.option.numprocesses > 1
        started = datetime.datetime.now(datetime.timezone.utc)
        self._orders = Orders(
            RunStore.new_id(started), started.isoformat(), settings.first_on_path, isatty=False, stacks=""
        )
        self._reports = reports
        self._reporter: TerminalReporter | None = None
        self._begun: dict[str, Location] = {}
        self._nodeids: list[str] | None = None
        self._refused = ""
        self._deselected: dict[str, int] = {}
        self._ending = ""
        self._early = 0
        self._benchmarks = ""
        self._blames: list[str] = []
        self._own = OwnErrors.of(config)
        self._taking = threading.Lock()
        self._folder = TemporaryDirectory(prefix="gpuperf-")
        if hasattr(config.option, "benchmark_disable"):
            # Times are taken in the other process; here pytest-benchmark would warn of pytest-xdist.
            config.option.benchmark_disable, config.option.benchmark_enable = True, False
        if config.option.maxworkerrestart is None:
            # Each ends at least one test; `STARTS` limits the others.
            config.option.maxworkerrestart = 10**9

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Keep the terminal as it is without pytest-xdist."""
        self._session = session
        manager = self._config.pluginmanager
        xdist_names.silence_distribution(manager)
        self._reporter = manager.get_plugin("terminalreporter")
        self._display = Display(self._own.news, self._reporter)
        if self._reporter is not None:
            self._reporter.showfspath = False if self._several else None
            self._reporter.pytest_collection()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Get ready for results and the summary, while the process of the tests starts."""
        import_module("pytest_gpuperf.session.judge")
        import_module("pytest_gpuperf.session.run_report")
        import_module("pytest_gpuperf.report.terminal_summary")
        if self._config.pluginmanager.hasplugin("hypothesispytest"):
            # Its part of the summary imports it.
            import_module("hypothesis")

    def pytest_xdist_setupnodes(self, specs: list[XSpec]) -> None:
        """Give each worker its GPU, before anything is imported there."""
        self._orders = replace(self._orders, cards=[gpu.uuid for gpu in self._gpus] or [""] * len(specs))
        for place, spec in enumerate(specs):
            more = f"//env:CUDA_VISIBLE_DEVICES={self._gpus[place].uuid}" if self._gpus else ""
            specs[place] = type(spec)(f"{spec}//env:{WORKER_ENV}={place}{more}")
            specs[place].id = spec.id
        if len(self._gpus) < 2:
            return
        from pytest_gpuperf.baseline.store import BaselineStore
        from pytest_gpuperf.session.expected_durations import load_cards, load_durations

        store, slug = BaselineStore(self._settings.baselines, state=self._settings.state), self._gpus[0].slug
        # Without durations each worker gets as many tests. The tests of a broken file end the run.
        with suppress(GpuperfError):
            seconds, homes = load_durations(store, slug), load_cards(store, slug)
            self._orders = replace(self._orders, seconds=seconds, homes=homes)

    def pytest_configure_node(self, node: WorkerController) -> None:
        """Give a worker its orders."""
        channel = node.gateway.newchannel()
        channel.setcallback(partial(self._receive, node.gateway.id))
        isatty, stacks = bool(self._reporter and self._reporter.isatty), str(self._stacks(node))
        orders = replace(
            self._orders, isatty=isatty, stacks=stacks, nodeids=self._nodeids, worker=_place(node)
        )
        node.workerinput["gpuperf"] = {"orders": asdict(orders), "channel": channel}

    def _stacks(self, node: WorkerController) -> Path:
        return Path(self._folder.name, f"{node.gateway.id}.txt")

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> OrderedScheduler:
        """Return the scheduler."""
        from pytest_gpuperf.plugin.xdist_scheduler import OrderedScheduler

        passes = self._settings.counters == "ncu" or self._settings.sanitize != "off"
        return OrderedScheduler(config, log, self._begun, self._orders.spread, _place, shares=not passes)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """End after `--maxfail` failures as without pytest-xdist."""
        try:
            return (yield)
        except xdist_names.interruption_type():
            if session.shouldfail:
                raise session.Failed(session.shouldfail) from None
            raise

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Show how many tests there are, and end the run if files cannot be collected."""
        if self._nodeids is not None:
            return
        self._nodeids = list(ids)
        if self._reporter is not None:
            deselected = max(self._deselected.values(), default=0)
            if deselected:
                # Other plugins, such as Hypothesis, look into whatever the reporter counts.
                self._reporter.pytest_deselected([cast("Any", SimpleNamespace())] * deselected)
            pytest_names.set_collected(self._reporter, len(ids) + deselected)
            self._reporter.report_collect(final=True)
        errors = self._session.testsfailed
        if errors and not self._config.option.continue_on_collection_errors:
            raise self._session.Interrupted(f"{errors} error{'s' * (errors > 1)} during collection")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str, location: Location) -> None:
        """Note that a test has begun."""
        self._begun[nodeid] = location
        self._early = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Show the test as without pytest-xdist."""
        if not self._several:
            vars(report).pop("node", None)

    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        """Find out why a worker has ended."""
        if self._refused:
            raise pytest.UsageError(self._refused)
        if not error:
            return
        self._early += 1
        self._ending = "ended its process"
        try:
            self._ending = self._how_it_ended(node, str(error))
        finally:
            if self._early > STARTS:
                pytest.exit(f"gpuperf: the process of the tests {self._ending} before any test", returncode=3)

    def _how_it_ended(self, node: WorkerController, error: str) -> str:
        process = xdist_names.process_of(node)
        how = "ended its process"
        if process is not None:
            try:
                status = process.wait(REAPED_S)
            except subprocess.TimeoutExpired:
                # It lives, and pytest has failed in it.
                how = "ended with " + (error.strip().splitlines() or ["no message"])[-1]
            else:
                how += f" with exit status {status}"
                if status < 0:
                    how = f"ended its process by signal {-status} ({signal.strsignal(-status)})"
        with suppress(FileNotFoundError):
            stacks = self._stacks(node).read_text(encoding="utf-8", errors="replace")
            if stacks.startswith("Timeout"):
                how = f"took more than {self._settings.timeout_s:g} s (--gpuperf-timeout)"
            how = "\n".join((how, *_innermost(stacks)))
        return how

    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Say how the test ended its process, and where to look."""
        report.when = "call"
        report.location = self._begun[crashitem]
        report.longrepr = f"gpuperf: this test {self._ending}\n{_advice(crashitem)}"
        if self._settings.brief:
            from pytest_gpuperf.report.brief import shortened

            report.longrepr = shortened(report.longrepr)
        self._blame(crashitem, self._ending.partition("\n")[0])
        most = self._config.option.maxfail
        if most and self._session.testsfailed + 1 >= most:
            xdist_names.stop_distribution(self._config.pluginmanager)

    def _blame(self, nodeid: str, how: str) -> None:
        self._blames.append(
            f"error: {nodeid} {how}; the tests after it ran in a new process\n    {_advice(nodeid)}"
        )
        self._ending = ""

    def _receive(self, worker: str, data: bytes) -> None:
        """Take a message, in a thread of execnet."""
        with self._taking:
            self._own.run("a message", lambda: self._take(decode(data), worker))

    def _take(self, message: Message, worker: str) -> None:
        report = self._reports.report
        if isinstance(message, Facts):
            if report is None:
                self._reports.report = self._collect(message)
            else:
                report.update(message)
        elif isinstance(message, News):
            self._own.news.merge(message)
        elif isinstance(message, TestResult):
            assert report is not None
            report.take(message)
        elif isinstance(message, Broken):
            self._blame(message.nodeid, f"broke the GPU: {message.error}")
        elif isinstance(message, Refused):
            self._refused = message.reason
        elif isinstance(message, Deselected):
            self._deselected[worker] = self._deselected.get(worker, 0) + message.count
        elif isinstance(message, Benchmarks):
            self._benchmarks += message.text
        elif (shows := self._display if message.method == "show" else self._reporter) is not None:
            getattr(shows, message.method)(*message.text, **message.options)

    def _collect(self, facts: Facts) -> RunReport:
        from pytest_gpuperf.session.judge import Judge
        from pytest_gpuperf.session.run_report import RunFile, RunReport

        recorded = facts.replayed_from
        file = RunFile(self._settings, self._orders) if recorded is None else None
        judge = Judge(self._settings, facts.environment, [recorded] if recorded is not None else ())
        report = RunReport(judge, self._own.news, file, replayed_from=recorded)
        report.update(facts)
        return report

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the run and the baselines, after the last worker has ended."""
        # Spares pytest's last garbage collections: no test has run in this process.
        gc.freeze()
        report = self._reports.report
        steps: list[Callable[[], object]] = [
            lambda: self._reports.finish(session, exitstatus),
            self._folder.cleanup,
        ]
        if report is not None:
            report.news.note(*self._blames)
            steps.append(lambda: self._forget_results(report.summary().folder))
        self._own.run("pytest_sessionfinish", *steps)

    def _forget_results(self, folder: Path | None) -> None:
        if folder is not None:
            from pytest_gpuperf.records.passes import RESULTS_FILE

            for place in range(len(self._orders.cards)):
                (folder / RESULTS_FILE.format(place)).unlink(missing_ok=True)

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the tables, and the tests that ended their process."""
        if self._benchmarks:
            terminalreporter.write(self._benchmarks)
        if self._reports.report is None:
            for blame in self._blames:
                terminalreporter.write_line(f"gpuperf: {blame}")


def _place(node: WorkerController) -> int:
    """Return the place of a worker among all; one that replaces another has the same."""
    return int(node.gateway.spec.env.get(WORKER_ENV, 0))


def _innermost(stacks: str) -> list[str]:
    """Return the frames of the main thread below pytest's own, the innermost first."""
    frames = stacks.rpartition(" (most recent call first):\n")[2].splitlines()
    inside = takewhile(lambda frame: frame.startswith("  File ") and "/_pytest/" not in frame, frames)
    return list(inside)[:STACK_LINES]


def _advice(nodeid: str) -> str:
    tool = "--gpuperf-sanitize=memcheck " if "sanitizer" in registry().features else ""
    return f"to find the cause: pytest --gpuperf {tool}{shlex.quote(nodeid)}"
