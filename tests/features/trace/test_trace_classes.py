"""Classes of kernels by name and launch facts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.features.trace.kernel_classes import classify
from pytest_gpuperf.features.trace.kernel_name_patterns import kind_of, tensor_cores_of
from pytest_gpuperf.records import TracedKernel

if TYPE_CHECKING:
    from collections.abc import Iterator


def row(
    name: str = "k", calls: int = 1, mean_us: float = 100.0, blocks_per_sm: float = 8.0,
    waves: float | None = 4.0, share_pct: float = 10.0,
) -> TracedKernel:  # fmt: skip
    return TracedKernel(
        name=name,
        calls=calls,
        total_us=calls * mean_us,
        mean_us=mean_us,
        share_pct=share_pct,
        blocks_per_sm=blocks_per_sm,
        waves=waves,
    )


def names() -> Iterator[tuple[str, str, str]]:
    """Yield each name of the corpus with its kind of work, and its use of tensor cores."""
    kind = tensor = ""
    for line in (Path(__file__).parents[2] / "data" / "kernel_names.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            kind, tensor = line.strip("[]").split()
        elif not line.startswith("#"):
            yield line, kind.removeprefix("unknown"), tensor


CASES = list(names())


@pytest.mark.parametrize(("name", "kind", "tensor"), CASES, ids=[name[:60] for name, _, _ in CASES])
def test_names_of_the_libraries_are_known(name: str, kind: str, tensor: str) -> None:
    assert (kind_of(name), str(tensor_cores_of(name))) == (kind, tensor)


def test_persistent_kernel_with_most_time_is_the_core() -> None:
    persistent = row("matmul_persistent", blocks_per_sm=1.0, waves=0.97, share_pct=80.0)
    assert classify([persistent]) == ["large_core"]


def test_small_kernel_needs_many_launches_to_be_frequent() -> None:
    rows = [row("gemm"), row("gemm_s", calls=3, mean_us=5.0, blocks_per_sm=0.5, waves=0.1)]
    assert classify(rows) == ["large_core", "other"]
    rows[1] = row("gemm_s", calls=30, mean_us=5.0, blocks_per_sm=0.5, waves=0.1)
    assert classify(rows) == ["large_core", "small_frequent"]


def test_small_kernels_of_many_names_are_frequent_together() -> None:
    rows = [row(f"nvjet_{n}", calls=2, mean_us=5.0 + n / 2, blocks_per_sm=0.7, waves=0.7) for n in range(3)]
    assert classify(rows) == ["small_frequent"] * 3
    assert "small_frequent" not in classify(rows[:1])


def test_short_kernels_below_one_wave_are_small() -> None:
    rows = [row("gemm", 8), row("gemm_of_a_head", 36, 9.0, blocks_per_sm=1.94, waves=0.48)]
    assert classify(rows) == ["large_core", "small_frequent"]
    # Without waves, the number of blocks that fit on the GPU is unknown.
    rows[1] = row("gemm_of_a_head", 36, 9.0, blocks_per_sm=1.94, waves=None)
    assert classify(rows) == ["large_core", "other"]


def test_long_kernel_of_few_blocks_is_not_frequent() -> None:
    rows = [row("gemm"), row("gemm_s", 36, 9.0, 0.5, 0.1), row("gemm_l", 1, 77.0, 0.73, 0.36)]
    assert classify(rows) == ["large_core", "small_frequent", "medium_auxiliary"]


def test_nearly_full_grid_is_not_small() -> None:
    rows = [row("nvjet_a", 12, 20.0, 1.0, 1.0), row("nvjet_b", 12, 12.0, 128 / 132, 128 / 132)]
    assert classify(rows) == ["medium_auxiliary", "medium_auxiliary"]


def test_persistent_products_next_to_communication_are_not_small() -> None:
    waves = 112 / 132
    rows = [row(f"fp8_gemm_{n}", 58, mean, waves, waves, 8.0) for n, mean in enumerate((400.0, 200.0, 90.0))]
    assert "small_frequent" not in classify(rows)


def test_one_rare_long_kernel_does_not_make_the_others_short() -> None:
    rows = [row("gemm", calls=100), row("gemm_once", mean_us=500.0)]
    assert classify(rows) == ["large_core", "large_core"]


def test_without_waves_blocks_for_each_sm_decide() -> None:
    rows = [row("a", waves=None, blocks_per_sm=6.0), row("b", waves=None, blocks_per_sm=2.0)]
    assert classify(rows) == ["large_core", "medium_auxiliary"]


def test_classes_do_not_depend_on_gpu_speed() -> None:
    rows = [row("a", 8), row("b", 90, 40, 0.2, 0.1), row("c", 2, 95.0, 3.0, 0.8), row("d", 1, 2.0, 3.0, 0.8)]
    slower = [row(r.name, r.calls, r.mean_us * 7, r.blocks_per_sm, r.waves) for r in rows]
    assert classify(rows) == classify(slower) == ["large_core", "small_frequent", "medium_auxiliary", "other"]
