"""The session of a worker: a child pytest that is timed in turn with another one, of older or newer code."""

from __future__ import annotations

import os
import random
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from pytest_gpuperf.against.messages import Collected, Compare, Ended, Plan, Ready, Started, WorkerEnd
from pytest_gpuperf.against.modules import Modules
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.session.child import OPTIONS_OF_A_CHILD, ChildSession
from pytest_gpuperf.settings.settings import WORKER_ENV

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from pytest_gpuperf.against.messages import Answer, Command
    from pytest_gpuperf.session.worker_instruments import Preparer
    from pytest_gpuperf.settings.settings import Settings

OPTIONS_OF_A_WORKER: Mapping[str, object] = {
    **OPTIONS_OF_A_CHILD,
    # What can be collected is compared.
    "continue_on_collection_errors": True,
    # Its files are named by their paths.
    "pyargs": False,
    # The other worker and the session would have it too, and each empties it.
    "basetemp": None,
    # The option of pytest-timeout: a test waits for its turn here.
    "timeout": 0,
}
"""What a worker does not take from the session's command line, by pytest's `dest`."""


def prepare_worker(config: pytest.Config, path: Path) -> None:
    """Make a pytest a worker: before other plugins read their options.

    Args:
        config: The worker's.
        path: Its plan.
    """
    # A pytest that a test starts is none.
    os.environ.pop(WORKER_ENV, None)
    plan = turns_of(path).plan
    vars(config.option).update(OPTIONS_OF_A_WORKER)
    # The old code may lack files, folders and tests that the command line names.
    config.args = [file for file in plan.files if Path(file).exists()]
    config.pluginmanager.register(turns_of(path), "gpuperf-turns")


@cache
def turns_of(path: Path) -> Turns:
    """The one conversation that belongs to a plan."""
    plan = Plan.read(path)
    return Turns(plan, WorkerEnd(plan.channel))


class Turns:
    """Runs the tests that both sides have, each when the session says so.

    Args:
        plan: What to run.
        session: Says when.
    """

    def __init__(self, plan: Plan, session: WorkerEnd) -> None:
        self.plan = plan
        self._session = session
        self._modules = Modules(plan.checkout, plan.tree, plan.other)
        self._broken: dict[str, str] = {}
        self._failure = ""
        self._misplaced = ""

    def tell(self, answer: Answer) -> None:
        """Say something to the session; but nothing is timed of what is not this side's code.

        Raises:
            GpuperfError: Something that has been imported is not.
        """
        if isinstance(answer, Ready):
            try:
                self._modules.check()
            except GpuperfError as error:
                self._misplaced = str(error)
                raise
        self._session.tell(answer)

    def command(self) -> Command:
        """What the session wants next."""
        try:
            return self._session.command()
        except (OSError, EOFError):
            pytest.exit("gpuperf: the session has ended")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Learn what could not be collected."""
        if report.failed:
            last = next(filter(None, map(str.strip, reversed(report.longreprtext.splitlines()))), "")
            self._broken[report.nodeid] = last.removeprefix("E").strip()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Agree with the session, and so with the other worker, on the tests and their order."""
        found = {item.nodeid: item for item in session.items}
        nodeids = [nodeid for nodeid in self.plan.nodeids if nodeid in found]
        misplaced = ""
        try:
            self._modules.check()
        except GpuperfError as error:
            misplaced = str(error)
        self._session.tell(Collected(nodeids, self._broken, misplaced))
        command = self.command()
        assert isinstance(command, Compare)
        session.items[:] = [found[nodeid] for nodeid in command.nodeids]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Say that the tests can begin."""
        self._session.tell(Started())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:  # noqa: ARG002
        """Wait for the turn of this test, and tell how it ended."""
        self.command()
        self._failure = self._misplaced = ""
        seed(self.plan.seed)
        outcome = yield
        self._session.tell(Ended(self._failure, self._misplaced, self._modules.new_shared()))
        return outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Learn what ended a test early; of several things the first counts."""
        report = yield
        if call.excinfo is not None and not self._failure:
            reason = str(call.excinfo.value).partition("\n")[0]
            self._failure = f"its {call.when} ended with {call.excinfo.typename}: {reason}"
        return report


def seed(number: int) -> None:
    """Set the seed of the random numbers that tests make their data of."""
    import torch

    random.seed(number)
    torch.manual_seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


class WorkerSession(ChildSession):
    """Times what the other side times too."""

    def __init__(self, settings: Settings, path: Path) -> None:
        from pytest_gpuperf.measure.device.gpu import gpu_info
        from pytest_gpuperf.measure.timing.timer import Timer
        from pytest_gpuperf.session.worker_instruments import WorkerInstruments

        turns = turns_of(path)
        timer = cast("Preparer", Timer(gpu_info().l2_bytes, settings.budget_s, lambda: None))
        super().__init__(settings, WorkerInstruments(turns, timer, turns.plan.settled))
