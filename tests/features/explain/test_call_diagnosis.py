"""Diagnoses of the kernel table of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from inline_snapshot import snapshot

from command_line import gpuperf
from pytest_gpuperf.features.explain.diagnosis import diagnose_call
from pytest_gpuperf.features.explain.diagnosis_rows import explain_lines
from pytest_gpuperf.records import KernelProfile, Measurement, Profile, Trace, TracedKernel
from pytest_gpuperf.records.run_store import RunStore
from run_builders import record, run

if TYPE_CHECKING:
    from pathlib import Path

SGEMM = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_tn_align1>(Params)"
NVJET = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
ADD = "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<float>>(int)"

IDLE = Trace(
    launches=150,
    host_launches=150,
    span_us=1500.0,
    busy_us=450.0,
    gpu_time_us=450.0,
    gpu_busy_pct=30.0,
    launch_gap_us=7.05,
)
"""Eager launches by a host that cannot keep up."""


def changed(trace: Trace, **values: object) -> Trace:
    return msgspec.structs.replace(trace, **values)


def kernels(**shares: float) -> Trace:
    """Return a call of kernels with these shares: `sgemm` without tensor cores, `nvjet` with them, `add`."""
    names = {"sgemm": (SGEMM, False), "nvjet": (NVJET, True), "add": (ADD, False)}
    table = [
        TracedKernel(
            name=names[key][0],
            calls=1,
            total_us=share,
            mean_us=share,
            share_pct=share,
            tensor_cores=names[key][1],
        )
        for key, share in shares.items()
    ]
    return Trace(kernels=tuple(table), launches=3, gpu_time_us=100.0, span_us=101.0, gpu_busy_pct=99.0)


def next_step(trace: Trace) -> str:
    (found,) = diagnose_call(trace)
    assert found.code == "launch-bound"
    return found.next_step


def test_a_call_of_one_kernel_waits_for_no_other_launch() -> None:
    assert diagnose_call(changed(IDLE, launches=1)) == ()


def test_graph_does_not_wait_for_the_host() -> None:
    assert "no longer the host's" in next_step(changed(IDLE, host_launches=1))


def test_a_host_that_waits_in_the_call_is_named_first() -> None:
    waiting = changed(IDLE, synchronizations=1)
    assert "the host waits for the GPU 1 time" in str(diagnose_call(waiting)[0])
    assert next_step(waiting).startswith("no .item()")


@pytest.mark.parametrize(
    "trace", [kernels(nvjet=60.0, add=40.0), kernels(sgemm=9.0, nvjet=91.0), kernels(add=100.0)]
)
def test_products_on_tensor_cores_are_left_alone(trace: Trace) -> None:
    assert diagnose_call(trace) == ()


@pytest.mark.parametrize(
    "name",
    ["void gemv2T_kernel_val<int, int, float, float, float, float, 128>(P)", "cutlass_80_simt_dgemm_128x64"],
)
def test_products_that_tensor_cores_cannot_speed_up_are_ignored(name: str) -> None:
    one = kernels(sgemm=100.0)
    assert diagnose_call(changed(one, kernels=(msgspec.structs.replace(one.kernels[0], name=name),))) == ()


def test_failed_test_shows_the_call_before_its_kernels() -> None:
    counted = KernelProfile(name="k", metrics={"sm_throughput": 20.0, "memory_throughput": 85.0})
    lines = explain_lines(Measurement(trace=IDLE, profile=Profile(kernels=(counted,))))
    assert [line.partition(":")[0] for line in lines[::2]] == ["launch-bound", "memory-bound"]
    assert explain_lines(Measurement(trace=IDLE)) == lines[:2]


def explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / ".git").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path)
    kernel = TracedKernel(name="k", calls=150, total_us=450.0, mean_us=3.0, share_pct=100.0)
    eager = changed(IDLE, kernels=(kernel,))
    kept = run(
        record("t/test_a.py::test_eager", main=Measurement(trace=eager)),
        record("t/test_a.py::test_graph", main=Measurement(trace=changed(eager, gpu_busy_pct=93.0))),
    )
    RunStore(tmp_path / ".gpuperf").write(kept)
    return gpuperf("explain", status=0).output.splitlines()


def test_explain_names_the_bound_of_each_traced_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\n".join(explained(tmp_path, monkeypatch)) == snapshot("""\
NVIDIA H200, triton 3.6, commit c0ffee1

  kernel       time
-------------------
t/test_a.py::test_eager
  the call  1.50 ms
      launch-bound: the GPU is busy 30 % of the call: 150 launches of 3.0 µs on average, with 7.0 µs
        from one to the next
        next: one CUDA graph (torch.cuda.graph), fewer kernels (torch.compile, fusion), or more work
        for each
t/test_a.py::test_graph
  the call  1.50 ms
      the GPU is busy 93 % of it\
""")
