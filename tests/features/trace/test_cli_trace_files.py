"""`gpuperf trace` of files and folders: GPUs, ranks, steps, comparisons, and files of other tools."""

from __future__ import annotations

import csv
import gzip
import io
import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from command_line import gpuperf
from pytest_gpuperf.records import Trace, TracedKernel
from trace_builders import TraceBuilder, rank

if TYPE_CHECKING:
    from pathlib import Path


trace = partial(gpuperf, "trace")


def shown(*arguments: object) -> list[list[str]]:
    return [line.split() for line in trace(*arguments, status=0).stdout.splitlines()]


def as_json(*arguments: object) -> Any:
    return json.loads(trace(*arguments, "--json", status=0).stdout)


def test_both_gpus_of_a_file_are_shown(project: Path) -> None:
    both = rank(0, steps=1)
    both.kernel("second_gpu", 100.0, 5.0, device=1)
    both.write(project / "x.json")
    assert "second_gpu" in trace("x.json").stdout
    assert [(one["device"], one["trace"]["launches"]) for one in as_json("x.json")] == [(0, 2), (1, 1)]
    rows = list(csv.DictReader(io.StringIO(trace("x.json", "--csv").stdout)))
    assert {(row["device"], row["name"]) for row in rows} >= {("1", "second_gpu")}


def test_steps_stand_next_to_each_other(project: Path) -> None:
    rank(0).write(project / "x.json")
    steps = [line for line in shown("x.json") if line[:1] and line[0].startswith(("ProfilerStep", "the"))]
    assert [line[0] for line in steps[:3]] == ["the", "ProfilerStep#0", "ProfilerStep#1"]
    [one] = as_json("x.json")
    assert [step["region"] for step in one["steps"]] == ["ProfilerStep#0", "ProfilerStep#1"]
    assert [step["communication"]["exposed_us"] for step in one["steps"]] == [150.0, 150.0]


def test_ranks_of_a_folder_stand_next_to_each_other(project: Path) -> None:
    for number in (0, 1):
        rank(number).write(project / "logs" / f"worker{number}.1.pt.trace.json.gz",
                           distributedInfo={"rank": number, "world_size": 2})  # fmt: skip
    text = trace("logs").stdout
    assert "rank 0 of 2, GPU 0" in text
    assert "rank 1 of 2, GPU 1" in text
    assert [one["rank"] for one in as_json("logs")] == [0, 1]
    assert [one["rank"] for one in as_json(*sorted((project / "logs").iterdir()))] == [0, 1]


def test_time_of_a_file_is_split(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    rank(0, steps=1).write(project / "x.json")
    text = trace("x.json").stdout
    assert "250 µs of it busy, kernels 300 µs in sum" in text
    assert "work: communication 67 %, gemm 33 %" in text
    assert "communication 200 µs: 150 µs exposed, 50.0 µs (25 %) overlapped by computation" in text
    idle = TraceBuilder()
    idle.kernel("k", 100.0, 10.0)
    idle.kernel("k", 200.0, 10.0)
    idle.write(project / "y.json")
    assert "idle 90.0 µs: 90.0 µs waiting for the host, 0.00 µs for kernels" in trace("y.json").stdout


def test_json_has_every_field_even_with_default_values(project: Path) -> None:
    trace_of_one = TraceBuilder()
    trace_of_one.kernel("my_kernel", 100.0, 5.0)
    trace_of_one.write(project / "x.json")
    [one] = as_json("x.json")
    assert one["trace"].keys() == set(Trace.__struct_fields__)
    assert one["trace"]["copies"] == 0
    [kernel] = one["trace"]["kernels"]
    assert kernel.keys() == set(TracedKernel.__struct_fields__)
    assert kernel["tensor_cores"] is None


CONSOLE = """my program prints first
==PROF== Connected to process 4711 (/usr/bin/python3.11)
  square_kernel (132, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
"""
SUMMARY = '"Process ID","Process Name","Host Name","Kernel Name","Metric Name","Minimum","Maximum"\n'


@pytest.mark.parametrize(
    "content",
    [b"NVR\0\x01\x02", CONSOLE.encode(), gzip.compress(CONSOLE.encode()), SUMMARY.encode(),
     b"==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"],
    ids=["report", "console", "gzipped", "summary", "error"],
)  # fmt: skip
def test_file_of_ncu_gets_the_command_that_reads_it(project: Path, content: bytes) -> None:
    (project / "x.ncu-rep").write_bytes(content)
    assert "gpuperf ncu x.ncu-rep" in trace("x.ncu-rep", status=2).output


def test_kernel_named_like_ncu_text_is_a_trace(project: Path) -> None:
    named = TraceBuilder()
    named.kernel("==PROF== Metric Name", 100.0, 5.0)
    named.write(project / "x.json")
    assert trace("x.json").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x.json", "test_a"], "'test_a' is neither a file nor a folder"),
        (["empty"], "has no trace of torch.profiler"),
        (["x.json", "--annotation", "nothing"], "expected one of ProfilerStep#0, ProfilerStep#1"),
        (["latest", "a", "b"], "a run and a part of a test's name"),
    ],
)
def test_invalid_sources_are_refused(project: Path, arguments: list[str], said: str) -> None:
    rank(0).write(project / "x.json")
    (project / "empty").mkdir()
    assert said in trace(*arguments, status=2).output
