"""Callables of libraries with streams of their own: JAX, CuPy and numba-cuda."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.device_properties import gpu_info
from pytest_gpuperf.measure.timing.timer import Timer

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = np.arange(1 << 22, dtype=np.float32) / (1 << 22)


def jax_case(monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[Any], Any], Any]:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    for name in ("TPU_SKIP_MDS_QUERY", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.setenv(name, "1")  # an import of JAX sets them
    jax = pytest.importorskip("jax")
    return jax.jit(lambda x: 2 * x + 1), jax.numpy.asarray(DATA)


def cupy_case(monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[Any], Any], Any]:
    cupy = pytest.importorskip("cupy")
    return lambda x: 2 * x + 1, cupy.asarray(DATA)


def numba_case(monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[Any], Any], Any]:
    # numba-cuda asks for it, and NumPy 2.5 has it no more.
    monkeypatch.setattr(np, "row_stack", np.vstack, raising=False)
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit  # type: ignore[untyped-decorator]
    def kernel(out: Any, x: Any) -> None:
        at = cuda.grid(1)
        if at < x.size:
            out[at] = 2 * x[at] + 1

    def call(x: Any) -> Any:
        out = cuda.device_array_like(x)
        kernel[x.size // 256, 256](out, x)
        return out

    return call, cuda.to_device(DATA)


CASES = {"JAX": jax_case, "CuPy": cupy_case, "numba-cuda": numba_case}


@pytest.mark.parametrize("library", CASES)
def test_callable_is_checked_and_timed_on_its_stream(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call, x = CASES[library](monkeypatch)
    good = check(call, (x,), {}, expected=lambda _: 2 * DATA + 1)
    assert good.passed, good.failure
    assert not check(call, (x,), {}, expected=lambda _: 2 * DATA + 2).passed
    gpu = gpu_info()
    timing = Timer(gpu.l2_bytes, 0.2, Nvml(gpu.uuid).conditions).time(lambda: call(x), mode="auto")
    assert timing.mode == "kernels"
    # Reads and writes 33 MB at least once: above 2 µs at any bandwidth of today.
    assert timing.single_call is not None
    assert 2 < (timing.single_call.kernels_us or 0) < 200
    assert all(stream.kernels for stream in timing.single_call.streams)
    if library == "JAX":
        assert [stream.current for stream in timing.single_call.streams] == [False]


def test_jax_does_not_change_later_times_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4096, 4096, device="cuda")
    gpu = gpu_info()
    timer = Timer(gpu.l2_bytes, 0.2, Nvml(gpu.uuid).conditions)
    before = timer.time(lambda: torch.square(x), mode="auto")
    call, y = jax_case(monkeypatch)
    timer.time(lambda: call(y), mode="auto")
    after = timer.time(lambda: torch.square(x), mode="auto")
    assert (before.mode, after.mode) == ("hot", "hot")
    assert after.time_us == pytest.approx(before.time_us, rel=0.02)
