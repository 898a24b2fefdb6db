"""`gpuperf trace`: the kernel tables of a run or of a saved trace."""

from __future__ import annotations

import gzip
import json
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
from inline_snapshot import snapshot

from command_line import gpuperf
from pytest_gpuperf.features.trace.kernel_table import short_name
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.run_store import RunStore
from run_builders import record, run
from trace_builders import BLOCK, TraceBuilder, attention_block

if TYPE_CHECKING:
    from pathlib import Path


trace = partial(gpuperf, "trace")


def with_run(project: Path, *, chrome: bool = True) -> None:
    tests = [record(f"t.py::test_{name}", main=Measurement(trace=BLOCK)) for name in ("a", "b")]
    path = RunStore(project / ".gpuperf").write(run(*tests))
    if chrome:
        (path.parent / "traces").mkdir()
        (path.parent / BLOCK.file).write_bytes(gzip.compress(attention_block().data()))


def test_table_has_region_figures_kernels_and_bounds(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "92")
    with_run(project)
    assert trace("latest", "test_a").stdout.splitlines() == snapshot(
        [
            "t.py::test_a",
            "for https://ui.perfetto.dev: .gpuperf/runs/20261120-173012-3f9a/traces/block.json.gz",
            "NVIDIA H200, the whole trace, 5.81 ms on the GPU under torch.profiler, 5.41 ms of it busy,",
            "  kernels 5.41 ms in sum",
            "trace: 202 launches, GPU busy 93 %, gap 2.00 µs, tensor cores 0 %; small_frequent 71 %,",
            "  large_core 16 %, reduction 9 %, medium_auxiliary 4 %",
            "work: gemm 91 %, reduction 9 %",
            "idle 402 µs: 0.00 µs waiting for the host, 402 µs for kernels already launched",
            "",
            "kernel",
            "    class             calls    total     mean   share  blocks/SM  occupancy  tensor",
            "-----------------------------------------------------------------------------------",
            "ampere_sgemm_32x32_sliced1x4_tn",
            "    small_frequent       96  3.84 ms  40.0 µs  71.0 %       0.24      ≤31 %  no",
            "ampere_sgemm_128x128_nn",
            "    large_core            8   880 µs   110 µs  16.3 %       15.5      ≤25 %  no",
            "softmax_warp_forward<float, float, 8>",
            "    reduction            96   480 µs  5.00 µs   8.9 %       2.00     ≤100 %  no",
            "ampere_sgemm_64x64_nn",
            "    medium_auxiliary      2   210 µs   105 µs   3.9 %       4.00      ≤25 %  no",
            "",
            "tensor-cores-idle: 91 % of the GPU's time goes into products of matrices without tensor",
            "  cores, of float32 by its name",
            "  next: TF32 if 10 bits of mantissa are enough (torch.set_float32_matmul_precision), or",
            "  bfloat16",
        ]
    )


def test_test_is_named_as_in_other_commands(project: Path) -> None:
    one = Measurement(trace=BLOCK)
    tests = [record("t.py::test_a", main=one, cold=one), record("t.py::test_a_too", main=one)]
    path = RunStore(project / ".gpuperf").write(run(*tests))

    def named(*arguments: object) -> list[str]:
        rows = json.loads(trace(*arguments, "--json").stdout)
        return [f"{row['nodeid']} {row['label']}" for row in rows]

    assert named("::test_a") == ["t.py::test_a main", "t.py::test_a cold"]
    assert named(f"{path}::test_a (cold)") == ["t.py::test_a cold"]
    assert named("t.py::test_a_too") == ["t.py::test_a_too main"]
    assert named("latest", "test_a_too") == ["t.py::test_a_too main"]


def test_copies_and_fills_have_rows_of_their_own(project: Path) -> None:
    copying = TraceBuilder()
    copying.kernel("square_kernel", 100.0, 10.0)
    for start in (200.0, 300.0):
        copying.copy(start, 35.0, 4096)
    copying.copy(400.0, 12.0, 64, "DtoH (Device -> Pinned)")
    copying.copy(500.0, 8.0, 64, "memset")
    (project / "x.json").write_bytes(copying.data())
    rows = [line.split() for line in trace("x.json").stdout.splitlines() if "data_movement  " in line]
    assert [row[:4] for row in rows] == [
        ["Memcpy", "HtoD", "data_movement", "2"],
        ["Memcpy", "DtoH", "data_movement", "1"],
        ["Memset", "data_movement", "1", "8.00"],
    ]
    assert rows[0][-3:] == ["70.0", "%", "no"]
    assert "Memset" not in trace("x.json", "--kernel", "Memcpy|square").stdout


def test_short_names_keep_the_tile_size() -> None:
    name = (
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize{}_stage3_warpsize2x2x1_ffma_aligna4_alignc4"
        "_execute_{}"
    )
    shown = {
        short_name(name.format(tile, end))
        for tile in ("128x32x8", "128x64x8")
        for end in ("kernel__5x_cublas", "split_k_kernel__5x_cublas")
    }
    assert len(shown) == 4
    assert short_name("std::enable_if<!(false), void>::type gemvx::kernel<int>(P)") == "gemvx::kernel<int>(P)"


def test_command_shows_the_bounds_of_a_call(project: Path) -> None:
    with_run(project)
    said = "tensor-cores-idle: "
    assert said in trace("latest", "test_a").stdout
    # The bounds are not those of some kernels, nor of a file, which has more than a call.
    assert said not in trace("latest", "test_a", "--kernel", "gemm").stdout
    (project / "x.json").write_bytes(attention_block().data())
    assert said not in trace("x.json").stdout


def test_csv_and_json_have_all_kernels(project: Path) -> None:
    with_run(project)
    rows = trace("latest", "test_a", "--csv").stdout.splitlines()
    assert rows[0].startswith("nodeid,label,name,kernel_class,calls,total_us")
    assert len(rows) == 1 + len(BLOCK.kernels)
    [one] = json.loads(trace("latest", "test_a", "--json").stdout)
    assert (one["nodeid"], one["trace"]["launches"]) == ("t.py::test_a", 202)


def test_chrome_file_is_named_as_long_as_it_exists(project: Path) -> None:
    with_run(project)
    assert "for https://ui.perfetto.dev: .gpuperf/runs/" in trace("latest", "test_a").stdout
    next(project.glob(".gpuperf/runs/*/traces/*")).unlink()
    assert "ui.perfetto.dev" not in trace("latest", "test_a").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["latest", "test_c"], "has no trace of a test with 'test_c' in its name"),
        (["latest", "--kernel", "("], "is broken"),
        (["latest", "--annotation", "x"], "is for a trace file"),
        (["nothing.json"], "there is no run 'nothing.json'"),
        (["test_a"], "check the path, or type '::test_a' for a test of the newest run"),
        (["::test_c"], "has measured nothing of a test 'test_c'"),
        (["::test_a", "--kernel", "zz"], "no kernel of t.py::test_a matches 'zz'; expected a regex found in"),
        (["--kernel", "zzz", "--csv"], "no kernel of the 2 traces matches 'zzz'"),
    ],
)
def test_invalid_arguments_are_refused(project: Path, arguments: list[str], said: str) -> None:
    with_run(project, chrome=False)
    assert said in trace(*arguments, status=2).output


@pytest.mark.parametrize(
    "name", ["../../../secret", "traces/../../../../secret", "{}/secret", "link", "a\0b", "."]
)
def test_run_names_only_files_of_its_folder(project: Path, name: str) -> None:
    (project / "secret").write_text("secret")
    named = msgspec.structs.replace(BLOCK, file=name.format(project))
    path = RunStore(project / ".gpuperf").write(run(record(main=Measurement(trace=named))))
    (path.parent / "link").symlink_to(project / "secret")
    assert "expected a file below the folder of the run" in trace("latest", status=2).stderr
