"""Reading the files of torch.profiler."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.trace.chrome_traces import parse_chrome_trace, read_chrome_trace
from pytest_gpuperf.features.trace.summary import summarise
from trace_builders import TraceBuilder

if TYPE_CHECKING:
    from pathlib import Path


def one_kernel() -> TraceBuilder:
    trace = TraceBuilder()
    trace.kernel("square_kernel", 10.5, 3.25, grid=(132, 2, 1), registers=40, shared=1024)
    return trace


def test_a_kernel_has_its_launch_facts() -> None:
    [kernel] = one_kernel().read().activities
    # The launch is the first event, 5 µs before.
    assert (kernel.name, kernel.start_us, kernel.end_us) == ("square_kernel", 5.0, 8.25)
    args = kernel.args
    assert (args.grid, args.block) == ((132, 2, 1), (256, 1, 1))
    assert (args.registers_per_thread, args.shared_memory_bytes, args.blocks_per_sm) == (40, 1024, 2.0)


def test_the_gpu_is_known_by_name_capability_and_sms() -> None:
    [(number, device)] = one_kernel().read().devices
    assert (number, device.name, device.compute_capability) == (0, "NVIDIA H200", (9, 0))
    assert device.multiprocessors == 132


def test_durations_are_exact_with_times_since_1970() -> None:
    trace = one_kernel()
    for event in trace.events:
        event["ts"] += 1.7e15
    [kernel] = trace.read().activities
    assert kernel.end_us - kernel.start_us == pytest.approx(3.25, abs=1e-6)


def test_gzipped_and_plain_files_agree(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.json", tmp_path / "b.pt.trace.json.gz"
    plain.write_bytes(one_kernel().data())
    packed.write_bytes(gzip.compress(one_kernel().data()))
    assert read_chrome_trace(plain) == read_chrome_trace(packed)


def test_amd_numbers_are_not_a_compute_capability() -> None:
    amd = {"id": 0, "name": "AMD Instinct MI250X", "computeMajor": 9, "computeMinor": 0, "numSms": 104}
    [kernel] = summarise(one_kernel().read(deviceProperties=[amd])).kernels
    assert kernel.theoretical_occupancy_pct is None


def test_trace_without_gpu_properties_keeps_blocks_per_sm() -> None:
    [kernel] = summarise(one_kernel().read(deviceProperties=[])).kernels
    assert (kernel.blocks_per_sm, kernel.waves) == (2.0, None)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (TraceBuilder().data(), "has no activity of a GPU"),
        (b"{}", "is not a trace of torch.profiler"),
        (b"[1, 2]", "is not a trace of torch.profiler"),
        (b'{"traceEvents": [{"cat": "kernel", "ts": "soon"}]}', "is not a trace of torch.profiler"),
        (one_kernel().data()[:-40], "is not valid JSON"),
        (b"", "is not valid JSON"),
        (one_kernel().data(schemaVersion=2), "newer torch.profiler (schemaVersion 2)"),
    ],
    ids=["cpu only", "empty object", "list", "words for numbers", "cut", "empty", "newer"],
)
def test_file_without_gpu_activity_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(GpuperfError) as refused:
        parse_chrome_trace(data, "x.json")
    assert str(refused.value).startswith("x.json ")
    assert said in str(refused.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match="No such file"):
        read_chrome_trace(tmp_path / "x.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(["ph", "cat", "name", "ts", "dur", "pid", "tid", "args", "grid", "stream"])


@given(
    st.dictionaries(FIELDS, JSON, max_size=6),
    st.sampled_from(["kernel", "gpu_memcpy", "cuda_runtime", "Operator", "cuda_sync"]),
    st.booleans(),
)
def test_any_event_gives_a_trace_or_one_error(event: dict[str, object], cat: str, is_list: bool) -> None:
    trace = one_kernel()
    trace.events.append({"cat": cat, **event})
    content = trace.events if is_list else trace.content()
    try:
        read = parse_chrome_trace(json.dumps(content).encode(), "x.json")
    except GpuperfError:
        return
    assert summarise(read).launches >= 1


@given(st.binary(max_size=200))
def test_any_bytes_give_a_trace_or_one_error(data: bytes) -> None:
    with pytest.raises(GpuperfError):
        parse_chrome_trace(data, "x.json")
