"""What the first calls of a callable tell."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from pytest_gpuperf.measure.timing.first_calls import FirstCalls
from run_builders import timing

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from pytest_gpuperf.records import Timing


class Allocator:
    """torch's allocator of a GPU, with 100 bytes in use."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, backend: str = "native") -> None:
        self.now = self.peak = 100
        parts = {
            "is_initialized": lambda: True,
            "get_allocator_backend": lambda: backend,
            "reset_peak_memory_stats": lambda: setattr(self, "peak", self.now),
            "memory_stats": lambda: {
                "requested_bytes.all.current": self.now,
                "requested_bytes.all.peak": self.peak,
            },
        }
        for name, part in parts.items():
            monkeypatch.setattr(torch.cuda, name, part)

    def take(self, size: int) -> None:
        """Request memory, and free it."""
        self.peak = max(self.peak, self.now + size)


def watched_timing(fn: Callable[..., object], *args: object, calls: int = 2) -> Timing:
    first_calls = FirstCalls()
    fn = first_calls.watched(fn)
    for _ in range(calls):
        fn(*args)
    return first_calls.added_to(timing())


def test_memory_is_that_of_the_second_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call also has workspaces of compilers and libraries; later ones may be timed."""
    allocator = Allocator(monkeypatch)
    sizes = iter([5_000_000, 3_000_000, 9_000_000])
    assert watched_timing(lambda: allocator.take(next(sizes)), calls=3).peak_memory_mb == 3.0


def test_nothing_allocated_is_known_only_of_torchs_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    Allocator(monkeypatch)
    assert watched_timing(len, torch.ones(3)).peak_memory_mb == 0.0
    assert watched_timing(len, [3]).peak_memory_mb is None


def test_memory_of_another_allocator_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = Allocator(monkeypatch, "cudaMallocAsync")
    assert watched_timing(allocator.take, 8).peak_memory_mb is None


class Autotuner:
    """A stand-in for Triton's."""

    def __init__(self, fn: object) -> None:
        self.fn = fn
        self.best_config = ""

    def run(self, config: str) -> str:
        self.best_config = config
        return config


def square_kernel() -> None: ...


def test_chosen_configurations_are_kept_and_runs_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.runtime.autotuner", SimpleNamespace(Autotuner=Autotuner))
    tuner, run = Autotuner(square_kernel), Autotuner.run

    def call() -> None:
        # One configuration for each key.
        assert tuner.run("BLOCK: 64") == "BLOCK: 64"
        tuner.run("BLOCK: 32")

    assert watched_timing(call).autotuned == ("square_kernel: BLOCK: 32", "square_kernel: BLOCK: 64")
    assert Autotuner.run is run


def test_choice_of_torch_compile_has_the_arguments_of_its_template(monkeypatch: pytest.MonkeyPatch) -> None:
    class CachingAutotuner:
        """A stand-in for Inductor's, whose later calls replay a graph."""

        inductor_meta = {"kernel_name": "triton_tem_fused_mm_0", "config_args": {"BLOCK_M": 64}}
        launchers = (SimpleNamespace(config="num_warps: 4"),)

        def run(self, **given: Any) -> None: ...

    module = SimpleNamespace(CachingAutotuner=CachingAutotuner)
    monkeypatch.setitem(sys.modules, "torch._inductor.runtime.triton_heuristics", module)
    calls = iter([True, False])

    def call() -> None:
        if next(calls):
            CachingAutotuner().run(stream=0)
            other = CachingAutotuner()
            other.inductor_meta = {"kernel_name": "triton_mm"}
            other.run(benchmark_run=True)

    assert watched_timing(call).autotuned == ("triton_tem_fused_mm_0: BLOCK_M: 64, num_warps: 4",)
