"""`gpuperf.static` in a run without a GPU, with limits and its own baselines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("triton")

from command_line import gpuperf
from pytest_gpuperf.features.static import nvcc, nvrtc
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.static_profiles import label_of, profile_of
from run_builders import measured, record, run
from run_results import expect
from static_builders import NODEID, accept, kernel, newest_run, see, static_baseline, write_test

if TYPE_CHECKING:
    from runs_of_pytest import AddRecording


def test_kernel_is_compiled_without_gpu_and_recording(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="""
        import pytest, triton, triton.language as tl

        @triton.jit
        def copy(x_ptr, y_ptr, BLOCK: tl.constexpr):
            offsets = tl.arange(0, BLOCK)
            tl.store(y_ptr + offsets, tl.load(x_ptr + offsets))

        @pytest.mark.gpuperf(limits=["spills == 0", "sm_90: widest_load_bits == 128"])
        def test_k(gpuperf):
            types = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16"}
            made = gpuperf.static(copy, types, {"BLOCK": 1024}, archs=("sm_80", "sm_90"), num_warps=8)
            assert made["sm_80"].block_size == made["sm_90"].block_size == 256
            gpuperf.limit("registers_per_thread <= 64", "none in tensor_instructions")
        """
    )
    see(
        pytester,
        "no GPU, *",
        "test_k (sm_80) *≤100 %* regs, 128-bit loads* new",
        "test_k (sm_90) *≤100 %* regs, 128-bit loads* new",
        "1 test compiled, not run, by triton *",
        passed=1,
    )
    found = newest_run(pytester)
    assert found.environment.gpu.slug == "static"
    assert found.tests[0].limits == (
        *("spills == 0", "sm_90: widest_load_bits == 128"),
        *("registers_per_thread <= 64", "none in tensor_instructions"),
    )


def test_accepted_facts_are_compared_exactly(pytester: pytest.Pytester, compiler: dict[str, Any]) -> None:
    write_test(pytester, archs="'sm_90', 'sm_120'")
    accept(pytester)
    assert static_baseline(pytester)["gpu"] == {"name": "no GPU", "slug": "static"}
    measurements = static_baseline(pytester)["tests"][NODEID]["measurements"]
    assert measurements.keys() == {"sm_90", "sm_120"}
    assert measurements["sm_90"]["counters"]["compiler"] == "triton 3.9.0, PTX 9.4"
    pytester.runpytest("--gpuperf").stdout.fnmatch_lines(["test_k (sm_90) * pass"])
    compiler["registers_per_thread"] = 25
    see(
        pytester,
        "gpuperf: sm_90: registers_per_thread 25 is worse than the baseline 24 (no tolerance)",
        "*if this is intended: gpuperf baseline accept",
        failed=1,
    )
    gpuperf("baseline", "accept", status=0)
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        ({"spills": 8, "stack_bytes": 8}, True),
        ({"shared_memory_bytes": 16}, True),
        ({"theoretical_occupancy": 50.0, "blocks_per_sm": 8}, True),
        ({"widest_load_bits": 64}, True),
        ({"registers_per_thread": 23, "code_bytes": 2048}, False),
        ({"tensor_instructions": ("mma.sync",)}, False),
    ],
)
def test_worse_fails_and_other_is_shown(
    pytester: pytest.Pytester, compiler: dict[str, Any], changed: dict[str, Any], failed: bool
) -> None:
    write_test(pytester)
    accept(pytester)
    compiler.update(changed)
    pytester.runpytest("--gpuperf").assert_outcomes(failed=int(failed), passed=int(not failed))


def test_code_of_other_compilers_is_not_compared(pytester: pytest.Pytester, compiler: dict[str, Any]) -> None:
    write_test(pytester)
    accept(pytester)
    compiler.update(compiler="triton 3.10.0, PTX 9.5", registers_per_thread=64)
    result = pytester.runpytest("--gpuperf", "-v")
    expect(
        result,
        "test_k (sm_90) * new",
        "*compiled by triton 3.10.0, PTX 9.5, the baseline by triton 3.9.0, PTX 9.4: another kernel, not",
        passed=1,
    )
    result.stdout.fnmatch_lines(["1 test compiled without a baseline of that compiler: pytest --gpuperf *"])
    pytester.runpytest("--gpuperf", "--gpuperf-update=new").assert_outcomes(passed=1)
    assert "3.9.0" in str(static_baseline(pytester)["tests"])
    pytester.runpytest("--gpuperf", "--gpuperf-update=changed").assert_outcomes(passed=1)
    assert "3.9.0" not in str(static_baseline(pytester)["tests"])
    pytester.runpytest("--gpuperf").stdout.fnmatch_lines(["test_k (sm_90) * pass"])


@pytest.mark.usefixtures("compiler")
def test_lost_baseline_of_a_renamed_file_is_named_once(pytester: pytest.Pytester) -> None:
    write_test(pytester)
    accept(pytester)
    (pytester.path / "test_k.py").rename(pytester.path / "test_other.py")
    assert pytester.runpytest("--gpuperf").stdout.str().count("1 tests that do not exist") == 1


@pytest.mark.parametrize(
    ("limit", "line"),
    [
        ("sm_90: registers_per_thread <= 16", "sm_90: registers_per_thread 24 is above *"),
        ("wgmma in tensor_instructions", "*tensor_instructions none breaks the limit wgmma in tensor_instr*"),
        ("sm_80: spills == 0", "the limit sm_80: spills == 0 of the test *: the test compiled nothing *"),
    ],
)
def test_a_broken_limit_names_the_architecture(
    pytester: pytest.Pytester, compiler: dict[str, Any], limit: str, line: str
) -> None:
    write_test(pytester, f"gpuperf.limit({limit!r})", archs="'sm_90', 'sm_120'")
    see(pytester, f"gpuperf: {line}", failed=1)


def test_replay_compiles_static_kernels_again(
    pytester: pytest.Pytester, compiler: dict[str, Any], add_recording: AddRecording
) -> None:
    old = Measurement(profile=profile_of(kernel(registers_per_thread=99)))
    times = measured(5.3, {"registers_per_thread": 40.0})
    add_recording(run(record(NODEID, main=times, sm_90=old), record("test_k.py::test_time", main=times)))
    write_test(pytester, "assert made['sm_90'].registers_per_thread == 24", "gpuperf.profile(print)")
    see(pytester, "*replayed from NVIDIA H200*", passed=1)
    write_test(pytester)
    result = pytester.runpytest("--gpuperf")
    result.stdout.fnmatch_lines(["*replayed from NVIDIA H200*", "test_k (sm_90) * new"])
    result.stdout.fnmatch_lines(["*pytest --gpuperf --gpuperf-replay=never*"])


def test_replayed_static_regression_names_the_accept_command(
    pytester: pytest.Pytester, compiler: dict[str, Any], add_recording: AddRecording
) -> None:
    write_test(pytester)
    accept(pytester)
    add_recording(run(record("test_k.py::test_time", main=measured())))
    compiler["spills"] = 4
    pytester.runpytest("--gpuperf").stdout.fnmatch_lines(
        ["*if this is intended: pytest --gpuperf --gpuperf-replay=never --gpuperf-update=changed test_k.py"]
    )
    see(pytester, options=("--gpuperf-replay=never", "--gpuperf-update=changed"), failed=1)
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


def test_named_run_is_shown_unchanged(pytester: pytest.Pytester, compiler: dict[str, Any]) -> None:
    compiler.update(registers_per_thread=40, tensor_instructions=("mma.sync", "wgmma"))
    compiler.update(copy_instructions=("cp.async", "cp.async.bulk.tensor"))
    write_test(pytester)
    pytester.runpytest("--gpuperf")
    compiler.clear()
    write_test(pytester, "assert made['sm_90'].registers_per_thread == 40", "print(made)")
    see(
        pytester,
        re.sub(r"[][]", "?", f"*{kernel(registers_per_thread=40)!r:.100}*"),
        "test_k (sm_90)*40 regs, mma.sync wgmma, TMA, *new",
        options=("--gpuperf-replay=latest", "-s"),
        passed=1,
    )
    write_test(pytester, archs="'sm_120',")
    pytester.makepyfile(test_other="def test_new(gpuperf): gpuperf.static(print)")
    skipped = "SKIPPED*the recording has no compiled kernels of this test"
    see(pytester, skipped, options=("--gpuperf-replay=latest", "test_other.py", "-rs"), skipped=1)


def test_missing_compiler_skips_the_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "find", lambda: None)
    monkeypatch.setattr(nvrtc, "find", lambda: None)
    pytester.makepyfile("def test_k(gpuperf): gpuperf.static('__global__ void k() {}')")
    why = "SKIPPED*no compiler for CUDA source*pip install nvidia-cuda-nvrtc"
    see(pytester, why, options=("-rs",), skipped=1)


def test_compile_error_fails_the_test_at_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_k(gpuperf):\n    gpuperf.static(print)\n    raise AssertionError\n")
    result = pytester.runpytest("--gpuperf")
    expect(result, "*the kernel is a builtin_function_or_method; expected a function with @triton*", failed=1)
    assert "went on" not in result.stdout.str()


def test_two_kernels_of_a_test_need_two_labels(pytester: pytest.Pytester, compiler: dict[str, Any]) -> None:
    write_test(pytester, "gpuperf.static(print, archs=('sm_90',), label='second[x]')")
    see(pytester, "test_k (sm_90)*", "test_k (second?x??sm_90?)*", passed=1)
    assert label_of("second[x]", "sm_90") in newest_run(pytester).tests[0].measurements
    write_test(pytester, "gpuperf.static(print, archs=('sm_90',))")
    pytester.runpytest("--gpuperf").stdout.fnmatch_lines(["*under the label 'sm_90' already*label=*"])
