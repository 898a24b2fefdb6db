from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec import structs

from command_line import gpuperf
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.github.merging import merge_runs
from pytest_gpuperf.records import GpuInfo, Run, Trace
from pytest_gpuperf.records.run_store import RunStore, encode_run, load_run
from run_builders import H200, measured, record, run

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

B200 = GpuInfo(name="NVIDIA B200", slug="nvidia-b200", uuid="GPU-2")
SECOND = structs.replace(H200, uuid="GPU-3")
LARGER = structs.replace(H200, memory_bytes=1000)


def shard(number: int, *names: str, gpu: GpuInfo = H200) -> Run:
    tests = [record(f"t/test_a.py::{name}", main=measured()) for name in names or (f"test_{number}",)]
    started = f"2026-11-20T17:30:{number:02}+00:00"
    return run(*tests, id=f"20261120-1730{number:02}-3f9a", gpu=gpu, started_at=started)


def names(merged: Run) -> list[str]:
    return [test.nodeid.partition("::")[2] for test in merged.tests]


def merge(*arguments: str | Path, status: int = 0) -> Result:
    return gpuperf("merge", *map(str, arguments), status=status)


def write(folder: Path, *runs: Run) -> list[Path]:
    paths = [folder / f"{one.id}-{one.environment.gpu.uuid}.json" for one in runs]
    for path, one in zip(paths, runs, strict=True):
        path.write_bytes(encode_run(one))
    return paths


def test_shards_of_one_environment_become_one_run() -> None:
    merged = merge_runs([shard(2), shard(1), shard(2)])
    [one] = merged.runs
    assert (one.id, names(one)) == (shard(1).id, ["test_1", "test_2"])
    assert merged.notes == ()


def test_test_of_another_card_names_it() -> None:
    [one] = merge_runs([shard(1), shard(2, gpu=SECOND)]).runs
    assert [test.gpu_uuid for test in one.tests] == ["", "GPU-3"]
    assert list(one.cards.values()) == ["GPU-1", "GPU-3"]


def test_cards_of_other_sizes_are_not_joined() -> None:
    merged = merge_runs([shard(1), shard(2, gpu=LARGER)])
    assert list(merged.runs) == [shard(1), shard(2, gpu=LARGER)]
    assert merged.notes == snapshot(
        (
            "not joined: 20261120-173001-3f9a and 20261120-173002-3f9a differ in GPU memory_bytes "
            "(unknown and 1000)",
        )
    )


def test_other_versions_are_not_joined() -> None:
    newer = shard(2)
    toolchain = structs.replace(newer.environment.toolchain, triton="3.7")
    newer = structs.replace(newer, environment=structs.replace(newer.environment, toolchain=toolchain))
    merged = merge_runs([shard(1), newer])
    assert len(merged.runs) == 2
    assert merged.notes[0].endswith("differ in triton (3.6 and 3.7)")


def test_empty_interrupted_and_dirty_runs_are_named() -> None:
    dirty = structs.replace(shard(1), environment=structs.replace(shard(1).environment, dirty=True))
    merged = merge_runs(
        [
            dirty,
            structs.replace(shard(2, gpu=B200), complete=False),
            structs.replace(shard(3, gpu=B200), tests=()),
        ]
    )
    assert merged.notes == snapshot(
        (
            "20261120-173003-3f9a has no tests",
            "20261120-173002-3f9a was interrupted: tests may be missing",
            "20261120-173001-3f9a measured changes that are not committed",
        )
    )


def test_runs_without_any_test_are_refused() -> None:
    with pytest.raises(GpuperfError, match="no test was judged"):
        merge_runs([structs.replace(shard(1), tests=())])


def test_test_measured_twice_is_refused() -> None:
    with pytest.raises(GpuperfError, match=r"t/test_a\.py::test_a was measured twice on NVIDIA H200: in"):
        merge_runs([shard(1, "test_a"), shard(2, "test_a", gpu=SECOND)])


def test_runs_of_two_commits_are_refused() -> None:
    other = structs.replace(shard(2), environment=structs.replace(shard(2).environment, commit="beef"))
    with pytest.raises(GpuperfError, match=r"several commits: .* of beef"):
        merge_runs([shard(1), other])


@given(st.permutations(range(6)), st.lists(st.sampled_from([H200, B200, SECOND]), min_size=6, max_size=6))
def test_order_of_runs_changes_nothing(order: list[int], gpus: list[GpuInfo]) -> None:
    shards = [shard(number, gpu=gpus[number]) for number in range(6)]
    merged = merge_runs([shards[number] for number in order])
    assert merged == merge_runs(shards)
    assert merge_runs(merged.runs) == merged
    assert sorted(name for one in merged.runs for name in names(one)) == [f"test_{n}" for n in range(6)]


def test_folder_has_a_run_for_each_gpu(project: Path) -> None:
    runs = [shard(1), shard(2), shard(3, gpu=B200), shard(4, gpu=LARGER)]
    result = merge(*write(project, *runs), "-o", "all")
    assert result.output == snapshot("""\
wrote all/nvidia-b200/run.json (1 test)
wrote all/nvidia-h200/run.json (2 tests)
wrote all/nvidia-h200-2/run.json (1 test)
not joined: 20261120-173001-3f9a and 20261120-173004-3f9a differ in GPU memory_bytes (unknown and 1000)
""")
    found = RunStore(project / ".gpuperf").resolve_all("all")
    assert [load_run(path) for path in found] == list(merge_runs(runs).runs)
    assert merge("all", "-o", "all2").output.startswith("wrote all2/nvidia-b200/run.json")


def test_folder_with_files_is_refused(project: Path) -> None:
    merge(*write(project, shard(1)), "-o", "all")
    before = (project / "all/nvidia-h200/run.json").read_bytes()
    for runs in (write(project, shard(2, gpu=B200)), ["all"]):
        assert "expected a new or empty folder" in merge(*runs, "-o", "all", status=2).output
    assert (project / "all/nvidia-h200/run.json").read_bytes() == before


def test_traces_move_with_their_run(project: Path) -> None:
    traced = structs.replace(measured(), trace=Trace(file="traces/a.json.gz"))
    one = structs.replace(shard(1), tests=(record("t.py::t", main=traced),))
    path = RunStore(project / ".gpuperf").write(one)
    (path.parent / "traces").mkdir()
    (path.parent / "traces" / "a.json.gz").write_bytes(b"trace")
    merge(path, *write(project, shard(2)), "-o", "all")
    assert (project / "all/nvidia-h200/traces/a.json.gz").read_bytes() == b"trace"


def test_every_model_is_accepted_and_compared(project: Path) -> None:
    merge(*write(project, shard(1, "test_a"), shard(2, "test_a", gpu=B200)), "-o", "all")
    said = gpuperf("baseline", "accept", "all").output
    assert "wrote baselines/nvidia-b200/test_a.json (1 test)" in said
    assert "wrote baselines/nvidia-h200/test_a.json (1 test)" in said
    compared = gpuperf("compare", "all::test_a").output
    assert shard(1).id in compared
    assert shard(2).id in compared
    added = gpuperf("record", "all").output
    assert added.count("wrote baselines/") == 2
