"""The side process: a child pytest that is timed in turn with another one, of older or newer code."""

from __future__ import annotations

import gc
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from pytest_gpuperf.against.messages import (
    Collected,
    Compare,
    Ended,
    Ready,
    RunBlock,
    SideEnd,
    SidePlan,
    Started,
    Timed,
)
from pytest_gpuperf.against.modules import Modules
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.cupti.owner import kept_attached
from pytest_gpuperf.measure.device.health import why_broken
from pytest_gpuperf.session.child import OPTIONS_OF_A_CHILD, ChildRunner, ChildSource
from pytest_gpuperf.settings.settings import SIDE_ENV

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Mapping
    from typing import Any

    from pytest_gpuperf.against.messages import Answer, Command
    from pytest_gpuperf.records import Timing, TimingMode
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.settings.settings import Settings

OPTIONS_OF_A_SIDE: Mapping[str, object] = {
    **OPTIONS_OF_A_CHILD,
    # One file that cannot be collected must not keep the others from being compared.
    "continue_on_collection_errors": True,
    # The plan names files by their paths.
    "pyargs": False,
    # The other side and the parent would have the same folder, and each empties it.
    "basetemp": None,
    # pytest-timeout: a test waits here for its turn.
    "timeout": 0,
}
"""Options that a side process does not take from the parent's command line, by pytest's `dest`."""


def prepare_side(config: pytest.Config, path: Path) -> None:
    """Make this pytest a side process, before other plugins read their options.

    Args:
        config: pytest's.
        path: The file of its plan.
    """
    # A pytest that a test starts must not become one.
    os.environ.pop(SIDE_ENV, None)
    conversation = conversation_of(path)
    vars(config.option).update(OPTIONS_OF_A_SIDE)
    # The old code may lack files, folders and tests that the command line names.
    config.args = [file for file in conversation.plan.files if Path(file).exists()]
    config.pluginmanager.register(conversation, "gpuperf-side")


@cache
def conversation_of(path: Path) -> Conversation:
    """Return the one conversation that belongs to a plan."""
    plan = SidePlan.read(path)
    return Conversation(plan, SideEnd(plan.channel))


class Conversation:
    """Runs the tests that both sides have, each when the parent says so.

    Args:
        plan: The tests, and the code of this side.
        parent: The side's end of the socket.
    """

    def __init__(self, plan: SidePlan, parent: SideEnd) -> None:
        self.plan = plan
        self._parent = parent
        self._modules = Modules(plan.checkout, plan.tree, plan.other)
        self._broken: dict[str, str] = {}
        self._failure = ""
        self._misplaced = ""
        # pytest captures the descriptor itself while a test runs.
        self._log = os.fdopen(os.dup(2), "w", encoding="utf-8")

    def tell(self, answer: Answer) -> None:
        """Tell the parent something. Before a call is timed, check that its code is this side's.

        Raises:
            GpuperfError: A module was imported from the other side.
        """
        if isinstance(answer, Ready):
            try:
                self._modules.check()
            except GpuperfError as error:
                self._misplaced = str(error)
                raise
        self._parent.tell(answer)

    def command(self) -> Command:
        """Wait for the parent's next command."""
        try:
            return self._parent.command()
        except (OSError, EOFError):
            pytest.exit("gpuperf: the parent run has ended")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why something could not be collected."""
        if report.failed:
            last = next(filter(None, map(str.strip, reversed(report.longreprtext.splitlines()))), "")
            self._broken[report.nodeid] = last.removeprefix("E").strip()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Agree with the parent, and so with the other side, on the tests and their order."""
        found = {item.nodeid: item for item in session.items}
        nodeids = [nodeid for nodeid in self.plan.nodeids if nodeid in found]
        misplaced = ""
        try:
            self._modules.check()
        except GpuperfError as error:
            misplaced = str(error)
        self._parent.tell(Collected(nodeids, self._broken, misplaced))
        command = self.command()
        assert isinstance(command, Compare)
        session.items[:] = [found[nodeid] for nodeid in command.nodeids]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Tell the parent that the tests can begin."""
        self._parent.tell(Started())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Spare pytest's last garbage collections: nobody reads what they find, but the run waits."""
        gc.freeze()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Wait for the turn of the next test, and tell how it ended."""
        self.command()
        self._failure = self._misplaced = ""
        outcome = yield
        if broken := why_broken():
            # The parent takes this for the end of this test, and runs the others in new processes.
            self._log.write(f"the GPU is broken: {broken}\n")
            self._log.flush()
            os._exit(1)
        self._parent.tell(Ended(self._failure, self._misplaced, self._modules.new_shared()))
        return outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep why a test ended early; the first of several reasons counts."""
        report = yield
        if call.excinfo is not None and not self._failure:
            reason = str(call.excinfo.value).partition("\n")[0]
            self._failure = f"its {call.when} ended with {call.excinfo.typename}: {reason}"
        return report


class Block(Protocol):
    """One block."""

    @property
    def time_us(self) -> float:
        """Microseconds per call."""

    @property
    def sm_clock_mhz(self) -> float:
        """Mean SM clock, in MHz; 0 if unknown."""


class Prepared(Protocol):
    """A callable, compiled and captured."""

    @property
    def mode(self) -> TimingMode:
        """Its timing mode."""

    def block(self, *, recorded: bool = False) -> Block:
        """Time one block; `recorded` by CUPTI."""

    def is_short(self) -> bool:
        """Return True if CUPTI should time it."""


class Preparer(Protocol):
    """Makes a callable ready to be timed."""

    def prepare(self, fn: Callable[[], Any], mode: str) -> Prepared:
        """Compile and capture it."""


class Parent(Protocol):
    """The parent, as a call sees it."""

    def tell(self, answer: Answer) -> None:
        """Tell it something."""

    def command(self) -> Command:
        """Wait for its next command."""


class SideSource(ChildSource):
    """Times blocks of each call for the parent, as many as it asks for.

    Args:
        parent: Gives the commands.
        timer: Makes calls ready to be timed.
        settled: Labels, by test, that need no more times.
    """

    def __init__(self, parent: Parent, timer: Preparer, settled: Mapping[str, Container[str]]) -> None:
        self._parent = parent
        self._timer = timer
        self._settled = settled

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Time blocks for the parent, and return a time that agrees with every limit."""
        if call.label not in self._settled.get(call.nodeid, ()):
            prepared = self._timer.prepare(call, mode)
            self._parent.tell(Ready(call.label, prepared.mode, prepared.is_short()))
            # Once blocks are recorded, all are: none of a graph, which CUPTI would slow down.
            with kept_attached():
                while isinstance(command := self._parent.command(), RunBlock):
                    self._parent.tell(_timed(prepared, command))
        return super().time(call, mode=mode, bytes=bytes, flops=flops)


def _timed(prepared: Prepared, command: RunBlock) -> Timed:
    """Time a block; without a record of CUPTI's it has no time, which costs its quad of blocks."""
    try:
        block = prepared.block(recorded=command.recorded)
    except CuptiError:
        return Timed(0.0, 0.0)
    return Timed(block.time_us, block.sm_clock_mhz)


class SideRunner(ChildRunner):
    """Times the calls that the other side times too."""

    def __init__(self, settings: Settings, path: Path) -> None:
        from pytest_gpuperf.measure.device.gpu import gpu_info
        from pytest_gpuperf.measure.timing.timer import Timer

        parent = conversation_of(path)
        timer = cast("Preparer", Timer(gpu_info().l2_bytes, settings.budget_s, lambda: None))
        super().__init__(settings, SideSource(parent, timer, parent.plan.settled))
