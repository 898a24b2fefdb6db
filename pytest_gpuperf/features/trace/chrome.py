"""Read the Chrome traces that torch.profiler saves, as JSON, gzipped or not.

Kineto defines the names of categories and arguments (`output_json.cpp` and `MetadataFieldCatalog.h` of
pytorch/kineto). The forms of torch 1.8 to 1.12 are known too: other names of categories, steps among the
operators, and a bare list of events.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.file_kinds import refuse_ncu
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.records.packed import read_unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

TRACE_SCHEMA = 1
"""Newest `schemaVersion` that this reader knows."""

Kind: TypeAlias = Literal["kernel", "memcpy", "memset"]

_KINDS: Mapping[str, Kind] = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}
_HOST_CALLS = frozenset({"cuda_runtime", "cuda_driver", "runtime", "driver"})
_OPERATORS = "operator"
"""Category of operators, and of `record_function` and steps, in torch 1.8 to 1.12."""
_KEPT = frozenset({*_KINDS, *_HOST_CALLS, "user_annotation", _OPERATORS})
_DISPATCHED = re.compile(r"^(?:aten|torch|autograd|c10d?|prims?|quantized|profiler)::|^\[memory\]")
"""Operators of torch itself, which are not annotations."""
_ARROWS = frozenset({"", "trace", "ac2g", "async", "async_gpu", "async_cpu_to_gpu", "fwdbwd"})
"""Categories of metadata, and of arrows between other events."""
_EXPECTED = "a Chrome trace of torch.profiler: prof.export_chrome_trace('trace.json.gz')"


class Activity(NamedTuple):
    """One kernel, copy or fill on a GPU."""

    start_us: float
    end_us: float
    kind: Kind
    name: str
    device: int = 0
    stream: int | str = 0
    correlation: int = 0
    """Correlation id of the host call that launched it; all nodes of a graph launch share it. 0 if
    unknown."""
    bytes: int = 0
    """Bytes of a copy or a fill."""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    blocks_per_sm: float = 0.0
    """Blocks of the grid over SMs of the GPU."""
    registers_per_thread: int = 0
    shared_memory_bytes: int = 0
    """Static and dynamic shared memory of one block."""


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

    activities: tuple[Activity, ...]
    """Sorted by start."""
    host_calls: tuple[HostCall, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    """Sorted by start."""
    devices: tuple[tuple[int, Device], ...] = ()
    rank: int | None = None
    """Rank of the process; None if the trace does not have it."""
    world_size: int | None = None
    unread: Mapping[str, int] = field(default_factory=dict)
    """Number of events of each category that this reader leaves out."""
    unread_fields: tuple[str, ...] = ()
    """Fields of kernels, copies and fills that this reader leaves out."""

    @cached_property
    def launched_us(self) -> dict[int, float]:
        """Start of the host call of each correlation."""
        return {call.correlation: call.start_us for call in self.host_calls if call.correlation}

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
    ts: float = 0.0
    dur: float = 0.0
    pid: Any = 0
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Args(msgspec.Struct, rename=lambda name: name.replace("_", " ")):
    device: int | None = None
    stream: int | str = 0
    correlation: int = 0
    bytes: int = 0
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    blocks_per_SM: float = 0.0  # noqa: N815
    registers_per_thread: int = 0
    shared_memory: int = 0


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
    schema: int = msgspec.field(name="schemaVersion", default=TRACE_SCHEMA)
    devices: list[_Device] = msgspec.field(name="deviceProperties", default_factory=list)
    ranks: _Ranks | None = msgspec.field(name="distributedInfo", default=None)


# Not strict: some writers quote numbers.
_FILE = msgspec.json.Decoder(_File, strict=False)
_EVENTS = msgspec.json.Decoder(list[_Event], strict=False)
_ARGS = msgspec.json.Decoder(_Args, strict=False)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_READ_FIELDS = frozenset({*_Args.__struct_encode_fields__, "External id"})


def read_chrome_trace(path: Path) -> ChromeTrace:
    """Read a file.

    Raises:
        GpuperfError: The file cannot be read, is not a trace of torch.profiler, is of a newer version, or has
            no activity of a GPU.
    """
    data, shown = read_unpacked(path, _EXPECTED), show_path(path)
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
        # torch 1.8 wrote a bare list.
        is_list = data[:64].lstrip().startswith(b"[")
        file = _File(_EVENTS.decode(data)) if is_list else _FILE.decode(data)
        if file.schema > TRACE_SCHEMA:
            raise GpuperfError(
                f"{shown} was written by a newer torch.profiler (schemaVersion {file.schema})",
                expected=f"schemaVersion {TRACE_SCHEMA} or older",
                next_step="upgrade: pip install --upgrade pytest-gpuperf",
            )
        trace = _parsed(file)
    except msgspec.ValidationError as error:
        raise GpuperfError(f"{shown} is not a trace of torch.profiler: {error}", expected=_EXPECTED) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GpuperfError(f"{shown} is not valid JSON: {error}", expected=_EXPECTED) from None
    if not trace.activities:
        raise GpuperfError(
            f"{shown} has no activity of a GPU",
            expected="kernels, copies or fills",
            next_step="record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], "
            "with no other profiler around the process",
        )
    return trace


def _parsed(file: _File) -> ChromeTrace:
    activities: list[Activity] = []
    host_calls: list[HostCall] = []
    annotations: list[Annotation] = []
    unread: Counter[str] = Counter()
    counts = Counter([event.cat for event in file.trace_events])
    kinds = {name: (name or "").lower() for name in counts}
    for name, number in counts.items():
        if kinds[name] not in _KEPT:
            unread[kinds[name]] += number
    kept = [(kinds[event.cat], event) for event in file.trace_events if kinds[event.cat] in _KEPT]
    # Some versions write microseconds since 1970, which leave a float too few digits for an end.
    origin = min((event.ts for _, event in kept), default=0.0)
    examples: dict[str, _Event] = {}
    for category, event in kept:
        event.ts -= origin
        end = event.ts + max(event.dur, 0.0)
        if category in _KINDS:
            activities.append(_activity(event, _KINDS[category], end))
            examples.setdefault(event.name, event)
        elif category in _HOST_CALLS:
            host_calls.append(HostCall(event.ts, event.name, _ARGS.decode(event.args).correlation))
        elif category == _OPERATORS and _DISPATCHED.match(event.name):
            unread[category] += 1
        else:
            annotations.append(Annotation(event.ts, end, event.name))
    fields = {name for event in examples.values() for name in _FIELDS.decode(event.args)}
    return ChromeTrace(
        tuple(sorted(activities, key=itemgetter(0, 1))),
        tuple(sorted(host_calls)),
        tuple(sorted(annotations)),
        tuple((device.id, _device(device)) for device in file.devices),
        _number(file.ranks and file.ranks.rank),
        _number(file.ranks and file.ranks.world_size),
        {name: count for name, count in sorted(unread.items()) if name not in _ARROWS},
        tuple(sorted(fields - _READ_FIELDS)),
    )


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def _activity(event: _Event, kind: Kind, end: float) -> Activity:
    args = _ARGS.decode(event.args)
    device = args.device
    if device is None:
        device = event.pid if isinstance(event.pid, int) else 0
    return Activity(
        event.ts,
        end,
        kind,
        event.name,
        device,
        args.stream,
        args.correlation,
        args.bytes,
        _extent(args.grid),
        _extent(args.block),
        args.blocks_per_SM,
        args.registers_per_thread,
        args.shared_memory,
    )


def _extent(values: Iterable[int]) -> tuple[int, int, int]:
    x, y, z = (*values, 0, 0, 0)[:3]
    return x, y, z


def _device(found: _Device) -> Device:
    # AMD GPUs have other numbers in the same fields.
    is_cuda = found.compute_major > 0 and "amd" not in found.name.lower()
    capability = (found.compute_major, found.compute_minor) if is_cuda else None
    return Device(found.name, capability, found.num_sms)
