"""Read compute-sanitizer's log.

Its XML has no published schema, is written only at the end, and differs between versions. The manual
describes the text, which can be read even if the process was killed. All releases since 2023.3 can be read:

    ========= Invalid __global__ write of size 4 bytes
    =========     at scale_kernel+0x90 in k.py:12
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
from itertools import takewhile
from typing import TYPE_CHECKING

from pytest_gpuperf.records import SanitizerHit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Index = tuple[int, int, int]
"""Index of a thread in its block, or of a block in its grid."""

_PREFIX = re.compile(r"=========(?: |$)")
_INDEX = r"\((\d+), ?(\d+), ?(\d+)\)"
_PLACE = re.compile(
    r"(?P<function>.+?)(?:\+|:)0x(?P<offset>[0-9a-f]+)(?: in (?P<file>.+?)(?::(?P<line>\d+))?)?$"
)
_THREAD = re.compile(rf"by thread {_INDEX} in block {_INDEX}")
_ADDRESS = re.compile(
    r"(?:Address|Access (?:to|at)|Barrier is located at shared address) (0x[0-9a-f]+) ?(.*)"
)
_FRAME = re.compile(r"Device Frame: ?(.*)")
_RACER = re.compile(rf"(?:Write|Read|Atomic)\w* Thread {_INDEX}.*? at (.*)")
_HAZARD = re.compile(
    r"(?:(?P<level>\w+): )?(?:\((?P<note>[^)]*)\) )?(?P<kind>Potential \w+ hazard) detected "
    rf"at (?P<space>__\w+__) (?P<address>0x[0-9a-f]+) in block {_INDEX}.*"
)
_NOT_OF_A_KERNEL = re.compile(
    r"(?:Program hit|Leaked|Launch #)\b"
    r"|COMPUTE-SANITIZER|(?:ERROR|RACECHECK|LEAK) SUMMARY|Tracking kernels launched by"
)
_UNTRACKED = re.compile(r"Internal Sanitizer (?:Error|Warning)|Host API memory access error")


def read_log(lines: Iterable[str]) -> Iterator[SanitizerHit | str]:
    """Yield errors, and messages of the tool about itself, in the order of the log.

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
        yield from _entry(*block)
        block = [text] if text else []
    yield from _entry(*block)


def _entry(head: str = "", *body: str) -> Iterator[SanitizerHit | str]:
    if not head or _NOT_OF_A_KERNEL.match(head):
        return
    found = _error(head, body)
    if found.kernel or found.threads or _UNTRACKED.match(head):
        yield found
    else:
        yield " ".join((head, *body))


def _error(head: str, body: Iterable[str]) -> SanitizerHit:
    kind, kernel, address = head.rstrip(". :"), "", ""
    places: list[str] = []
    threads: list[Index] = []
    details: list[str] = []
    block: Index | None = None
    if hazard := _HAZARD.fullmatch(head):
        warning = " (warning)" if (hazard["level"] or "").lower() == "warning" else ""
        kind, address = f"{hazard['kind']} in {hazard['space']} memory{warning}", hazard["address"]
        block = _index(hazard.groups()[-3:])
        details += filter(None, [hazard["note"]])
    for line in takewhile(lambda line: not line.startswith("Saved host backtrace"), body):
        if line.startswith("at ") and not places:
            kernel, place = _place(line[3:])
            places.append(place)
        elif racer := _RACER.match(line):
            kernel, place = _place(racer[4])
            places.append(place)
            threads.append(_index(racer.groups()[:3]))
        elif thread := _THREAD.match(line):
            threads, block = [_index(thread.groups()[:3])], _index(thread.groups()[3:])
        elif access := _ADDRESS.match(line):
            address = access[1]
            details += filter(None, [access[2]])
        elif frame := _FRAME.match(line):
            # The last frame is the kernel; the frames above it are called functions that were not inlined.
            kernel = _place(frame[1])[0]
        else:
            details.append(line)
    return SanitizerHit(
        kind=kind,
        kernel=kernel,
        places=tuple(places),
        block=block,
        threads=tuple(threads),
        address=address,
        detail=("; " if hazard else " ").join(details),
    )


def _place(text: str) -> tuple[str, str]:
    """Return function and place of an instruction, with the file's name only: records hold no paths."""
    match = _PLACE.match(text)
    if match is None:
        return text, ""
    function = match["function"].removesuffix("()")
    if match["line"]:
        return function, f"{match['file'].rpartition('/')[2]}:{match['line']}"
    return function, f"+0x{match['offset']}"


def _index(numbers: Iterable[str]) -> Index:
    x, y, z = map(int, numbers)
    return x, y, z
