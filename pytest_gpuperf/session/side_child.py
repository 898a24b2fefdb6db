"""The side process: a child pytest that is timed in turn with another one, of older or newer code."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from pytest_gpuperf.against.messages import (
    COMMANDS,
    BlockTime,
    Collected,
    Ended,
    Ready,
    RunBlock,
    SidePlan,
)
from pytest_gpuperf.against.own_code_check import Modules
from pytest_gpuperf.compat.compiler_names import choices_noted, ready_compilers
from pytest_gpuperf.compat.pytest_names import leave_out_summary_of_hypothesis
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import kept_attached
from pytest_gpuperf.measure.device.lasting_errors import why_broken
from pytest_gpuperf.session.child_runner import ChildRunner, ChildSource, make_child
from pytest_gpuperf.session.marker import name_of
from pytest_gpuperf.settings.settings import SIDE_ENV

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Mapping

    from pytest_gpuperf.against.messages import Answer, Command
    from pytest_gpuperf.measure.first_calls import CodeReader
    from pytest_gpuperf.measure.timing.timer import Timer
    from pytest_gpuperf.records import LaunchedCode, Timing
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.settings.settings import Settings

PYTEST_TIMEOUT = ("timeout", "pytest_timeout")
"""Names of the plugin pytest-timeout: as pip installs it, and with `-p`."""
OPTIONS_OF_A_SIDE: Mapping[str, object] = {
    # The parent asks why a file cannot be collected.
    "continue_on_collection_errors": True,
    # The plan names a file by its path.
    "pyargs": False,
    # The other side and the parent would have the same folder, and each empties it.
    "basetemp": None,
}
"""Further options that a side process does not take from the parent's command line."""


def prepare_side(config: pytest.Config, path: Path) -> None:
    """Make this pytest a side process, before other plugins read their options.

    Args:
        config: pytest's.
        path: The file of its plan.
    """
    # A pytest that a test starts must not become one.
    os.environ.pop(SIDE_ENV, None)
    conversation = conversation_of(path)
    make_child(config)
    vars(config.option).update(OPTIONS_OF_A_SIDE)
    # The old code may lack files, folders and tests that the command line names.
    config.args = [conversation.plan.file] if Path(conversation.plan.file).exists() else []
    config.pluginmanager.register(conversation, "gpuperf-side")
    for name in PYTEST_TIMEOUT:
        # A test waits here for its turn.
        config.pluginmanager.set_blocked(name)


@cache
def conversation_of(path: Path) -> Conversation:
    """Return the one conversation that belongs to a plan."""
    plan = SidePlan.read(path)
    # Programs that a test starts must not keep it open.
    os.set_inheritable(plan.channel, False)
    return Conversation(plan, Connection(plan.channel))


class Conversation:
    """Runs a test when the parent says so.

    Args:
        plan: The test, and the code of this side.
        parent: The side's end of the socket.
    """

    def __init__(self, plan: SidePlan, parent: Connection) -> None:
        self.plan = plan
        self._parent = parent
        self._modules = Modules(plan, getattr(sys.modules["__main__"], "opened", set()))
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
        if isinstance(answer, Ready) and self._misplaced_now():
            raise GpuperfError(self._misplaced)
        self._tell(answer)

    def _tell(self, answer: Answer) -> None:
        self._parent.send_bytes(msgspec.json.encode(answer))

    def command(self) -> Command:
        """Wait for the parent's next command, for any time."""
        faulthandler.cancel_dump_traceback_later()
        try:
            return COMMANDS.decode(self._parent.recv_bytes())
        except (OSError, EOFError):
            pytest.exit("gpuperf: the parent run has ended")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep why something could not be collected."""
        if report.failed:
            last = next(filter(None, map(str.strip, reversed(report.longreprtext.splitlines()))), "")
            self._broken[report.nodeid] = last.removeprefix("E").strip()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Tell the parent if the test is here."""
        found = [item for item in session.items if name_of(item) == self.plan.nodeid]
        nodeid = self.plan.nodeid
        broken = (
            f"{collector} cannot be collected: {why}"
            for collector, why in self._broken.items()
            if nodeid.startswith((f"{collector}::", f"{collector}/"))
        )
        failure = "" if found else next(broken, "there is no such test")
        # After the code of the project, which may set variables for them.
        for name in self.plan.imports if found else ():
            with suppress(Exception):  # the test itself tells of it
                import_module(name)
        if self.plan.imports:
            ready_compilers()
        misplaced = self._misplaced_now()
        self._tell(Ended(failure, misplaced) if failure or misplaced else Collected())
        session.items[:] = found

    def _misplaced_now(self) -> str:
        """Return why what this process has loaded so far is not this side's own; empty if it is."""
        try:
            self._modules.check()
        except GpuperfError as error:
            self._misplaced = str(error)
        return self._misplaced

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Leave out what takes long at the end, such as garbage collections: the run waits for it."""
        gc.freeze()
        leave_out_summary_of_hypothesis(session.config)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Wait for the turn of the test, and tell how it ended."""
        self.command()
        outcome = yield
        if broken := why_broken():
            # The parent takes this for the end of the test.
            self._log.write(f"the GPU is broken: {broken}\n")
            self._log.flush()
            os._exit(1)
        self._tell(Ended(self._failure, self._misplaced_now()))
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


class SideSource(ChildSource):
    """Times blocks of some calls for the parent, as many as it asks for.

    Args:
        parent: Gives the commands.
        timer: Makes calls ready to be timed.
        labels: Labels to time.
        reader: Reads the code of calls; None if nobody asks for it.
    """

    def __init__(
        self, parent: Conversation, timer: Timer, labels: Container[str], reader: CodeReader | None = None
    ) -> None:
        self._parent = parent
        self._timer = timer
        self._labels = labels
        self._reader = reader

    def time(self, call: Call, *, mode: str, bytes: int, flops: int) -> Timing:
        """Time blocks for the parent, and return a time that agrees with every limit."""
        from pytest_gpuperf.measure.reachable_tensors import CallElsewhere

        if call.label in self._labels:
            code, choices = self._code(call)
            prepared = self._timer.prepare(call, mode)
            prepared.elsewhere = partial(CallElsewhere, call)
            called = call.fingerprint(prepared.mode, bytes, flops)
            self._parent.tell(Ready(call.label, called, prepared.records_better(), code, choices))
            # Once blocks are recorded, all are: none of a graph, which CUPTI would slow down.
            with kept_attached():
                while isinstance(command := self._parent.command(), RunBlock):
                    timed = prepared.block(recorded=command.recorded)
                    self._parent.tell(BlockTime(timed.time_us, timed.sm_clock_mhz))
            del prepared  # and its memory
        return super().time(call, mode=mode, bytes=bytes, flops=flops)

    def _code(self, call: Call) -> tuple[LaunchedCode | None, tuple[str, ...]]:
        """Return the code of a call, and what autotuners chose, as `kernel: config`."""
        chosen: set[str] = set()
        if self._reader is None:
            return None, ()
        with choices_noted(lambda kernel, config: chosen.add(f"{kernel}: {config}")):
            return self._reader.read(call), tuple(sorted(chosen))


class SideRunner(ChildRunner):
    """Times the calls that the other side times too."""

    def __init__(self, settings: Settings, path: Path) -> None:
        from pytest_gpuperf.measure.device.gpu_identity import gpu_info
        from pytest_gpuperf.measure.first_calls import CodeReader
        from pytest_gpuperf.measure.timing.timer import Timer

        parent = conversation_of(path)
        timer = Timer(gpu_info().l2_bytes, settings.budget_s, lambda: None)
        driver = parent.plan.driver
        reader = CodeReader(driver) if driver is not None else None
        super().__init__(settings, SideSource(parent, timer, parent.plan.labels, reader))
