"""Chrome traces in Kineto's form, built event by event."""

from __future__ import annotations

import gzip
import itertools
import json
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_gpuperf.features.trace.chrome_traces import ChromeTrace, parse_chrome_trace
from pytest_gpuperf.features.trace.summary import summarise

if TYPE_CHECKING:
    from pathlib import Path

H200_PROPERTIES = {
    "id": 0,
    "name": "NVIDIA H200",
    "totalGlobalMem": 150_110_000_000,
    "computeMajor": 9,
    "computeMinor": 0,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "numSms": 132,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerBlockOptin": 232448,
    "sharedMemPerMultiprocessor": 233472,
}
HOST = 4711


class TraceBuilder:
    """Builds a trace of launches on the host and activities on the GPU, with correlations."""

    def __init__(self) -> None:
        spans: dict[str, Any] = {"pid": "Spans", "tid": "PyTorch Profiler", "ts": 0, "dur": 9e5}
        self.events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "ts": 0.0, "pid": 0, "tid": 0, "args": {"name": "python"}},
            {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "args": {"Op count": 0}, **spans},
        ]
        self._host("cpu_op", "aten::mm", 1.0, 2.5, {"External id": 1, "Record function id": 0, "Ev Idx": 0})
        self._correlations = itertools.count(100)

    def call(self, name: str, at: float, cat: str = "cuda_runtime") -> int:
        """Add a call of the host into CUDA and return its correlation."""
        number = next(self._correlations)
        self._host(cat, name, at, 1.0, {"External id": 1, "cbid": 211, "correlation": number})
        return number

    def kernel(
        self,
        name: str,
        start: float,
        dur: float,
        *,
        launched: float | None = None,
        correlation: int = 0,
        grid: tuple[int, int, int] = (264, 1, 1),
        block: tuple[int, int, int] = (256, 1, 1),
        registers: int = 32,
        shared: int = 0,
        stream: int = 7,
        device: int = 0,
    ) -> None:
        """Add a kernel; by default its launch is right before it."""
        if not correlation:
            at = start - 5 if launched is None else launched
            correlation = self.call("cudaLaunchKernel", at)
        x, y, z = grid
        self._gpu("kernel", name, start, dur, device, stream, correlation, {
            "queued": 0,
            "registers per thread": registers,
            "shared memory": shared,
            "blocks per SM": x * y * z / 132,
            "warps per SM": 1.0,
            "grid": list(grid),
            "block": list(block),
            "est. achieved occupancy %": 0,
        })  # fmt: skip

    def copy(
        self, start: float, dur: float, bytes: int, kind: str = "HtoD (Pageable -> Device)", stream: int = 7
    ) -> None:
        """Add a memcpy, or a memset if `kind` is `memset`."""
        number = self.call("cudaMemcpyAsync", start - 5)
        fill = kind == "memset"
        cat, name = "gpu_memset" if fill else "gpu_memcpy", "Memset (Device)" if fill else f"Memcpy {kind}"
        self._gpu(cat, name, start, dur, 0, stream, number, {"bytes": bytes, "memory bandwidth (GB/s)": 1.5})

    def annotation(self, name: str, start: float, dur: float) -> None:
        """Add a `record_function`."""
        args = {"External id": 2, "Record function id": 0, "Ev Idx": 1}
        self._host("user_annotation", name, start, dur, args)

    def _host(self, cat: str, name: str, ts: float, dur: float, args: dict[str, Any]) -> None:
        where = {"ph": "X", "cat": cat, "name": name, "pid": HOST, "tid": HOST}
        self.events.append({**where, "ts": ts, "dur": dur, "args": args})

    def _gpu(
        self, cat: str, name: str, start: float, dur: float, device: int, stream: int, number: int,
        args: dict[str, Any],
    ) -> None:  # fmt: skip
        common = {"External id": 1, "device": device, "context": 1, "stream": stream, "correlation": number}
        self.events += [
            {"ph": "X", "cat": cat, "name": name, "pid": device, "tid": stream, "ts": start, "dur": dur,
             "args": {**common, **args}},
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": number, "pid": HOST, "ts": start - 5},
        ]  # fmt: skip

    def content(self, **head: Any) -> dict[str, Any]:
        """Return the events with the fields that Kineto writes around them."""
        return {
            "schemaVersion": 1,
            "deviceProperties": [H200_PROPERTIES],
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": 1789516815000000000,
            "traceEvents": self.events,
            "traceName": "trace.json",
            **head,
        }

    def data(self, **head: Any) -> bytes:
        """Return the bytes of the file."""
        return json.dumps(self.content(**head)).encode()

    def write(self, path: Path, **head: Any) -> Path:
        """Write the file, gzipped if its name ends so."""
        path.parent.mkdir(parents=True, exist_ok=True)
        data = self.data(**head)
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path

    def read(self, **head: Any) -> ChromeTrace:
        """Return the result of the reader."""
        return parse_chrome_trace(self.data(**head), "trace.json")


def attention_block() -> TraceBuilder:
    """Return a naive attention block: a long GEMM, many short GEMMs of its heads, a medium one, softmax."""
    trace = TraceBuilder()
    at = 100.0

    def run(name: str, dur: float, **kwargs: Any) -> None:
        nonlocal at
        trace.kernel(name, at, dur, **kwargs)
        at += dur + 2.0

    for _ in range(8):
        run("ampere_sgemm_128x128_nn", 110.0, grid=(64, 32, 1), registers=122, shared=32768)
    for _ in range(96):
        run("ampere_sgemm_32x32_sliced1x4_tn", 40.0, grid=(8, 4, 1), block=(128, 1, 1), registers=86)
        run("void at::native::(anonymous namespace)::softmax_warp_forward<float, float, 8>", 5.0)
    for _ in range(2):
        run("ampere_sgemm_64x64_nn", 105.0, grid=(16, 33, 1), block=(64, 1, 1), registers=126, shared=8704)
    return trace


def rank(number: int, *, steps: int = 2) -> TraceBuilder:
    """Return steps of a rank: a product, then a reduction between GPUs that starts while it runs."""
    trace = TraceBuilder()
    for step in range(steps):
        at = 1000.0 * step
        trace.annotation(f"ProfilerStep#{step}", at, 900.0)
        trace.kernel("ampere_sgemm_128x128_nn", at + 100, 100.0 + 10 * number, device=number)
        trace.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                     at + 150, 200.0, launched=at + 20, stream=20, device=number)  # fmt: skip
    return trace


BLOCK = replace(summarise(attention_block().read()), file="traces/block.json.gz")
"""Kernel table of the attention block: 202 launches, 90.4 % busy, gaps of 2 µs."""
