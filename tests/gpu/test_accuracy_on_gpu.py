"""Errors in ULP and the physical floor on a real GPU."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from msgspec.structs import replace

from pytest_gpuperf.judge.accuracy import compare_accuracy
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.judge.time_lower_bound import floor_of, impossible_time
from pytest_gpuperf.measure import correctness
from pytest_gpuperf.measure.correctness import check
from pytest_gpuperf.measure.correctness.accuracy import accuracy_of
from pytest_gpuperf.measure.correctness.call_tensors import argument_bytes
from pytest_gpuperf.measure.device.conditions import Nvml
from pytest_gpuperf.measure.device.gpu_identity import gpu_info
from pytest_gpuperf.measure.timing.timer import Timer
from pytest_gpuperf.records import Measurement

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.records import Accuracy, GpuInfo

LOOSE = {"rtol": 0.1, "atol": 10.0}
N = 2048


@pytest.fixture
def matrices(_seed_restored: None) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(N, N, device="cuda"), torch.randn(N, N, device="cuda")


@pytest.fixture
def gpu() -> GpuInfo:
    found = gpu_info()
    return replace(found, dram_gb_per_s=Nvml(found.uuid).dram_gb_per_s)


def accuracy(fn: Callable[..., object], *args: Any, expected: Callable[..., object] = torch.mm) -> Accuracy:
    found = check(fn, args, {}, expected=expected, **LOOSE).accuracy  # type: ignore[arg-type]
    assert found is not None
    return found


def in_tf32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return a @ b
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def in_bfloat16(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.bfloat16() @ b.bfloat16()).float()


@pytest.mark.parametrize(("fn", "name"), [(in_tf32, "TF32"), (in_bfloat16, "bfloat16")])
def test_silent_change_of_a_product_is_a_regression(
    matrices: tuple[torch.Tensor, torch.Tensor], fn: Callable[..., object], name: str
) -> None:
    (finding,) = compare_accuracy(accuracy(fn, *matrices), accuracy(torch.mm, *matrices))
    assert finding.status is Status.REGRESSED
    assert name in finding.details[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_product_in_a_short_type_is_almost_correctly_rounded(
    matrices: tuple[torch.Tensor, torch.Tensor], dtype: torch.dtype
) -> None:
    found = accuracy(torch.mm, *(matrix.to(dtype) for matrix in matrices))
    assert (found.reference, found.same_bits) == ("float64", True)
    assert found.rms_ulp is not None
    assert found.rms_ulp < 0.35


@pytest.mark.usefixtures("_seed_restored")
def test_atomic_additions_give_other_bits() -> None:
    torch.manual_seed(0)
    index = torch.randint(0, 100, (1 << 20,), device="cuda")
    values = torch.randn(1 << 20, device="cuda")

    def add(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(100, device="cuda", dtype=values.dtype).index_add_(0, index, values)

    found = [accuracy(add, index, values, expected=add) for _ in range(5)]
    assert not any(one.same_bits for one in found)
    assert not [finding for one in found for finding in compare_accuracy(one, found[0])]


def test_accuracy_costs_little_of_a_check(
    matrices: tuple[torch.Tensor, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = []
    measure = accuracy_of

    def timed(*args: Any) -> Accuracy:
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = measure(*args)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
        return found

    monkeypatch.setattr(correctness, "accuracy_of", timed)
    accuracy(torch.mm, *matrices)
    accuracy(torch.mm, *matrices)
    # A test takes seconds: it warms up, and times for a second or more.
    assert seconds[-1] < 0.05


def timer() -> Timer:
    info = gpu_info()
    nvml = Nvml(info.uuid)
    return Timer(info.l2_bytes, 0.3, nvml.conditions, max_sm_clock_mhz=nvml.max_sm_clock_mhz)


def measured(fn: Callable[..., object], *args: Any, mode: str = "hot", bytes: int) -> Measurement:
    timing = timer().time(lambda: fn(*args), mode=mode, bytes=bytes)
    return Measurement(
        correctness=check(fn, args, {}, expected=fn),
        timing=replace(timing, work=replace(timing.work, argument_bytes=argument_bytes(args, {}))),
    )


def test_kept_result_is_impossible(gpu: GpuInfo) -> None:
    kept: list[torch.Tensor] = []
    flag = torch.zeros(1, device="cuda")

    def memoised(x: torch.Tensor) -> torch.Tensor:
        if not kept:
            kept.append(x * 2)
        flag.add_(1)
        return kept[0]

    x = torch.ones(1 << 26, device="cuda")
    found = impossible_time(measured(memoised, x, bytes=2 * x.nbytes), gpu)
    assert found is not None
    assert "of bytes=" in found.line


@pytest.mark.parametrize("mode", ["hot", "cold"])
@pytest.mark.parametrize("mib", [16, 64, 512])
def test_copy_is_possible_at_every_size(gpu: GpuInfo, mib: int, mode: str) -> None:
    x = torch.ones(mib << 18, device="cuda")
    found = measured(torch.clone, x, mode=mode, bytes=2 * x.nbytes)
    assert found.correctness is not None
    assert found.correctness.written_bytes == x.nbytes
    assert impossible_time(found, gpu) is None
    floor = floor_of(found, gpu)
    assert floor is not None
    assert found.timing is not None
    # A copy is near enough to the floor for the floor to be worth something.
    assert floor.time_us > found.timing.time_us / 8


def test_product_on_tensor_cores_is_possible(gpu: GpuInfo) -> None:
    a = torch.zeros(8192, 8192, device="cuda", dtype=torch.float8_e4m3fn)
    one = torch.ones((), device="cuda")

    def product(a: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch._scaled_mm(a, a.t(), one, one, out_dtype=torch.bfloat16)
        return found

    timing = timer().time(lambda: product(a), mode="hot", flops=2 * 8192**3)
    found = Measurement(timing=timing)
    assert impossible_time(found, gpu) is None
    floor = floor_of(found, gpu)
    assert floor is not None
    assert floor.time_us > timing.time_us / 6
