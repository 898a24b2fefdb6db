"""Counters of unchanged projects, kept in `.gpuperf/counters/` so that they need not be read again.

Before they are read, a key decides whether the kept counters of a test are valid: the sources of the project
(`project_hash`), the machine, the options, and the metrics and kernels that the test asks for. When the test
comes to its call, CUPTI records its launches. Counters are kept only if their reader saw the same launches,
and used only if the launches are still the same. If they are not, something else decides the launches, such
as an autotuner: nothing more is kept of the test until the project changes.

An error here never fails a run: the counters are read, and `problem` tells why.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

import msgspec
from _pytest.config import get_config

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.call_profile import names_to_read
from pytest_gpuperf.measure.counters.project_hash import project_hash
from pytest_gpuperf.measure.ncu.kernel_name import function_name
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.measure.ncu.tool import CACHE_CONTROL, CLOCK_CONTROL
from pytest_gpuperf.records.runs import make_state_folder
from pytest_gpuperf.records.writing import write_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.records import Environment
    from pytest_gpuperf.records.call import Call
    from pytest_gpuperf.records.passes import SelectedTest

SCHEMA = 2
KEPT_PER_TEST = 3
"""Number of newest files of a test and a reader that stay: after a change to another branch and back they
are used again."""
KEPT_DAYS = 30
"""Days after which an unused file is deleted."""

_RANDOM = frozenset(("randomly_seed",))
"""Options with another value in each run; pytest-randomly draws a seed, which only changes the values of
inputs."""


class Launch(msgspec.Struct, frozen=True, order=True):
    """One launch as CUPTI records it."""

    name: str
    """Demangled."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    registers_per_thread: int
    shared_memory_bytes: int
    static_shared_memory_bytes: int

    @classmethod
    def of(cls, kernel: Activity) -> Launch:
        """Take the fields from a CUPTI record."""
        return cls(*(getattr(kernel, name) for name in cls.__struct_fields__))

    def __str__(self) -> str:
        """Describe the launch for a message."""
        blocks, threads = ("x".join(map(str, size)) for size in (self.grid, self.block))
        return (
            f"{function_name(self.name)} with {blocks} blocks of {threads} threads, "
            f"{self.registers_per_thread} registers and {self.shared_memory_bytes} bytes of shared memory"
        )


class KeptCall(msgspec.Struct, frozen=True):
    """One call of `profile()`."""

    kernels: list[RawKernel]
    """Kernels that match the marker of the test, in launch order."""
    launches: list[Launch]
    """The same launches as CUPTI recorded them in the process of the tests; sorted, since graph nodes have no
    order."""


class KeptTest(msgspec.Struct, frozen=True):
    """All calls of a test by label."""

    schema: int
    nodeid: str
    read_at: str
    """Time when they were read: `2026-11-20T17:30:12Z`."""
    calls: dict[str, KeptCall] = {}
    varies: bool = False
    """True if the test launched different kernels although nothing had changed."""


def launched_kernels(call: Call) -> list[Activity]:
    """Return the kernels that a call launches, in order, as CUPTI records them.

    Raises:
        CuptiError: CUPTI cannot record them.
    """
    from pytest_gpuperf.measure.cupti.activity import recorded

    call()
    with recorded() as activities:
        call()
    return [activity for activity in activities if activity.name]


class KeptCounters:
    """Kept counters of a project.

    Args:
        state: The `.gpuperf` folder of the project; need not exist.
        root: pytest's rootdir.
        conditions: Returns everything except the sources that counters depend on, see `conditions_of`.
        reader: `ncu` or `cupti`; neither uses what the other has read.
        chip: Name of the GPU's chip.
        reads: Use kept counters; if False, read all again and keep them.
    """

    def __init__(
        self,
        state: Path,
        root: Path,
        conditions: Callable[[], Sequence[str]],
        *,
        reader: str = "ncu",
        chip: str = "",
        reads: bool = True,
    ) -> None:
        self.problem = ""
        """Why no counters are kept; empty if they are."""
        self._state = state
        self._folder = state / "counters"
        self._root = root
        self._conditions = conditions
        self._reader = reader
        self._chip = chip
        self._reads = reads
        self._paths: dict[str, Path] = {}
        self._wanted: dict[str, SelectedTest] = {}
        self._new: dict[str, dict[str, KeptCall]] = {}

    def find(self, wanted: SelectedTest) -> KeptTest | None:
        """Find the kept counters of a test; None if there are none, or something has changed."""
        self._wanted[wanted.nodeid] = wanted
        kept = None
        if self.problem:
            return None
        with self.guarded():
            path = self._path(wanted)
            if path.is_file():
                with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    kept = msgspec.json.decode(path.read_bytes(), type=KeptTest)
                os.utime(path)
            if kept is not None and kept.schema != SCHEMA:
                kept = None
            if kept is not None and kept.varies:
                return None
            self._paths[wanted.nodeid] = path
        return kept if self._reads and not self.problem else None

    def why_stale(self, nodeid: str, kept: KeptCall | None, launched: Iterable[Activity]) -> str:
        """Describe how the launches of a call differ from the kept ones; empty if they do not.

        Args:
            nodeid: The test.
            kept: The kept counters of the call.
            launched: Its launches in this run.
        """
        if kept is None:
            return "the test did not make this call"
        now = self._launches(nodeid, launched)
        if now == kept.launches:
            return ""
        gone, come = Counter(kept.launches) - Counter(now), Counter(now) - Counter(kept.launches)
        if gone and come:
            return f"it launched {min(gone)}; now it launches {min(come)}"
        return f"it had {len(kept.launches)} launches, and has {len(now)} now"

    def note(
        self, nodeid: str, label: str, kernels: Iterable[RawKernel], launched: Iterable[Activity]
    ) -> None:
        """Remember the counters of a call until `keep`, if their reader saw the launches of this process.

        Args:
            nodeid: The test.
            label: The call.
            kernels: Its kernels as they were read.
            launched: Its launches in this process.
        """
        wanted = self._wanted[nodeid]
        names = frozenset(names_to_read(wanted.metrics, self._chip))
        chosen = [
            msgspec.structs.replace(
                kernel,
                ranges=(),
                rules=(),
                metrics={name: value for name, value in kernel.metrics.items() if name in names},
                units={name: unit for name, unit in kernel.units.items() if name in names},
            )
            for kernel in kernels
            if kernel.matches(wanted.regex)
        ]
        launches = self._launches(nodeid, launched)
        seen = (_shape(kernel.demangled or kernel.name, kernel) for kernel in chosen)
        if Counter(seen) == Counter(_shape(launch.name, launch) for launch in launches):
            self._new.setdefault(nodeid, {})[label] = KeptCall(chosen, launches)

    def carry(self, nodeid: str, label: str, call: KeptCall) -> None:
        """Keep a call of an earlier run again, next to new ones of its test."""
        self._new.setdefault(nodeid, {})[label] = call

    def drop(self, nodeid: str) -> None:
        """Forget the kept counters of a test that varies."""
        with self.guarded():
            write_files({self._paths[nodeid]: msgspec.json.encode(KeptTest(SCHEMA, nodeid, "", varies=True))})

    def for_ncu(self, nodeid: str) -> frozenset[str]:
        """Return the labels of a test that CUPTI could not read in earlier runs."""
        with self.guarded():
            path = self._for_ncu(nodeid)
            if path.is_file():
                with suppress(OSError):
                    os.utime(path)  # it is in use
                with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    return msgspec.json.decode(path.read_bytes(), type=frozenset[str])
        return frozenset()

    def leave_to_ncu(self, nodeid: str, label: str) -> bool:
        """Let ncu read a call in later runs; return True if that was noted."""
        labels = sorted({*self.for_ncu(nodeid), label})
        if self.problem:
            return False
        with self.guarded():
            make_state_folder(self._state)
            write_files({self._for_ncu(nodeid): msgspec.json.encode(labels)})
        return not self.problem

    def leave_to_cupti(self, nodeid: str) -> None:
        """Let CUPTI read a test in later runs."""
        with self.guarded():
            self._for_ncu(nodeid).unlink(missing_ok=True)

    def keep(self, labels: Mapping[str, AbstractSet[str]], read_at: str) -> None:
        """Write the counters of tests whose calls were all noted, and delete old files.

        Args:
            labels: All calls of each test.
            read_at: Date of the session.
        """
        files = {}
        with self.guarded():
            for nodeid, wanted in labels.items():
                calls = self._new.get(nodeid, {})
                if nodeid in self._paths and calls.keys() == wanted:
                    kept = KeptTest(SCHEMA, nodeid, read_at, calls)
                    files[self._paths[nodeid]] = msgspec.json.encode(kept)
            if files and not self.problem:
                make_state_folder(self._state)
                write_files(files)
            self._delete_old()

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Keep nothing if that fails, and go on; `problem` tells why."""
        try:
            yield
        except (GpuperfError, OSError) as error:
            self._end(f"counters are not kept for later runs: {error}")

    def _end(self, problem: str) -> None:
        self.problem = self.problem or problem

    @cached_property
    def _everywhere(self) -> tuple[str, ...]:
        """Parts of the key that all tests share."""
        return project_hash(self._root), *self._conditions()

    def _delete_old(self) -> None:
        before = time.time() - KEPT_DAYS * 86400
        of_kind: dict[str, int] = {}
        for path in sorted(self._folder.glob("*.json"), key=lambda path: -path.stat().st_mtime):
            kind = path.name.rpartition("-")[0]
            of_kind[kind] = of_kind.get(kind, 0) + 1
            if of_kind[kind] > KEPT_PER_TEST or path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _launches(self, nodeid: str, launched: Iterable[Activity]) -> list[Launch]:
        regex = self._wanted[nodeid].regex
        kernels = (launch for launch in launched if launch.name)
        return sorted(
            Launch.of(kernel)
            for kernel in kernels
            if RawKernel(function_name(kernel.name), kernel.name).matches(regex)
        )

    def _for_ncu(self, nodeid: str) -> Path:
        return self._folder / f"{_hash([nodeid])[:16]}-for_ncu.json"

    def _path(self, wanted: SelectedTest) -> Path:
        asked = sorted(names_to_read(wanted.metrics, self._chip))
        parts = [wanted.nodeid, wanted.regex or "", *asked, *self._everywhere]
        of_test, of_all = (_hash(part) for part in ([wanted.nodeid], parts))
        return self._folder / f"{of_test[:16]}-{self._reader}-{of_all[:32]}.json"


def conditions_of(environment: Environment, clocks: str, options: Mapping[str, object]) -> tuple[str, ...]:
    """List everything except sources that counters depend on: GPU, clocks, versions, settings, options.

    Args:
        environment: Hardware and software of this run.
        clocks: Clock settings of the GPU.
        options: All options of the command line, by `dest`.
    """
    toolchain = environment.toolchain
    versions = (f"{name} {getattr(toolchain, name)}" for name in toolchain.__struct_fields__)
    gpu = environment.gpu
    return (
        *(str(SCHEMA), gpu.name, gpu.uuid, clocks, CLOCK_CONTROL, CACHE_CONTROL),
        *(*versions, *_options_of_others(options)),
    )


def _options_of_others(options: Mapping[str, object]) -> Iterator[str]:
    """List options that the project or another plugin declares, as `dtype="fp16"`."""
    # pytest does not tell who declared an option, but a pytest without plugins knows its own; `-q` adds one.
    own = vars(get_config()._parser.parse_known_args(["-q"])).keys() | _RANDOM
    for name in sorted(options):
        if name not in own and not name.startswith("gpuperf"):
            value = msgspec.json.encode(options[name], enc_hook=_plain, order="deterministic").decode()
            yield f"{name}={value}"


def _plain(value: object) -> str:
    # The text of an object may be its address.
    return str(value) if isinstance(value, PurePath) else type(value).__name__


def _shape(name: str, launch: RawKernel | Launch) -> tuple[str, tuple[int, int, int], tuple[int, int, int]]:
    """Return the facts of a launch that ncu and CUPTI write alike; the rest of a name differs."""
    return function_name(name), launch.grid, launch.block


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256(msgspec.json.encode(list(parts))).hexdigest()
