"""Counters of tests that have not changed since ncu read them, kept in `.gpuperf/counters/`.

Whether a test has changed is known before ncu starts by its code (`imported_code`), by what it asks for and
by where it runs. It is seen again when the test has come to its call: CUPTI says what the call launches in
this process. What ncu has read is kept only where ncu saw the same launches in its own, and what was kept is
used only where they are still the same. Otherwise something that is not known here decides what the test
launches, an autotuner for instance; where that is seen of counters that were kept, nothing more is kept of
the test until its code changes.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.measure.counters.choosing import names_to_read
from pytest_gpuperf.measure.counters.imported_code import ImportedCode, installed
from pytest_gpuperf.measure.counters.other_options import other_options
from pytest_gpuperf.measure.ncu.csv_reader import function_name
from pytest_gpuperf.measure.ncu.ncu import CACHE_CONTROL, CLOCK_CONTROL
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.records.json_files import write_files
from pytest_gpuperf.records.runs import make_state_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from pytest_gpuperf.measure.counters.choosing import Wanted
    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.records import Environment

SCHEMA = 2
KEPT_PER_TEST = 3
"""The newest of a test stay: who goes back to another branch finds its counters again."""
KEPT_DAYS = 30
"""What was not used for so long is deleted."""

_THEIRS = re.compile(r"(CUDA|CUBLAS|CUDNN|NVIDIA|PYTORCH|TORCH|TRITON)[A-Z0-9_]*")
"""Variables of the environment by which libraries choose kernels or make other ones."""


class Launch(msgspec.Struct, frozen=True, order=True):
    """What CUPTI says of one launch."""

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
        """Of CUPTI's record."""
        return cls(*(getattr(kernel, name) for name in cls.__struct_fields__))

    def __str__(self) -> str:
        """How messages name it."""
        blocks, threads = ("x".join(map(str, size)) for size in (self.grid, self.block))
        return (
            f"{function_name(self.name)} with {blocks} blocks of {threads} threads, "
            f"{self.registers_per_thread} registers and {self.shared_memory_bytes} bytes of shared memory"
        )


class KeptCall(msgspec.Struct, frozen=True):
    """One call of `profile()`."""

    kernels: list[RawKernel]
    """Those that the test's marker lets through, in launch order."""
    launches: list[Launch]
    """The same, as CUPTI saw them in the process of the tests; sorted, as nodes of a graph have no order."""


class KeptTest(msgspec.Struct, frozen=True):
    """All calls of a test by their labels."""

    schema: int
    nodeid: str
    read_at: str
    """When ncu read them: `2026-11-20T17:30:12Z`."""
    calls: dict[str, KeptCall] = {}
    varies: bool = False
    """Whether it was seen to launch different things though nothing had changed."""


class KeptCounters:
    """Finds what was kept of a test, and keeps what was read.

    Args:
        state: The project's `.gpuperf` folder; need not exist.
        root: pytest's rootdir.
        conditions: What else than its code the counters of a test hang on, see `conditions_of`.
        chip: Name of the GPU's chip.
        reads: Whether what was kept is used; otherwise all is read anew, and kept.
    """

    def __init__(
        self, state: Path, root: Path, conditions: Sequence[str], *, chip: str = "", reads: bool = True
    ) -> None:
        self._state = state
        self._folder = state / "counters"
        self._root = root
        self._conditions = conditions
        self._chip = chip
        self._reads = reads
        self._code = ImportedCode(root)
        self._paths: dict[str, Path] = {}
        self._wanted: dict[str, Wanted] = {}
        self._new: dict[str, dict[str, KeptCall]] = {}

    def find(self, wanted: Wanted) -> KeptTest | None:
        """What was kept of a test; None where there is nothing, or the test has changed."""
        self._wanted[wanted.nodeid] = wanted
        path = self._path(wanted)
        if path is None:
            return None
        kept = None
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            kept = msgspec.json.decode(path.read_bytes(), type=KeptTest)
            os.utime(path)
        if kept is None or kept.schema != SCHEMA:
            kept = None
        elif kept.varies:
            return None
        self._paths[wanted.nodeid] = path
        return kept if self._reads else None

    def why_stale(self, nodeid: str, kept: KeptCall | None, launched: Iterable[Activity]) -> str:
        """How the launches of a call differ from those whose counters were kept; empty where they do not.

        Args:
            nodeid: The test.
            kept: What was kept of the call.
            launched: What it launches now.
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
        """Remember what was read of a call until `keep`, where ncu saw the launches of this process.

        Args:
            nodeid: The test.
            label: The call.
            kernels: What ncu read of it.
            launched: What it launches in this process.
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

    def drop(self, nodeid: str) -> None:
        """Forget what was kept of a test that varies."""
        with suppress(OSError):
            write_files({self._paths[nodeid]: msgspec.json.encode(KeptTest(SCHEMA, nodeid, "", varies=True))})

    def keep(self, labels: Mapping[str, AbstractSet[str]], read_at: str) -> None:
        """Write what was read of tests all of whose calls were noted, and delete what is old.

        Args:
            labels: The calls of each test that has run to its end under ncu.
            read_at: When that was.
        """
        files = {}
        for nodeid, wanted in labels.items():
            calls = self._new.get(nodeid, {})
            if nodeid in self._paths and calls.keys() == wanted:
                kept = KeptTest(SCHEMA, nodeid, read_at, calls)
                files[self._paths[nodeid]] = msgspec.json.encode(kept)
        # A folder that cannot be written to only makes the next run longer.
        with suppress(OSError):
            if files:
                make_state_folder(self._state)
                write_files(files)
            self._delete_old()

    def _delete_old(self) -> None:
        before = time.time() - KEPT_DAYS * 86400
        of_test: dict[str, int] = {}
        for path in sorted(self._folder.glob("*.json"), key=lambda path: -path.stat().st_mtime):
            test = path.name.partition("-")[0]
            of_test[test] = of_test.get(test, 0) + 1
            if of_test[test] > KEPT_PER_TEST or path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _launches(self, nodeid: str, launched: Iterable[Activity]) -> list[Launch]:
        regex = self._wanted[nodeid].regex
        kernels = (launch for launch in launched if launch.name)
        return sorted(
            Launch.of(kernel)
            for kernel in kernels
            if RawKernel(function_name(kernel.name), kernel.name).matches(regex)
        )

    def _path(self, wanted: Wanted) -> Path | None:
        test = self._root / wanted.nodeid.partition("::")[0]
        if not test.is_file():
            return None
        parts = [
            *(wanted.nodeid, wanted.regex or "", *sorted(names_to_read(wanted.metrics, self._chip))),
            *(self._code.digest(test), *self._conditions),
        ]
        of_test, of_all = (_hash(part) for part in ([wanted.nodeid], parts))
        return self._folder / f"{of_test[:16]}-{of_all[:32]}.json"


def conditions_of(environment: Environment, clocks: str, options: Mapping[str, object]) -> tuple[str, ...]:
    """What the counters of all tests hang on, beside their code: GPU, clocks, versions, settings, options.

    Args:
        environment: Where the tests run.
        clocks: How the GPU's clocks are set.
        options: All options of the command line, by `dest`.
    """
    toolchain = environment.toolchain
    versions = (f"{name} {getattr(toolchain, name)}" for name in toolchain.__struct_fields__)
    variables = (f"{name}={value}" for name, value in os.environ.items() if _THEIRS.fullmatch(name))
    gpu = environment.gpu
    return (
        *(str(SCHEMA), gpu.name, gpu.uuid, clocks, CLOCK_CONTROL, CACHE_CONTROL),
        *(*versions, installed(), *sorted(variables), *other_options(options)),
    )


def _shape(name: str, launch: RawKernel | Launch) -> tuple[str, tuple[int, int, int], tuple[int, int, int]]:
    """What ncu and CUPTI both say of a launch; the rest of its name each writes in its own way."""
    return function_name(name), launch.grid, launch.block


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256(msgspec.json.encode(list(parts))).hexdigest()
