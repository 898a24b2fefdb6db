"""Which launch of one file belongs to which of another, and what moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_gpuperf.measure.ncu.comparison import change_of, changes, pair_up, visibly_worse
from pytest_gpuperf.measure.ncu.report_file import ReportKernel

if TYPE_CHECKING:
    import random


def kernels(*names: str) -> list[ReportKernel]:
    """Launches by name; `gemm<64>` is the demangled name of a `gemm`."""
    return [
        ReportKernel(launch=i, name=name.partition("<")[0], demangled=name if "<" in name else "")
        for i, name in enumerate(names)
    ]


def paired(old: list[ReportKernel], new: list[ReportKernel]) -> list[tuple[int, int]]:
    return [(before.launch, after.launch) for before, after in pair_up(old, new).pairs]


def test_launches_of_a_kernel_are_paired_in_their_order() -> None:
    assert paired(kernels("a", "b", "a"), kernels("a", "a", "b")) == [(0, 0), (2, 1), (1, 2)]


def test_what_has_no_partner_is_left_over_on_its_side() -> None:
    found = pair_up(kernels("a", "b", "a"), kernels("c", "a"))
    assert [(before.launch, after.launch) for before, after in found.pairs] == [(0, 1)]
    assert [kernel.launch for kernel in found.only_old] == [1, 2]
    assert [kernel.launch for kernel in found.only_new] == [0]


def test_instances_of_a_template_do_not_change_places() -> None:
    assert paired(kernels("f<int>", "f<float>"), kernels("f<float>", "f<int>")) == [(1, 0), (0, 1)]


def test_a_kernel_whose_template_arguments_changed_is_still_the_same() -> None:
    assert paired(kernels("gemm<64>", "f<int>"), kernels("gemm<128>", "f<int>")) == [(0, 0), (1, 1)]


names = st.lists(st.sampled_from(["a", "b", "f<int>", "f<float>", "g"]), max_size=8)


@given(names, names)
def test_each_launch_is_in_one_pair_or_left_over(old: list[str], new: list[str]) -> None:
    before, after = kernels(*old), kernels(*new)
    found = pair_up(before, after)
    assert all(one.name == other.name for one, other in found.pairs)
    assert sorted([*(one.launch for one, _ in found.pairs), *(k.launch for k in found.only_old)]) == [
        *range(len(old))
    ]
    assert sorted([*(other.launch for _, other in found.pairs), *(k.launch for k in found.only_new)]) == [
        *range(len(new))
    ]
    # Nothing is left over on both sides that could be a pair.
    assert not {k.name for k in found.only_old} & {k.name for k in found.only_new}


@given(names, st.randoms(use_true_random=False))
def test_a_file_in_another_order_has_all_its_launches_in_pairs(old: list[str], order: random.Random) -> None:
    new = list(old)
    order.shuffle(new)
    found = pair_up(kernels(*old), kernels(*new))
    assert all((one.demangled, one.name) == (other.demangled, other.name) for one, other in found.pairs)
    assert len(found.pairs) == len(old)


@pytest.mark.parametrize(
    ("metric", "old", "new", "change_pct", "worse"),
    [
        ("duration_us", 50.0, 40.0, -20.0, False),
        ("duration_us", 50.0, 60.0, 20.0, True),
        ("memory_throughput", 50.0, 60.0, 20.0, False),
        ("memory_throughput", 50.0, 40.0, -20.0, True),
        ("memory_throughput", 50.0, 50.0, 0.0, None),
        ("stall.wait", 50.0, 60.0, 20.0, None),
        ("local_spill_instructions", 0.0, 8.0, None, True),
        ("local_spill_instructions", 0.0, 0.0, 0.0, None),
        ("some__metric.sum", 4.0, 5.0, 25.0, None),
        ("occupancy_limiter", "warps", "registers", None, None),
    ],
)
def test_a_change_has_a_size_and_a_direction(
    metric: str, old: float | str, new: float | str, change_pct: float | None, worse: bool | None
) -> None:
    (change,) = changes({metric: old}, {metric: new}, [metric])
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
        ("local_spill_instructions", 0.0, 1.0, True),
        ("l2_hit_rate", 1.0, 1.04, None),
        ("l2_hit_rate", 1.0, 1.06, False),
        ("l2_hit_rate", 50.0, 49.9, True),  # 0.2 % of it, and 0.1 points
        ("occupancy_limiter", "warps", "registers", None),
    ],
)
def test_what_rounding_may_have_done_is_not_visibly_worse(
    metric: str, old: float | str, new: float | str, worse: bool | None
) -> None:
    assert visibly_worse(change_of(metric, old, new)) is worse


def test_the_largest_mover_comes_first_and_percentages_count_by_points() -> None:
    old: dict[str, float | str] = {
        "l1_hit_rate": 0.1,
        "duration_us": 100.0,
        "registers_per_thread": 32.0,
        "local_spill_instructions": 0.0,
        "occupancy_limiter": "warps",
        "grid_size": 64.0,
    }
    new: dict[str, float | str] = {
        "l1_hit_rate": 1.1,  # by 1 point, though eleven times as much
        "duration_us": 120.0,
        "registers_per_thread": 64.0,
        "local_spill_instructions": 8.0,
        "occupancy_limiter": "warps",
        "grid_size": 64.0,
    }
    order = [change.metric for change in changes(old, new, list(old))]
    assert order[:4] == ["local_spill_instructions", "registers_per_thread", "duration_us", "l1_hit_rate"]


def test_a_metric_that_only_one_side_has_is_not_compared() -> None:
    assert changes({"duration_us": 1.0}, {"waves": 1.0}, ["duration_us", "waves"]) == []
