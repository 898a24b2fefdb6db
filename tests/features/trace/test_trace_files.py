"""Files and folders of traces: ranks, GPUs and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.features.trace.chrome_traces import parse_chrome_trace
from pytest_gpuperf.features.trace.files import read_traces
from trace_builders import H200_PROPERTIES, TraceBuilder, rank

if TYPE_CHECKING:
    from pathlib import Path


def distributed(number: int) -> dict[str, object]:
    return {"distributedInfo": {"backend": "nccl", "rank": number, "world_size": 2}}


def test_ranks_of_a_folder_are_sorted(tmp_path: Path) -> None:
    for number in (10, 2, 0):
        rank(number).write(tmp_path / f"worker{number}.123.pt.trace.json.gz", **distributed(number))
    found, _ = read_traces([tmp_path])
    ranks = [(one.rank, one.world_size, one.trace.device) for one in found]
    assert ranks == [(0, 2, 0), (2, 2, 2), (10, 2, 10)]


def test_name_of_the_file_tells_the_rank(tmp_path: Path) -> None:
    [found], _ = read_traces([rank(3).write(tmp_path / "trace_rank-3.json")])
    assert found.rank == 3


def test_folder_leaves_out_unusable_traces_and_says_so(tmp_path: Path) -> None:
    rank(0).write(tmp_path / "a.pt.trace.json")
    TraceBuilder().write(tmp_path / "b.pt.trace.json")
    (tmp_path / "config.json").write_text('{"a": 1}')
    found, remarks = read_traces([tmp_path])
    assert [one.file.name for one in found] == ["a.pt.trace.json"]
    assert [line.partition(" has ")[2] for line in remarks] == ["no activity of a GPU"]


def test_gpu_without_the_annotation_is_named(tmp_path: Path) -> None:
    both = rank(0, steps=1)
    both.kernel("k", 5000.0, 5.0, device=1)
    found, [line] = read_traces([both.write(tmp_path / "x.json")], "ProfilerStep#.*")
    assert [one.trace.device for one in found] == [0]
    assert line.startswith("left out: GPU 1 of ")


def test_amd_gpu_with_another_number_keeps_its_name() -> None:
    amd = {"id": 0, "name": "AMD Instinct MI300X", "numSms": 304}
    trace = parse_chrome_trace(rank(9).data(deviceProperties=[amd]), "x.json")
    assert trace.device(9).name == "AMD Instinct MI300X"
    two = parse_chrome_trace(rank(9).data(deviceProperties=[amd, H200_PROPERTIES | {"id": 1}]), "x.json")
    assert two.device(9).name == ""


@pytest.mark.parametrize("info", [None, {"rank": "3"}, {}, {"rank": True}])
def test_rank_of_another_type_is_unknown(info: object) -> None:
    assert rank(0).read(distributedInfo=info).rank is None
