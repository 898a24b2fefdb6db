"""Callables of JAX, which has streams of its own; those of other libraries are in the zoo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
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


def test_callable_of_jax_is_checked_and_timed_on_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    call, x = jax_case(monkeypatch)
    good = check(call, (x,), {}, expected=lambda _: 2 * DATA + 1)
    assert good.passed, good.failure
    assert not check(call, (x,), {}, expected=lambda _: 2 * DATA + 2).passed
    gpu = gpu_info()
    timing = Timer(gpu.l2_bytes, 0.2, Nvml(gpu.uuid).conditions).time(lambda: call(x), mode="auto")
    assert timing.mode == "kernels"
    assert timing.single_call is not None
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
