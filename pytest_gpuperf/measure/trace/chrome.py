"""Read the Chrome traces that torch.profiler saves, as JSON, gzipped or not.

Kineto defines the names of categories and arguments (`output_json.cpp` and `MetadataFieldCatalog.h` of
pytorch/kineto); the spelling of torch 1.8 to 1.12 is known too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from pytest_gpuperf.errors import GpuperfError
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
_KEPT = frozenset({*_KINDS, *_HOST_CALLS, "user_annotation"})
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
    """A call of the host into CUDA."""

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


class _File(msgspec.Struct):
    trace_events: list[_Event] = msgspec.field(name="traceEvents")
    schema: int = msgspec.field(name="schemaVersion", default=TRACE_SCHEMA)
    devices: list[_Device] = msgspec.field(name="deviceProperties", default_factory=list)


# Not strict: some writers quote numbers.
_FILE = msgspec.json.Decoder(_File, strict=False)
_ARGS = msgspec.json.Decoder(_Args, strict=False)


def read_chrome_trace(path: Path) -> ChromeTrace:
    """Read a file.

    Raises:
        GpuperfError: The file cannot be read, is not a trace of torch.profiler, is of a newer version, or has
            no activity of a GPU.
    """
    return parse_chrome_trace(read_unpacked(path, _EXPECTED), show_path(path))


def parse_chrome_trace(data: bytes, shown: str) -> ChromeTrace:
    """Parse a file's bytes.

    Args:
        data: JSON.
        shown: Name of the file in errors.

    Raises:
        GpuperfError: See `read_chrome_trace`.
    """
    try:
        file = _FILE.decode(data)
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
    kept = [event for event in file.trace_events if (event.cat or "").lower() in _KEPT]
    # Some versions write microseconds since 1970, which leave a float too few digits for an end.
    origin = min((event.ts for event in kept), default=0.0)
    for event in kept:
        category = (event.cat or "").lower()
        event.ts -= origin
        end = event.ts + max(event.dur, 0.0)
        if category in _KINDS:
            activities.append(_activity(event, _KINDS[category], end))
        elif category in _HOST_CALLS:
            host_calls.append(HostCall(event.ts, event.name, _ARGS.decode(event.args).correlation))
        else:
            annotations.append(Annotation(event.ts, end, event.name))
    devices = tuple((device.id, _device(device)) for device in file.devices)
    return ChromeTrace(
        tuple(sorted(activities, key=_times)),
        tuple(sorted(host_calls)),
        tuple(sorted(annotations)),
        devices,
    )


def _times(one: Activity) -> tuple[float, float]:
    return one.start_us, one.end_us


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
    x, y, z, *_ = (*values, 0, 0, 0)
    return x, y, z


def _device(found: _Device) -> Device:
    # AMD GPUs have other numbers in the same fields.
    is_cuda = found.compute_major > 0 and "amd" not in found.name.lower()
    capability = (found.compute_major, found.compute_minor) if is_cuda else None
    return Device(found.name, capability, found.num_sms)
