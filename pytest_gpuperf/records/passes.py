"""Passes: runs of the tests in other processes, before the tests themselves run.

Each pass starts a child pytest. The parent and the child exchange a plan and events through files.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from pytest_gpuperf.records.run_store import STATE_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_gpuperf.records.run import SanitizerResult

OpenProgress: TypeAlias = Callable[[str], AbstractContextManager[Callable[[str], None]]]
"""Begins a line with a title; the function that it returns shows how far the pass is."""


@dataclass(frozen=True)
class Invocation:
    """The command that started pytest."""

    arguments: Sequence[str]
    cwd: Path
    rootdir: Path
    mode: str = "auto"
    """Timing mode of tests that name none."""
    first_on_path: str = ""
    """The first import folder before pytest added those of tests; the working directory under `python -m`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables before the first test: a test may set others for itself."""
    addopts: Sequence[str] = ()
    """The options that the ini file adds."""


@dataclass(frozen=True)
class SelectedTest:
    """A test that is to run, and its options."""

    nodeid: str
    regex: str | None = None
    """From the marker: kernels that it does not find are not profiled, whatever a call asks for."""
    metrics: tuple[str, ...] = ()
    """Metrics to read: short names and raw ones."""
    preset: str = ""
    """Names of the presets with these metrics; empty for the default."""
    path: Path = Path()
    """The file of the test."""


RESULTS_FILE = "passes-{}.msgpack"
"""File in the folder of a run, while the run goes on: results of the passes for a process that replaces
another one."""


class Pass(Protocol):
    """Runs the selected tests once more, in other processes."""

    def run(self, tests: Sequence[SelectedTest], invocation: Invocation, progress: OpenProgress) -> None:
        """Run the tests and keep the results.

        Args:
            tests: In the order of the run.
            invocation: The command that started pytest.
            progress: Shows the progress.

        Raises:
            GpuperfError: The pass cannot run here.
        """


class CheckingPass(Pass, Protocol):
    """Finds errors of the selected tests."""

    notices: list[str]
    """The summary."""
    results: dict[str, SanitizerResult]
    """Errors of each test, or the reason that it was not checked to its end, by node id."""
    skipped: dict[str, SanitizerResult]
    """The same for tests that skip themselves."""
    problems: list[str]
    """Problems of the run."""

    @property
    def title(self) -> str:
        """Name of the tool."""


class PassPlan(msgspec.Struct, frozen=True):
    """The tests that the child runs."""

    nodeids: list[str]
    first_range: int = 1
    """Number of the first range; processes of one pass have different ones."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of the child. A node id alone says that the test has run."""

    nodeid: str
    label: str = ""
    """Set if a call was profiled."""
    range: str = ""
    """Name of the NVTX range around that call, or of the marker kernel before it."""
    began: bool = False
    """True if the test begins."""
    failure: str = ""
    """How set-up, call or teardown ended early."""


class PassFolder:
    """The folder that one child and its parent share."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.report = path / "report.ncu-rep"
        self.ncu_log = path / "ncu.log"
        self.child_log = path / "pytest.log"
        self._plan = path / "plan.json"
        self._events = path / "events.jsonl"

    @property
    def shown_log(self) -> str:
        """The child's log for messages: from `.gpuperf` on, as records hold no other path."""
        parts = self.child_log.parts
        return "/".join(parts[parts.index(STATE_FOLDER) :] if STATE_FOLDER in parts else parts[-2:])

    def write_plan(self, plan: PassPlan) -> None:
        """Tell the child which tests to run."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._plan.write_bytes(msgspec.json.encode(plan))

    def read_plan(self) -> PassPlan:
        """Return the tests to run; for the child."""
        return msgspec.json.decode(self._plan.read_bytes(), type=PassPlan)

    def tell(self, event: Event) -> None:
        """Append an event; for the child."""
        with self._events.open("ab") as stream:
            stream.write(msgspec.json.encode(event) + b"\n")

    def events(self) -> list[Event]:
        """Return all complete events so far."""
        if not self._events.exists():
            return []
        lines = self._events.read_bytes().split(b"\n")[:-1]
        return [msgspec.json.decode(line, type=Event) for line in lines]
