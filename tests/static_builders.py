"""A test that compiles a kernel, and a fake compiler."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from pytest_gpuperf.features.static import triton_compilation
from pytest_gpuperf.records import StaticKernel
from pytest_gpuperf.records.run_store import RunStore, load_run
from run_results import expect

if TYPE_CHECKING:
    import pytest

    from pytest_gpuperf.records import Run


NODEID = "test_k.py::test_k"


def kernel(arch: str = "sm_90", **changed: Any) -> StaticKernel:
    """Return a kernel of the fake compiler."""
    made = StaticKernel(
        name="copy",
        arch=arch,
        compiler="triton 3.9.0, PTX 9.4",
        block_size=128,
        registers_per_thread=24,
        spills=0,
        stack_bytes=0,
        shared_memory_bytes=0,
        code_bytes=1024,
        widest_load_bits=128,
        tensor_instructions=(),
        copy_instructions=(),
        theoretical_occupancy=100.0,
        blocks_per_sm=16,
        occupancy_limiter="warps",
    )
    return msgspec.structs.replace(made, **changed)


def fake_compiler(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Install the fake compiler; its kernels have the returned fields."""
    fields: dict[str, Any] = {}

    def compile_triton(_: Any, archs: Any, **__: Any) -> dict[str, StaticKernel]:
        return {arch: kernel(arch, **fields) for arch in archs}

    monkeypatch.setattr(triton_compilation, "compile_triton", compile_triton)
    return fields


def write_test(pytester: pytest.Pytester, *more: str, before: str = "", archs: str = "'sm_90',") -> None:
    lines = "\n    ".join(more)
    pytester.makepyfile(
        test_k=f"""
{before}
def test_k(gpuperf):
    made = gpuperf.static(print, archs=({archs}))
    {lines}
"""
    )


def static_baseline(pytester: pytest.Pytester) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        (pytester.path / "baselines" / "static" / "test_k.json").read_bytes()
    )
    return content


def newest_run(pytester: pytest.Pytester) -> Run:
    return load_run(RunStore(pytester.path / ".gpuperf").resolve())


def see(pytester: pytest.Pytester, *lines: str, options: tuple[str, ...] = (), **outcomes: int) -> None:
    """Run the tests, and look for their outcomes and for lines of the output."""
    expect(pytester.runpytest("--gpuperf", *options), *lines, **outcomes)


def accept(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--gpuperf", "--gpuperf-update=all").assert_outcomes(passed=1)
