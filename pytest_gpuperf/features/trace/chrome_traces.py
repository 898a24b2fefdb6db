"""Read the Chrome traces that torch.profiler saves, as JSON, gzipped or not.

Kineto defines the names of categories and arguments (`output_json.cpp` and `MetadataFieldCatalog.h` of
pytorch/kineto), since torch 1.13. The trace of Triton's profiler has the same events with less in them. A
trace tells in `remarks` which of its times are missing or not to be trusted.
"""

from __future__ import annotations

import codecs
import re
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from decimal import Decimal, DecimalException
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trace.doubts import doubts
from pytest_gpuperf.features.trace.json_repair import repaired
from pytest_gpuperf.records.file_kind_detection import refuse_ncu
from pytest_gpuperf.records.files import read_unpacked, show_path
from pytest_gpuperf.report.number_format import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

TRACE_SCHEMA = 1
"""Newest `schemaVersion` that this reader knows."""

Kind: TypeAlias = Literal["kernel", "memcpy", "memset"]

_KINDS: Mapping[str, Kind] = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
_HOST_CALLS = frozenset({"cuda_runtime", "cuda_driver"})
_KEPT = frozenset({*_KINDS, *_HOST_CALLS, "user_annotation"})
_TORCH = frozenset({*_KEPT, "cpu_op", "python_function", "trace"})
"""Categories that a trace of torch.profiler has one of."""
_GRAPH_LAUNCH = re.compile(r"(?:cuda|cu|hip)GraphLaunch")
_LONGEST_US = Decimal(86_400_000_000)
"""Times that are further from the others, and longer durations, are none."""
_EXPECTED = "a Chrome trace of torch.profiler: prof.export_chrome_trace('trace.json.gz')"


class TraceArguments(msgspec.Struct, frozen=True):
    """Arguments of an event."""

    device: int | None = None
    stream: int | str | None = None
    correlation: int = 0
    """Id of the host call that launched it; all nodes of a graph launch share it. 0 if unknown."""
    bytes: int = 0
    """Bytes of a copy or a fill."""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    blocks_per_sm: float = msgspec.field(name="blocks per SM", default=0.0)
    """Blocks of the grid over SMs of the GPU."""
    registers_per_thread: int = msgspec.field(name="registers per thread", default=0)
    shared_memory_bytes: int = msgspec.field(name="shared memory", default=0)
    """Static and dynamic shared memory of one block."""
    call_stack: Any = None
    """Of Triton's profiler only."""


class TraceActivity(NamedTuple):
    """One kernel, copy or fill on a GPU."""

    start_us: float
    end_us: float
    kind: Kind
    name: str
    device: int = 0
    stream: int | str = 0
    args: TraceArguments = TraceArguments()


class HostCall(NamedTuple):
    """A call of the host into CUDA or HIP."""

    start_us: float
    name: str
    correlation: int


class Annotation(NamedTuple):
    """Region of a `record_function` of the host, or of a step of the profiler."""

    start_us: float
    end_us: float
    name: str


@dataclass(frozen=True)
class Device:
    """A GPU as described by the trace."""

    name: str = ""
    compute_capability: tuple[int, int] | None = None
    """None if it is not a CUDA GPU."""
    multiprocessors: int = 0
    """0 if unknown."""


@dataclass(frozen=True)
class ChromeTrace:
    """Parts of a trace that the kernel table needs; times in microseconds since the first event."""

    activities: tuple[TraceActivity, ...]
    """Sorted by start."""
    host_calls: tuple[HostCall, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    """Sorted by start."""
    devices: tuple[tuple[int, Device], ...] = ()
    rank: int | None = None
    """Rank of the process; None if the trace does not have it."""
    world_size: int | None = None
    remarks: tuple[str, ...] = ()
    """Lines about times that are missing, rounded or doubtful."""
    tensor_cores: Callable[[TraceActivity], bool | None] | None = None
    """Tells for some kernels, by their code, if they use tensor cores; else None."""

    @cached_property
    def launched_us(self) -> dict[int, float]:
        """Start of the host call of each correlation."""
        return {call.correlation: call.start_us for call in self.host_calls if call.correlation}

    @cached_property
    def graph_launches_us(self) -> dict[int, float]:
        """Start of each launch of a graph, by its correlation."""
        return {one.correlation: one.start_us for one in self.host_calls if _GRAPH_LAUNCH.match(one.name)}

    @cached_property
    def lost_graphs_us(self) -> list[float]:
        """Starts of the launches of graphs whose kernels were not recorded."""
        known = {one.args.correlation for one in self.activities}
        return [at for number, at in self.graph_launches_us.items() if number not in known]

    def device(self, number: int) -> Device:
        """Describe a GPU.

        On machines with AMD GPUs events count the sockets too, the list of GPUs does not: if all GPUs in the
        list are alike, an unknown number is one of them.
        """
        known = dict(self.devices)
        alike = {*known.values()}
        return known.get(number, next(iter(alike)) if len(alike) == 1 else Device())


class _Event(msgspec.Struct):
    cat: str | None = None
    name: str = ""
    # Numbers as they are written: a float has too few digits for microseconds since 1970.
    ts: msgspec.Raw = msgspec.Raw(b"0")
    dur: msgspec.Raw = msgspec.Raw(b"0")
    pid: Any = 0
    tid: Any = 0
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Device(msgspec.Struct, rename="camel"):
    id: int = 0
    name: str = ""
    compute_major: int = 0
    compute_minor: int = 0
    num_sms: int = 0


class _Ranks(msgspec.Struct):
    rank: Any = None
    world_size: Any = None


class _File(msgspec.Struct):
    trace_events: list[_Event] = msgspec.field(name="traceEvents")
    schema: int = msgspec.field(name="schemaVersion", default=0)
    devices: list[_Device] = msgspec.field(name="deviceProperties", default_factory=list)
    ranks: _Ranks | None = msgspec.field(name="distributedInfo", default=None)


# Not strict: some writers quote numbers.
_FILE = msgspec.json.Decoder(_File, strict=False)
_ARGS = msgspec.json.Decoder(TraceArguments, strict=False)


def read_chrome_trace(path: Path) -> ChromeTrace:
    """Read a file.

    Raises:
        GpuperfError: The file cannot be read, is not a trace of torch.profiler, is of a newer version, or has
            no activity of a GPU.
    """
    data, shown = _as_utf8(read_unpacked(path, _EXPECTED)), show_path(path)
    refuse_ncu(data, shown, _EXPECTED)
    return parse_chrome_trace(data, shown)


def parse_chrome_trace(data: bytes, shown: str) -> ChromeTrace:
    """Parse a file's bytes.

    Args:
        data: JSON.
        shown: Name of the file in errors.

    Raises:
        GpuperfError: See `read_chrome_trace`.
    """
    try:
        file, notes = _decoded(data)
        if file.schema > TRACE_SCHEMA:
            raise GpuperfError(
                f"{shown} was written by a newer torch.profiler (schemaVersion {file.schema})",
                expected=f"schemaVersion {TRACE_SCHEMA} or older",
                next_step="upgrade: pip install --upgrade pytest-gpuperf",
            )
        return _parsed(file, shown, notes)
    except msgspec.ValidationError as error:
        raise GpuperfError(f"{shown} is not a trace of torch.profiler: {error}", expected=_EXPECTED) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GpuperfError(f"{shown} is not valid JSON: {error}", expected=_EXPECTED) from None


def _as_utf8(data: bytes) -> bytes:
    """Return a text without a byte-order mark, in UTF-8 if the mark tells UTF-16."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)


def _decoded(data: bytes) -> tuple[_File, list[str]]:
    try:
        return _FILE.decode(data), []
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        if data.count(b'"traceEvents"') > 1:
            # Triton's profiler wrote an object for each stream.
            return _File([event for file in _FILE.decode_lines(data) for event in file.trace_events]), []
        text = repaired(data)
        if text is None:
            raise
        return _FILE.decode(text), ["repaired: names or numbers in the file are not JSON"]


class _TraceEvent(NamedTuple):
    category: str
    event: _Event
    args: TraceArguments
    start: Decimal
    duration: Decimal


def _parsed(file: _File, shown: str, notes: list[str]) -> ChromeTrace:
    kept, untimed = _timed([one for one in file.trace_events if one.cat in _KEPT])
    on_gpu = [one for one in kept if one.category in _KINDS]
    if not on_gpu:
        categories = {one.cat for one in file.trace_events}
        raise _nothing(shown, untimed, of_torch=bool(file.schema or _TORCH & categories))
    is_whole = not any(b"." in bytes(raw) for one in on_gpu for raw in (one.event.ts, one.event.dur))
    if is_whole and any(one.args.call_stack for one in on_gpu):
        raise GpuperfError(
            f"{shown} is from Triton's profiler, in a version that may write ns in the place of µs",
            expected="times with a decimal point",
            next_step="record with a newer Triton",
        )
    _refuse_merged(kept, shown)
    if untimed:
        notes.append(f"left out, without a time: {', '.join(f'{n:,} {name}' for name, n in untimed.items())}")
    if is_whole:
        notes.append("times are whole µs (torch before 2.4): each is ± 1 µs")
    activities: list[TraceActivity] = []
    host_calls: list[HostCall] = []
    annotations: list[Annotation] = []
    origin = min(one.start for one in kept)
    for one in kept:
        start = float(one.start - origin)
        end = start + float(one.duration)
        if one.category in _KINDS:
            activities.append(_activity(one, start, end))
        elif one.category in _HOST_CALLS:
            host_calls.append(HostCall(start, one.event.name, one.args.correlation))
        else:
            annotations.append(Annotation(start, end, one.event.name))
    trace = ChromeTrace(
        tuple(sorted(activities, key=itemgetter(0, 1))),
        tuple(sorted(host_calls)),
        tuple(sorted(annotations)),
        tuple((device.id, _device(device)) for device in file.devices),
        _number(file.ranks and file.ranks.rank),
        _number(file.ranks and file.ranks.world_size),
    )
    return replace(trace, remarks=(*notes, *doubts(trace)))


def _timed(events: Iterable[_Event]) -> tuple[list[_TraceEvent], Counter[str]]:
    """Return the events that have a time, and the names of the activities without one, with their number."""
    known = [
        _TraceEvent(one.cat or "", one, _ARGS.decode(one.args), _exact(one.ts), _exact(one.dur))
        for one in events
    ]
    usual = statistics.median([one.start for one in known if one.start] or [Decimal(0)])
    timed, untimed = [], Counter[str]()
    for one in known:
        is_near = abs(one.start - usual) < _LONGEST_US and 0 <= one.duration < _LONGEST_US
        if is_near and (one.start or one.duration or one.category not in _KINDS):
            timed.append(one)
        elif one.category in _KINDS:
            untimed[one.event.name] += 1
    return timed, untimed


def _exact(raw: msgspec.Raw) -> Decimal:
    # Some writers quote numbers. A repaired file has null.
    text = str(raw, "utf-8").strip('"')
    try:
        value = Decimal(-1 if text == "null" else text)
    except DecimalException:
        value = Decimal("nan")
    if not value.is_finite():
        raise msgspec.ValidationError(f"a time is {text[:40]}")
    return value


def _nothing(shown: str, untimed: Counter[str], *, of_torch: bool) -> GpuperfError:
    if untimed:
        return GpuperfError(
            f"{shown} has no time of its {count(untimed.total(), 'activity', 'activities')} of a GPU",
            expected="kernels, copies or fills with `ts` and `dur`",
            next_step="record again, with another version of torch",
        )
    if not of_torch:
        return GpuperfError(f"{shown} is a trace of another tool than torch.profiler", expected=_EXPECTED)
    return GpuperfError(
        f"{shown} has no activity of a GPU",
        expected="kernels, copies or fills",
        next_step="record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], "
        "with no other profiler around the process",
    )


def _refuse_merged(kept: Iterable[_TraceEvent], shown: str) -> None:
    """Refuse the traces of several processes in one: their launches and GPUs have the same numbers."""
    processes: dict[object, set[str]] = defaultdict(set)
    for one in kept:
        place = one.args.device if one.category in _KINDS else "host" if one.category in _HOST_CALLS else None
        if place is not None:
            processes[place].add(str(one.event.pid))
    several = max(processes.values(), key=len, default=())
    if len(several) > 1:
        raise GpuperfError(
            f"{shown} is merged from the traces of several processes: {', '.join(sorted(several)[:4])}",
            expected="a file for each rank, next to each other",
            next_step="name the files before they were merged, or their folder: gpuperf trace FOLDER",
        )


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def _activity(one: _TraceEvent, start: float, end: float) -> TraceActivity:
    event, args = one.event, one.args
    device, stream = args.device, args.stream
    if device is None:
        device = event.pid if isinstance(event.pid, int) else 0
    if stream is None:
        stream = event.tid if isinstance(event.tid, (int, str)) else 0
    return TraceActivity(start, end, _KINDS[one.category], event.name, device, stream, args)


def _device(found: _Device) -> Device:
    # AMD GPUs have other numbers in the same fields.
    is_cuda = found.compute_major > 0 and "amd" not in found.name.lower()
    capability = (found.compute_major, found.compute_minor) if is_cuda else None
    return Device(found.name, capability, found.num_sms)
