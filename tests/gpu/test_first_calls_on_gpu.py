"""Facts that the first calls of a callable tell, by the real allocator, autotuners and compilers."""

from __future__ import annotations

import time
from fnmatch import fnmatch
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch

from pytest_gpuperf.compat.torch_names import templates_pinned
from pytest_gpuperf.measure.first_calls import FirstCalls
from run_builders import timing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.records import Timing


def watched_timing(fn: Callable[..., object], *args: object) -> Timing:
    first_calls = FirstCalls()
    watched = first_calls.watched(fn)
    watched(*args)
    watched(*args)
    return first_calls.added_to(timing())


def test_memory_is_exact_whatever_the_allocator_has_kept() -> None:
    x = torch.ones(1_000_000, device="cuda")

    def twice(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) * 2  # the sum is still there when the product is made

    found = []
    for kept in (0, 9_000_000):
        held = torch.empty(kept, dtype=torch.uint8, device="cuda")
        del held
        found.append(watched_timing(twice, x).peak_memory_mb)
    assert found == [8.0, 8.0]
    assert watched_timing(torch.Tensor.add_, x, 1).peak_memory_mb == 0.0


def test_chosen_configuration_of_a_triton_kernel_is_recorded() -> None:
    from autotuned_kernel import scale

    (chosen,) = watched_timing(scale, torch.randn(1 << 20, device="cuda")).autotuning.chosen
    assert chosen.startswith("scale_kernel: BLOCK: ")


def test_compilers_tell_cold_from_warm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from autotuned_kernel import scale, scale_kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x, found = torch.randn(1 << 10, device="cuda"), []
    for _ in range(2):
        scale_kernel.fn.device_caches.clear()
        found.append(watched_timing(scale, x).first_call)
    cold, warm = found
    assert cold is not None
    assert warm is not None
    assert (cold.caches, warm.caches) == ("cold", "warm")
    assert cold.seconds > cold.compilers["triton"].seconds > warm.compilers["triton"].seconds


@pytest.mark.parametrize(("module", "name"), [("torch.cuda", "_compile_kernel"), ("cupy", "RawKernel")])
def test_nvrtc_is_named_with_its_seconds(module: str, name: str) -> None:
    compiles = getattr(pytest.importorskip(module), name)
    source = f'extern "C" __global__ void nothing() {{}} // {time.time_ns()}'  # which is on no disk
    kernel = cache(lambda: compiles(source, "nothing"))
    found = watched_timing(lambda: kernel()((1, 1, 1), (1, 1, 1), [])).first_call
    assert found is not None
    assert found.caches == "cold"
    assert 0 < found.compilers["nvrtc"].seconds <= found.seconds


def test_chosen_template_of_torch_compile_is_recorded_and_pinned() -> None:
    """Where Triton's template loses to cuBLAS, it is the only candidate."""
    torch._dynamo.reset()
    options: dict[str, Any] = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    product = torch.compile(torch.mm, options=options)
    a = torch.randn(512, 512, device="cuda", dtype=torch.float16)
    (chosen,) = watched_timing(product, a, a).autotuning.chosen
    assert chosen.startswith("triton_tem_")
    assert "num_warps: " in chosen
    other = "BLOCK_M: 64" if "BLOCK_M: 32" in chosen else "BLOCK_M: 32"
    with templates_pinned({chosen.partition(": ")[0]: other}):
        (pinned,) = watched_timing(product, a, a).autotuning.chosen
    assert other in pinned
    assert watched_timing(product, a, a).autotuning.chosen == (chosen,)


FLIP = """
import os
import torch, triton
import triton.language as tl

def one_of(configs, *_, **__):
    return [configs[os.path.exists("flip")]]

@triton.autotune(
    configs=[triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 32})],
    key=["n"],
    prune_configs_by={"early_config_prune": one_of},
)
@triton.jit
def scale_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

def scale(x):
    out = torch.empty_like(x)
    scale_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out

def test_scale(gpuperf):
    gpuperf.time(scale, torch.rand(1 << 24, device=gpuperf.device))
"""


TEMPLATE_FLIP = """
import os
import torch
from torch._inductor import config

if os.path.exists("flip"):
    config.test_configs.autotune_choice_desc_regex = "BLOCK_M=32,"

def test_product(gpuperf):
    options = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    a = torch.randn(4096, 4096, device=gpuperf.device, dtype=torch.float16)
    gpuperf.time(torch.compile(torch.mm, options=options), a, a)
"""


@pytest.mark.parametrize(("flip", "chosen"), [(FLIP, "BLOCK 32"), (TEMPLATE_FLIP, "*BLOCK_M 32*")])
def test_baseline_choice_is_timed_in_the_new_code(pytester: pytest.Pytester, flip: str, chosen: str) -> None:
    pytester.makepyfile(test_flip=flip)
    options = ("--gpuperf", "--gpuperf-counters=off", "-o", "gpuperf_settle_seconds=0", "-v")
    pytester.runpytest_subprocess(*options, "--gpuperf-update=all").assert_outcomes(passed=1)
    (pytester.path / "flip").touch()
    done = pytester.runpytest_subprocess(*options)
    chose = f"*autotuner chose {chosen}; the baseline's *, with which this code takes * µs; * % slower*"
    # A narrow terminal would break the line.
    assert fnmatch(" ".join(done.stdout.str().split()), chose)
