"""Pairs of launches from two files, and their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.features.compare.pairing import pair_up
from pytest_gpuperf.features.compare.value_change import change_of, size_of, visibly_worse
from pytest_gpuperf.features.ncu.comparison import compare_kernels
from pytest_gpuperf.features.ncu.report_file import ReportKernel

if TYPE_CHECKING:
    import random


def kernels(*names: str) -> list[ReportKernel]:
    """Return launches with these names; `gemm<64>` is the demangled name of a `gemm`."""
    return [
        ReportKernel(launch=i, name=name.partition("<")[0], demangled=name if "<" in name else "")
        for i, name in enumerate(names)
    ]


def rows(old: list[ReportKernel], new: list[ReportKernel]) -> list[tuple[int | None, int | None]]:
    """Return pairs of launch numbers; None for a side without the launch."""
    found = pair_up([old, new], lambda kernel: kernel.demangled or kernel.name, lambda kernel: kernel.name)
    return [(row.get(0), row.get(1)) for row in found]


def test_launches_of_a_kernel_are_paired_in_order() -> None:
    assert rows(kernels("a", "b", "a"), kernels("a", "a", "b")) == [(0, 0), (1, 2), (2, 1)]


def test_launch_without_partner_has_a_row_of_its_own() -> None:
    assert rows(kernels("a", "b", "a"), kernels("c", "a")) == [(0, 1), (1, None), (2, None), (None, 0)]


def test_instances_of_a_template_do_not_change_places() -> None:
    assert rows(kernels("f<int>", "f<float>"), kernels("f<float>", "f<int>")) == [(0, 1), (1, 0)]


def test_kernel_with_changed_template_arguments_keeps_its_partner() -> None:
    assert rows(kernels("gemm<64>", "f<int>"), kernels("gemm<128>", "f<int>")) == [(0, 0), (1, 1)]


names = st.lists(st.sampled_from(["a", "b", "f<int>", "f<float>", "g"]), max_size=8)


@given(names, names)
def test_each_launch_is_in_exactly_one_row(old: list[str], new: list[str]) -> None:
    before, after = kernels(*old), kernels(*new)
    found = rows(before, after)
    pairs = [(one, other) for one, other in found if one is not None and other is not None]
    assert all(before[one].name == after[other].name for one, other in pairs)
    assert sorted(one for one, _ in found if one is not None) == [*range(len(old))]
    assert sorted(other for _, other in found if other is not None) == [*range(len(new))]
    lone_old = {before[one].name for one, other in found if one is not None and other is None}
    lone_new = {after[other].name for one, other in found if one is None and other is not None}
    assert not lone_old & lone_new


@given(names, st.randoms(use_true_random=False))
def test_reordered_file_is_paired_completely(old: list[str], order: random.Random) -> None:
    new = list(old)
    order.shuffle(new)
    found = rows(kernels(*old), kernels(*new))
    assert len(found) == len(old)
    assert all(one is not None and other is not None and old[one] == new[other] for one, other in found)


@pytest.mark.parametrize(
    ("metric", "old", "new", "change_pct", "worse"),
    [
        ("duration_us", 50.0, 40.0, -20.0, False),
        ("duration_us", 50.0, 60.0, 20.0, True),
        ("memory_throughput", 50.0, 60.0, 20.0, False),
        ("memory_throughput", 50.0, 40.0, -20.0, True),
        ("memory_throughput", 50.0, 49.96, -0.08, None),  # shown as 0.0 points
        ("duration_us", 1000.0, 1000.4, 0.04, None),  # shown as 0.0 %
        ("stall.wait", 50.0, 60.0, 20.0, None),
        ("local_spill_instructions", 0.0, 8.0, None, True),
        ("local_spill_instructions", 0.0, 0.0, 0.0, None),
        ("some__metric.sum", 4.0, 5.0, 25.0, None),
        ("occupancy_limiter", "warps", "registers", None, None),
    ],
)
def test_change_has_a_size_and_a_direction(
    metric: str, old: float | str, new: float | str, change_pct: float | None, worse: bool | None
) -> None:
    change = change_of(metric, old, new)
    assert (change.baseline, change.actual) == (old, new)
    assert change.change_pct == (None if change_pct is None else pytest.approx(change_pct))
    assert change.worse is worse


@pytest.mark.parametrize(
    ("metric", "old", "new", "worse"),
    [
        ("duration_us", 1000.0, 1005.0, None),
        ("duration_us", 1000.0, 1005.1, True),
        ("duration_us", 1000.0, 994.9, False),
        ("shared_memory.driver", 1024.0, 1020.0, None),
        ("l2_hit_rate", 1.0, 1.04, None),
        ("l2_hit_rate", 1.0, 1.06, False),
        ("l2_hit_rate", 50.0, 49.9, True),  # 0.2 % of the value, and 0.1 points
    ],
)
def test_rounding_is_not_worse(metric: str, old: float | str, new: float | str, worse: bool | None) -> None:
    assert visibly_worse(change_of(metric, old, new)) is worse


def test_percentages_are_sorted_by_points() -> None:
    sides: dict[str, tuple[float | str, float | str]] = {
        "l1_hit_rate": (0.1, 1.1),  # 1 point more, but eleven times as much
        "duration_us": (100.0, 120.0),
        "registers_per_thread": (32.0, 64.0),
        "local_spill_instructions": (0.0, 8.0),
        "occupancy_limiter": ("warps", "warps"),
        "grid_size": (64.0, 64.0),
    }
    found = [change_of(name, *both) for name, both in sides.items()]
    order = [change.metric for change in sorted(found, key=size_of, reverse=True)]
    assert order[:4] == ["local_spill_instructions", "registers_per_thread", "duration_us", "l1_hit_rate"]


def test_metric_of_one_side_only_is_not_compared() -> None:
    old = ReportKernel(launch=0, name="a", metrics={"duration_us": 1.0})
    new = ReportKernel(launch=0, name="a", metrics={"waves": 1.0})
    assert compare_kernels([old], [new], ["duration_us", "waves"], ("a", "b")).lines == ()
