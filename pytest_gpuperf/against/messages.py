"""Messages between a run and its side processes: first a plan, then commands and answers over a socket.

A side process does nothing by itself: it reports its state, and waits. So only one of the two has work on the
GPU at any time, and neither compiles, autotunes or warms up while the other is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pytest_gpuperf.records import Fingerprint, LaunchedCode

if TYPE_CHECKING:
    from pathlib import Path


class SidePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a side process; `side_import_path.py` reads four fields by name: `checkout` to `first`."""

    channel: int
    """Descriptor of the side's end of the socket."""
    checkout: str
    """Top folder of the checkout."""
    tree: str
    """Top folder of the code of this side."""
    folder: str
    """Folder around that of old code, with what its process builds; for new code the tree."""
    built: str
    """Folder of the packages that `gpuperf_build` has made of old code; empty for none."""
    other: str
    """Top folder of the code of the other side; empty if there is none."""
    first: str
    """The first import folder of the run if it is in the checkout; else empty."""
    file: str
    """File of the test, in the side's tree; it is collected if it exists."""
    nodeid: str
    """The test."""
    labels: list[str]
    """Labels of the test to time."""
    imports: list[str]
    """Slow modules that the test will import: both sides do that at once, before its turn."""
    driver: str | None
    """Version of the driver if the side is to read the code of its calls; else None."""

    @classmethod
    def read(cls, path: Path) -> SidePlan:
        """Read the plan; for the side process."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


class Begin(msgspec.Struct, tag=True, frozen=True):
    """To a side: run the test, up to a call of `time` or to its end."""


class RunBlock(msgspec.Struct, tag=True, frozen=True):
    """To a side that is ready: time one block."""

    recorded: bool = False
    """True to take the times from CUPTI's records."""


class GoOn(msgspec.Struct, tag=True, frozen=True):
    """To a side that is ready: return from `time`, and run to the next such call or the test's end."""


class Collected(msgspec.Struct, tag=True, frozen=True):
    """From a side: it has the test, and waits for `Begin`; a side without it sends `Ended`."""


class Ready(msgspec.Struct, tag=True, frozen=True):
    """From a side: a call is compiled, warm and ready to be timed."""

    label: str
    call: Fingerprint
    short: bool = False
    """True if CUPTI should time it."""
    code: LaunchedCode | None = None
    """Code of its kernels; None if it was not to be read."""
    autotuned: tuple[str, ...] = ()
    """What autotuners chose, as in `Timing`, if its code was read."""


class BlockTime(msgspec.Struct, tag=True, frozen=True):
    """From a side: one block."""

    time_us: float
    """Microseconds per call."""
    sm_clock_mhz: float
    """Mean SM clock, in MHz; 0 if unknown."""


class Ended(msgspec.Struct, tag=True, frozen=True):
    """From a side: the test has ended."""

    failure: str = ""
    """How collection, set-up, call or teardown ended early; empty if the test ran to its end."""
    misplaced: str = ""
    """Why its code or data were not those of the side; empty if they were."""


Command: TypeAlias = Begin | RunBlock | GoOn
Answer: TypeAlias = Collected | Ready | BlockTime | Ended

ANSWERS: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Collected | Ready | BlockTime | Ended)
COMMANDS: msgspec.json.Decoder[Command] = msgspec.json.Decoder(Begin | RunBlock | GoOn)
