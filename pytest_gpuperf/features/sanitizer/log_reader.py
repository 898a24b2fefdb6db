"""Read compute-sanitizer's log.

Its XML has no published schema, is written only at the end, and differs between versions. The manual
describes the text, which can be read even if the process was killed. All releases since 2021 can be read:

    ========= Invalid __global__ write of size 4 bytes
    =========     at scale_kernel+0x90 in k.py:12              (since 2023.3)
    =========     at 0x90 in /home/me/k.py:12:scale_kernel     (before)
    =========     by thread (96,0,0) in block (3,0,0)
    =========     Address 0x7f8c2a000190 is out of bounds      (Access to, Access at)
    =========     and is 1 bytes after the nearest allocation at 0x7f8c2a000000 of size 400 bytes
    =========         Device Frame: kernel+0x30 in k.py:20     (if kernel called scale_kernel)
    =========
    ========= Error: Potential WAW hazard detected at __shared__ 0x0 in block (0,0,0) :
    =========     Write Thread (0,0,0) at sum+0x90 in k.cu:4
    =========     Write Thread (32,0,0) at sum+0x90 in k.cu:4
    =========     Current Value : 0, Incoming Value : 32
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Index = tuple[int, int, int]
"""Index of a thread in its block, or of a block in its grid."""

_PREFIX = re.compile(r"=========(?: |$)")
_INDEX = r"\((\d+), ?(\d+), ?(\d+)\)"
_PLACE = re.compile(
    r"(?P<function>.+?)(?:\+|:)0x(?P<offset>[0-9a-f]+)(?: in (?P<file>.+?)(?::(?P<line>\d+))?)?$"
)
_OLD_PLACE = re.compile(
    r"0x(?P<offset>[0-9a-f]+)(?: in (?:(?P<file>[^:]+):(?P<line>\d+)(?::|$))?(?P<function>.*))?$"
)
_OLD_FRAME = re.compile(r"(?:[^:]+:\d+:)?(?P<function>.+) \[0x[0-9a-f]+\]$")
_THREAD = re.compile(rf"by thread {_INDEX} in block {_INDEX}")
_ADDRESS = re.compile(
    r"(?:Address|Access (?:to|at)|Barrier is located at shared address) (0x[0-9a-f]+) ?(.*)"
)
_FRAME = re.compile(r"Device Frame: ?(.*)")
_RACER = re.compile(rf"(?:Write|Read|Atomic)\w* Thread {_INDEX}.*? at (.*)")
_HAZARD = re.compile(
    r"(?:(?P<level>\w+): )?(?P<note>\([^)]*\) )?(?P<kind>Potential \w+ hazard) detected "
    rf"at (?P<space>__\w+__) (?P<address>0x[0-9a-f]+) in block {_INDEX}.*"
)
_NOT_OF_A_KERNEL = re.compile(r"(?:Program hit|Leaked|Launch #)\b")
_NOTHING_SAID = re.compile(r"COMPUTE-SANITIZER|(?:ERROR|RACECHECK|LEAK) SUMMARY|Tracking kernels launched by")
_UNTRACKED = re.compile(r"Internal Sanitizer (?:Error|Warning)|Host API memory access error")


@dataclass(frozen=True)
class LoggedError:
    """One error."""

    kind: str
    """`Invalid __global__ write of size 4 bytes`."""
    kernel: str = ""
    """Launched function, demangled by the tool; empty if the report names none."""
    places: tuple[str, ...] = ()
    """`k.py:12`, or `+0x90` without line information; two for a race."""
    block: Index | None = None
    threads: tuple[Index, ...] = ()
    """One, or the two of a race."""
    address: str = ""
    """`0x7f8c2a000190`; in shared memory an offset."""
    detail: str = ""
    """Other facts: distance from an allocation, the values that raced."""


@dataclass(frozen=True)
class Said:
    """A message of the tool about itself."""

    text: str


def read_log(lines: Iterable[str]) -> Iterator[LoggedError | Said]:
    """Yield errors and messages in the order of the log.

    Lines without the tool's prefix and errors of CUDA's API are left out.
    """
    block: list[str] = []
    for line in lines:
        match = _PREFIX.match(line)
        if match is None:
            continue
        text = line[match.end() :].rstrip()
        if text.startswith(" "):
            block.append(text.strip())
            continue
        yield from _entry(block)
        block = [text] if text else []
    yield from _entry(block)


def _entry(block: list[str]) -> Iterator[LoggedError | Said]:
    if not block:
        return
    head, *body = block
    if _NOTHING_SAID.match(head) or _NOT_OF_A_KERNEL.match(head):
        return
    hazard = _HAZARD.fullmatch(head)
    if hazard is not None:
        yield _race(hazard, body)
        return
    report = _error(head, body)
    if report.kernel or report.threads or _UNTRACKED.match(head):
        yield report
    else:
        yield Said(" ".join(block))


def _error(head: str, body: list[str]) -> LoggedError:
    kernel = address = ""
    places: tuple[str, ...] = ()
    threads: tuple[Index, ...] = ()
    block: Index | None = None
    details: list[str] = []
    for line in body:
        if line.startswith("Saved host backtrace"):
            break
        thread, access, frame = _THREAD.match(line), _ADDRESS.match(line), _FRAME.match(line)
        if line.startswith("at ") and not places:
            kernel, place = _place(line[3:])
            places = (place,)
        elif thread is not None:
            threads, block = (_index(thread, 1),), _index(thread, 4)
        elif access is not None:
            address = access[1]
            details += [access[2]] if access[2] else []
        elif frame is not None:
            # The last frame is the kernel; the frames above it are called functions that were not inlined.
            called = _OLD_FRAME.match(frame[1]) or _PLACE.match(frame[1])
            kernel = _function(called) if called else kernel
        else:
            details.append(line)
    return LoggedError(head.rstrip(". :"), kernel, places, block, threads, address, " ".join(details))


def _race(hazard: re.Match[str], body: list[str]) -> LoggedError:
    kernel = ""
    places: list[str] = []
    threads: list[Index] = []
    details: list[str] = []
    for line in body:
        if line.startswith("Saved host backtrace"):
            break
        racer = _RACER.match(line)
        if racer is None:
            details.append(line)
            continue
        kernel, place = _place(racer[4])
        places.append(place)
        threads.append(_index(racer, 1))
    warning = " (warning)" if (hazard["level"] or "").lower() == "warning" else ""
    return LoggedError(
        kind=f"{hazard['kind']} in {hazard['space']} memory{warning}",
        kernel=kernel,
        places=tuple(places),
        block=_index(hazard, hazard.re.groups - 2),
        threads=tuple(threads),
        address=hazard["address"],
        detail="; ".join(filter(None, [(hazard["note"] or "").strip(" ()"), *details])),
    )


def _place(text: str) -> tuple[str, str]:
    """Return function and place of an instruction, with the file's name only: records hold no paths."""
    match = _OLD_PLACE.match(text) or _PLACE.match(text)
    if match is None:
        return text, ""
    if match["line"]:
        return _function(match), f"{match['file'].rpartition('/')[2]}:{match['line']}"
    return _function(match), f"+0x{match['offset']}"


def _function(match: re.Match[str]) -> str:
    return (match["function"] or "").removesuffix("()")


def _index(match: re.Match[str], group: int) -> Index:
    x, y, z = (int(match[number]) for number in range(group, group + 3))
    return x, y, z
