"""The parts of the live capture that need no GPU."""

from __future__ import annotations

import gzip
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.features.trace import capture, chrome_traces
from pytest_gpuperf.features.trace.capture import CALLS, Span, median_call, with_shortest
from pytest_gpuperf.features.trace.summary import summarise
from pytest_gpuperf.features.trace.triton_tensor_cores import TritonCode
from pytest_gpuperf.measure.cupti.activity import Activity
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.session.live_source import trace_file_name
from simulated_gpu import SimulatedGpu
from trace_builders import TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import NoReturn

    from pytest_gpuperf.records import Trace


def three_kernels() -> TraceBuilder:
    trace = TraceBuilder()
    for start in (100.0, 120.0, 140.0):
        trace.kernel("k", start, 5.0)
    return trace


def profiled() -> Trace:
    return summarise(three_kernels().read())


def test_the_shortest_span_counts() -> None:
    found = with_shortest(profiled(), Span(30.0, 15.0, "cupti"), 36.0)
    assert (found.span_source, found.span_us, found.gpu_busy_pct) == ("cupti", 30.0, 50.0)
    assert found.launch_gap_us == 7.5
    found = with_shortest(profiled(), Span(30.0, 15.0, "cupti"), 20.0)
    assert (found.span_source, found.gpu_busy_pct, found.launch_gap_us) == ("events", 75.0, 2.5)


def test_profiler_and_events_remain_without_cupti() -> None:
    assert with_shortest(profiled(), None, 60.0).span_source == "profiler"
    assert with_shortest(profiled(), None, 25.0).span_source == "events"


def test_events_do_not_count_with_several_streams() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 100.0, 5.0)
    trace.kernel("k", 150.0, 50.0, stream=8)
    found = with_shortest(summarise(trace.read()), Span(90.0, 55.0, "cupti"), 10.0)
    assert (found.span_source, found.span_us) == ("cupti", 90.0)


def test_busy_time_never_exceeds_the_event_span() -> None:
    assert with_shortest(profiled(), None, 14.9).gpu_busy_pct == 100.0


def calls(*spans_ns: int, name: str = "k") -> list[Activity]:
    made = []
    for number, span in enumerate(spans_ns):
        start = 1_000_000 * number
        made += [Activity(start, start + 1000, name), Activity(start + span - 1000, start + span, "b")]
    return made


def test_median_call_of_cupti_records_is_taken() -> None:
    assert median_call(calls(9000, 4000, 5000, 3000, 6000)) == Span(5.0, 2.0, "cupti")


def test_calls_with_different_kernels_give_no_span() -> None:
    assert median_call([]) is None
    assert median_call(calls(*[5000] * CALLS)[1:]) is None
    assert median_call(calls(*[5000] * (CALLS - 1)) + calls(5000, name="other")) is None


def test_all_three_record_a_call_and_its_trace_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    doing = ["before"]
    gpu = SimulatedGpu(monkeypatch)

    def fn() -> None:
        calls.append(doing[-1])
        gpu.launch(30)

    def by_cupti() -> NoReturn:
        raise CuptiError("another profiler holds it")

    def profile(fn: Callable[[], object], file: Path) -> None:
        doing.append("profiler")
        fn()
        file.write_bytes(gzip.compress(three_kernels().data()))

    monkeypatch.setattr("pytest_gpuperf.measure.cupti.activity.recorded", by_cupti)
    monkeypatch.setattr(capture, "_profile", profile)
    found = capture.capture(fn, tmp_path / "traces" / "x.json.gz")
    # The warm-up compiles and tunes before the measured calls, and the profiler comes last.
    assert calls == ["before"] * (3 + CALLS) + ["profiler"]
    assert (found.file, found.launches) == ("traces/x.json.gz", 3)
    assert found.span_source == "events"
    assert found.span_us == pytest.approx(30, abs=2)


class CompiledKernel:
    """Triton's class of the same name."""

    def __init__(self, name: str, ptx: str, shared: int = 0) -> None:
        self.metadata = SimpleNamespace(name=name, shared=shared)
        self.asm = {"ptx": ptx}


def kernel(name: str, shared: int = 0) -> chrome_traces.TraceActivity:
    arguments = chrome_traces.TraceArguments(shared_memory_bytes=shared)
    return chrome_traces.TraceActivity(0.0, 1.0, "kernel", name, args=arguments)


def code(name: str, instruction: str) -> str:
    return f".version 8.4\n.visible .entry {name}(\n)\n{{\n{instruction};\nret;\n}}\n"


MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r1}, {%r2}, {%r3}, {%r4}"


def test_triton_kernels_are_classified_by_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "triton.compiler.compiler", SimpleNamespace(CompiledKernel=CompiledKernel)
    )
    kept = [
        CompiledKernel("gemm_k", code("gemm_k", MMA)),
        CompiledKernel("add_k", code("add_k", "add.f32 a, b, c")),
        CompiledKernel("two_k", code("two_k", MMA), 4096),
        CompiledKernel("two_k", code("two_k", "nop"), 512),
    ]
    knows = TritonCode()
    assert [knows(kernel(name)) for name in ("gemm_k", "add_k", "cublas_k")] == [True, False, None]
    # One name with two codes: the shared memory tells them apart.
    assert [knows(kernel("two_k", shared)) for shared in (4096, 512, 0)] == [True, False, None]
    assert kept


def test_files_of_two_labels_differ_and_are_plain_names() -> None:
    names = {trace_file_name("t.py::test_x[a/b c]", label) for label in ("main", "ma/in")}
    assert len(names) == 2
    assert all(name.startswith("test-x-a-b-c-ma") and "/" not in name for name in names)
