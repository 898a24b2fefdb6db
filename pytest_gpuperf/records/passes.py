"""What the session and its child under ncu tell each other, through files in one folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.records.runs import STATE_FOLDER

if TYPE_CHECKING:
    from pathlib import Path


class Plan(msgspec.Struct, frozen=True):
    """What the child has to run."""

    nodeids: list[str]


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of what the child did."""

    nodeid: str
    label: str = ""
    """Set where a call was profiled."""
    range: str = ""
    """Name of the NVTX range around that call."""
    failure: str = ""
    """How its set-up, call or teardown ended early; a line of a node id alone says that the test has run."""
    skipped: bool = False
    """Whether that was a skip, which comes again as long as nothing changes."""


class PassFolder:
    """The folder of one profiling pass."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.report = path / "report.ncu-rep"
        self.ncu_log = path / "ncu.log"
        self.child_log = path / "pytest.log"
        self._plan = path / "plan.json"
        self._events = path / "events.jsonl"

    @property
    def shown_log(self) -> str:
        """What the child printed, as messages name it: from `.gpuperf` on, for records hold no other path."""
        parts = self.child_log.parts
        return "/".join(parts[parts.index(STATE_FOLDER) :] if STATE_FOLDER in parts else parts[-2:])

    def write_plan(self, plan: Plan) -> None:
        """Say what the child has to run."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._plan.write_bytes(msgspec.json.encode(plan))

    def read_plan(self) -> Plan:
        """In the child: what to run."""
        return msgspec.json.decode(self._plan.read_bytes(), type=Plan)

    def tell(self, event: Event) -> None:
        """In the child: append a line."""
        with self._events.open("ab") as stream:
            stream.write(msgspec.json.encode(event) + b"\n")

    def events(self) -> list[Event]:
        """All complete lines so far."""
        if not self._events.exists():
            return []
        lines = self._events.read_bytes().split(b"\n")[:-1]
        return [msgspec.json.decode(line, type=Event) for line in lines]
