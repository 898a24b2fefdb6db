"""Findings of the first calls of a callable."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from present import present
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.first_calls import FirstCalls
from pytest_gpuperf.records.timing import CompilerWork
from run_builders import timing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


def test_garbage_of_earlier_tests_is_kept_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory, freed in a call, would hide as much of the call's own."""
    Allocator(monkeypatch)
    collects: list[bool] = []
    watched_timing(lambda: collects.append(gc.isenabled()))
    assert (collects, gc.isenabled()) == ([False, False], True)


def test_nothing_allocated_is_known_only_of_torchs_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    Allocator(monkeypatch)
    assert watched_timing(len, torch.ones(3)).peak_memory_mb == 0.0
    assert watched_timing(len, [3]).peak_memory_mb is None


def test_memory_that_torch_does_not_count_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched_timing(Allocator(monkeypatch, "cudaMallocAsync").take, 8).peak_memory_mb is None
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    assert watched_timing(Allocator(monkeypatch).take, 8).peak_memory_mb is None


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
        assert tuner.run("BLOCK: 64, maxnreg: None") == "BLOCK: 64, maxnreg: None"
        tuner.run("BLOCK: 32")

    assert watched_timing(call).autotuning.chosen == ("square_kernel: BLOCK: 32", "square_kernel: BLOCK: 64")
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

    assert watched_timing(call).autotuning.chosen == ("triton_tem_fused_mm_0: BLOCK_M: 64, num_warps: 4",)


def test_first_call_counts_beyond_the_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 2.5, 10.0, 10.5])
    monkeypatch.setattr(originals, "now", lambda: next(times))
    assert watched_timing(len, "abc", calls=5).compile_s == 2.0
    assert watched_timing(len, "abc", calls=0).compile_s is None


def test_further_compilation_for_other_arguments_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check may have smaller tensors than the timing."""
    times = iter([0.0, 2.5, 10.0, 10.5, 20.0, 24.0, 30.0, 31.0])
    monkeypatch.setattr(originals, "now", lambda: next(times))
    first_calls = FirstCalls()
    for fn in (first_calls.watched(len), first_calls.watched(len)):
        fn("abc")
        fn("abc")
    assert first_calls.added_to(timing()).compile_s == 5.0


def test_triton_tells_compiled_and_stored_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import triton
    from triton.backends.compiler import GPUTarget

    from autotuned_kernel import scale_kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    noted: list[bool] = []
    knobs = triton.knobs.compilation
    monkeypatch.setattr(knobs, "listener", lambda **facts: noted.append(facts["cache_hit"]))
    source = triton.compiler.ASTSource(
        scale_kernel.fn, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 64}
    )

    def call() -> None:
        triton.compile(source, target=GPUTarget("cuda", 80, 32))

    found = [watched_timing(call).first_call for _ in range(2)]
    assert [one.caches for one in found if one is not None] == ["cold", "warm"]
    assert present(found[0]).compilers["triton"].seconds > 0
    # Another listener hears all four calls, and stays.
    assert noted == [False, True, True, True]


def test_inductors_work_is_read_from_what_torch_has_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = {"inductor": Counter({"fxgraph_cache_miss": 7}), "aot_autograd": Counter()}
    utils = SimpleNamespace(cumulative_time_spent_ns={"inductor_compile": 3e9}, counters=counters)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)

    def call() -> None:
        utils.cumulative_time_spent_ns["inductor_compile"] += 2e9
        counters["inductor"]["fxgraph_cache_miss"] += 1
        counters["aot_autograd"]["autograd_cache_hit"] += 2

    first_call = present(watched_timing(call).first_call)
    assert first_call.compilers == {"inductor": CompilerWork(seconds=2.0, compiled=1, cached=2)}
    counters["inductor"].update(fxgraph_cache_miss=-5)
    assert present(watched_timing(utils.cumulative_time_spent_ns.clear).first_call).compilers == {}


CUPY, BOTH = "cupy.cuda.compiler", ("_compile_using_nvrtc_no_warning", "compile_using_nvrtc")


@pytest.mark.parametrize(
    ("module", "names"), [(CUPY, BOTH), (CUPY, BOTH[1:]), ("torch.cuda._utils", ("_nvrtc_compile",))]
)
def test_nvrtc_is_counted(module: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(**dict.fromkeys(names, lambda source: f"{source}.ptx"))
    monkeypatch.setitem(sys.modules, module, library)
    name, compiles = names[0], getattr(library, names[0])

    def call() -> None:
        assert getattr(library, name)("k") == "k.ptx"

    assert present(watched_timing(call).first_call).compilers["nvrtc"].compiled == 1
    assert getattr(library, name) is compiles
