"""The values of a trace, computed from its JSON a second time, from one event to the next."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_gpuperf.features.trace.files import FoundTrace, read_traces

if TYPE_CHECKING:
    from pathlib import Path

GPU = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
HOST = {"cuda_runtime", "cuda_driver", "runtime", "driver"}


class Span(NamedTuple):
    """One activity of a GPU."""

    start: float
    end: float
    kind: str
    work: str
    launched: float | None


def brute_force(data: bytes, communication: str = "(?i)nccl|rccl") -> dict[int, dict[str, float]]:
    """Return the times of each GPU, in microseconds."""
    content = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    events = content["traceEvents"] if isinstance(content, dict) else content
    found = [(str(event.get("cat")).lower(), event, event.get("args", {})) for event in events]
    # Microseconds since 1970 leave a float too few digits for sums.
    origin = min(float(event["ts"]) for kind, event, _ in found if kind in GPU)
    launches: dict[Any, float] = {}
    for kind, event, args in found:
        if kind in HOST and args.get("correlation"):
            launches[args["correlation"]] = float(event["ts"]) - origin
    devices: dict[int, list[Span]] = defaultdict(list)
    for kind, event, args in found:
        if kind not in GPU:
            continue
        work = "comm" if re.search(communication, event["name"]) else "compute"
        if "memcpy" in kind or "rocclr_copy" in event["name"]:
            work = "copy"
        start = float(event["ts"]) - origin
        span = Span(start, start + float(event["dur"]), kind, work, launches.get(args.get("correlation")))
        devices[args.get("device", event["pid"])].append(span)
    return {device: _times(spans) for device, spans in devices.items()}


def _times(spans: list[Span]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    running: dict[str, int] = defaultdict(int)
    edges = sorted(
        [(span.start, 1, span.work) for span in spans] + [(span.end, -1, span.work) for span in spans]
    )
    last = edges[0][0]
    for time, sign, work in edges:
        tick, last = time - last, time
        found["busy"] += tick * any(running.values())
        found["compute"] += tick * (running["compute"] > 0)
        found["comm"] += tick * (running["comm"] > 0)
        found["overlapped"] += tick * (running["comm"] > 0 and running["compute"] > 0)
        found["exposed_copy"] += tick * (running["copy"] > 0 == running["comm"] + running["compute"])
        running[work] += sign
    spans = sorted(spans, key=lambda span: span[:2])
    covered = spans[0].end
    for span in spans:
        cause = "unknown" if span.launched is None else "host" if span.launched > covered else "kernel"
        found[cause] += max(0.0, span.start - covered)
        covered = max(covered, span.end)
    found["span"] = covered - spans[0].start
    found["kernels"] = sum(span.end - span.start for span in spans if span.kind == "kernel")
    return found


def differences(path: Path) -> list[str]:
    """Return a line for each value of a file that `gpuperf trace` computes otherwise."""
    read, _ = read_traces([path])
    expected = brute_force(path.read_bytes())
    if {one.trace.device for one in read} != expected.keys():
        return [f"other GPUs: {sorted(expected)}"]
    lines = []
    for one in read:
        right = expected[one.trace.device]
        lines += [
            f"GPU {one.trace.device}: {name} {value} is {right[name]}"
            for name, value in _values(one).items()
            if abs(value - right[name]) > 1e-6 * right["span"] + 0.01
        ]
    return lines


def _values(one: FoundTrace) -> dict[str, float]:
    trace = one.trace
    assert trace.communication is not None
    assert trace.idle is not None
    assert trace.computation_us is not None
    assert trace.exposed_copy_us is not None
    return {
        "span": trace.span_us,
        "busy": trace.busy_us,
        "kernels": trace.kernel_us,
        "compute": trace.computation_us,
        "comm": trace.communication.total_us,
        "overlapped": trace.communication.overlapped_us,
        "exposed_copy": trace.exposed_copy_us,
        "host": trace.idle.host_wait_us,
        "kernel": trace.idle.kernel_wait_us,
        "unknown": trace.idle.unknown_us,
    }
