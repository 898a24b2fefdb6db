"""The child pytest under ncu: each profiled call runs once in a named range."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.records.call import wait_for_launches
from pytest_gpuperf.records.passes import Event, PassFolder
from pytest_gpuperf.session.child_runner import ChildRunner, ChildSource, make_child
from pytest_gpuperf.session.marker import name_of

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from pytest_gpuperf.records import Profile
    from pytest_gpuperf.records.call import Call, Selection
    from pytest_gpuperf.settings.settings import Settings

NOT_IN_RANGE_NAMES = re.compile(r'[^ -~]|"')
"""Characters that ncu's reader may not give back: not ASCII, or the quotes of its CSV."""


def prepare_child(config: pytest.Config, folder: Path) -> None:
    """Make this pytest a child of ncu or compute-sanitizer, before other plugins read their options.

    Args:
        config: pytest's.
        folder: The folder of the pass.
    """
    make_child(config)
    config.pluginmanager.register(EventWriter(PassFolder(folder)), "gpuperf-events")


class EventWriter:
    """Tells the parent how each phase of each test ended."""

    def __init__(self, folder: PassFolder) -> None:
        self._folder = folder

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Tell that a test begins."""
        self._folder.tell(Event(name_of(item), began=True))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Tell that the test has run, or why its set-up, call or teardown ended early."""
        report = yield
        if call.excinfo is not None:
            reason = str(call.excinfo.value).partition("\n")[0]
            failure = f"its {call.when} ended with {call.excinfo.typename}: {reason}"
            self._folder.tell(Event(name_of(item), failure=failure))
        elif call.when == "call":
            self._folder.tell(Event(name_of(item)))
        return report


class ProfilingSource(ChildSource):
    """Runs each profiled call once between cudaProfilerStart and Stop, in a range with its name."""

    runs_for = ("warm_up", "time")

    def __init__(self, folder: PassFolder) -> None:
        self._folder = folder
        self._numbers = itertools.count(folder.read_plan().first_range)

    def profile(self, call: Call, kernels: Selection) -> Profile:
        """Run the call once so that ncu sees it."""
        import torch

        self.warm_up(call)
        # The number identifies the range. The rest is for people, so only plain characters stay.
        readable = NOT_IN_RANGE_NAMES.sub("?", f"{call.nodeid}#{call.label}")
        name = f"gpuperf:{next(self._numbers)}:{readable}"
        runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        runtime.cudaProfilerStart()
        # Start/end ranges, unlike push/pop, hold what autograd's thread launches.
        handle = torch.cuda.nvtx.range_start(name)
        try:
            wait_for_launches(call())
            torch.cuda.synchronize()
        finally:
            torch.cuda.nvtx.range_end(handle)
            runtime.cudaProfilerStop()
        self._folder.tell(Event(call.nodeid, call.label, name))
        return super().profile(call, kernels)


class ProfilingRunner(ChildRunner):
    """Runs the tests of the plan, and writes only its events."""

    def __init__(self, settings: Settings, path: Path) -> None:
        folder = PassFolder(path)
        super().__init__(settings, ProfilingSource(folder), folder.read_plan().nodeids)
