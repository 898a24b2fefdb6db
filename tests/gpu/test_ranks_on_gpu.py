"""Calls on several GPUs, through NCCL; with one GPU, on one rank."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch

import ranked_calls as calls
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ranks.aggregation import correctness_of, timing_of
from pytest_gpuperf.features.ranks.callable_transfer import packed
from pytest_gpuperf.features.ranks.messages import Check, Time
from pytest_gpuperf.features.ranks.team import Team
from pytest_gpuperf.records.call import Reference
from suites.kernels import collectives, symmetric_sum
from suites.products import BFLOAT16_RTOL, accumulation_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf.records import Timing

GPUS = torch.cuda.device_count()
two_gpus = pytest.mark.skipif(GPUS < 2, reason="needs 2 GPUs")
SEED = 7
SIZE = 64 * 2**20
PRODUCT = (4096, 8192, 8192)


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    """Start two ranks, or one, for all tests of this file; those that end are replaced."""
    some = Team(min(GPUS, 2), silence_s=120)
    yield some
    some.end()


def check(team: Team, fn: Any, inputs: Any, expected: Any, **tolerances: Any) -> None:
    work = packed({"fn": fn, "inputs": inputs, "expected": expected}, SEED)
    found = correctness_of(team.ask(Check(work, Reference(None, **tolerances))))
    assert found.passed, found.failure


def time(team: Team, fn: Any, inputs: Any, **sizes: Any) -> Timing:
    answers = team.ask(Time(packed({"fn": fn, "inputs": inputs}, SEED), 0.2))
    return timing_of(answers, on_gpu=True, **{"collective": "", "bytes": 0, "flops": 0, **sizes})


def test_a_sum_is_right_and_timed(team: Team) -> None:
    check(team, calls.all_reduce, calls.inputs, calls.total)
    inputs = partial(collectives.buffers, "all_reduce", SIZE)
    timing = time(team, calls.all_reduce, inputs, collective="all_reduce", bytes=SIZE)
    assert (timing.mode, timing.source) == ("queued", "events")
    assert timing.ranks is not None
    assert len(timing.ranks.ranks) == team.world
    assert not timing.ranks.late
    assert timing.spread_pct < 20
    assert timing.conditions is not None
    assert timing.conditions.other_processes == 0


@two_gpus
def test_bandwidth_and_communication_of_a_sum(team: Team) -> None:
    inputs = partial(collectives.buffers, "all_reduce", SIZE)
    timing = time(team, collectives.all_reduce, inputs, collective="all_reduce", bytes=SIZE)
    assert timing.ranks is not None
    assert timing.bus_gb_per_s is not None
    # PCIe of 2012 to NVLink of the next generation.
    assert 5 < timing.bus_gb_per_s < 2000
    for rank in timing.ranks.ranks:
        # It does nothing else, and ends after the barrier's kernel.
        assert rank.communication_us == pytest.approx(rank.exposed_us)
        assert rank.communication_us == pytest.approx(timing.time_us, rel=0.2)
    assert timing.ranks.skew_us < 0.2 * timing.time_us


@two_gpus
@pytest.mark.parametrize("kind", collectives.COLLECTIVES)
def test_collectives_of_the_suite(team: Team, kind: Any) -> None:
    inputs, expected = (partial(each, kind, SIZE) for each in (collectives.buffers, collectives.collected))
    check(team, collectives.COLLECTIVES[kind], inputs, expected, mutates=(0,))


@two_gpus
def test_sum_over_symmetric_memory(team: Team) -> None:
    inputs = partial(symmetric_sum.symmetric_buffer, 2**20)
    expected = partial(collectives.collected, "all_reduce", 2**20)
    check(team, symmetric_sum.symmetric_sum, inputs, expected)
    timing = time(team, symmetric_sum.symmetric_sum, inputs)
    assert timing.ranks is not None
    assert timing.ranks.ranks[0].gpu_busy_us > 0


@two_gpus
def test_overlapped_product_exposes_less_communication(team: Team) -> None:
    inputs, expected = (partial(each, *PRODUCT) for each in (collectives.shards, collectives.product_of_all))
    exposed = []
    for product in (collectives.gathered_product, collectives.overlapped_product):
        check(team, product, inputs, expected, rtol=BFLOAT16_RTOL, atol=accumulation_error(PRODUCT[2]))
        exposed.append(time(team, product, inputs).exposed_us or 0.0)
    assert exposed[1] < exposed[0]


@two_gpus
@pytest.mark.parametrize(
    ("fn", "found"),
    [
        (calls.raises, "rank 1 of 2 raised ValueError: a bad shape"),
        (calls.dies, "rank 1 of 2 was ended by SIGKILL while it calls; its last line: no more memory"),
    ],
)
def test_ranks_are_replaced(team: Team, fn: Callable[..., Any], found: str) -> None:
    with pytest.raises(GpuperfError, match=found):
        check(team, fn, calls.inputs, calls.total)
    check(team, calls.all_reduce, calls.inputs, calls.total)


@two_gpus
def test_rank_that_does_not_join_a_sum(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    check(team, calls.all_reduce, calls.inputs, calls.total)
    monkeypatch.setattr(team, "_silence_s", 5)
    with pytest.raises(GpuperfError, match="gave no sign of life for 5 s"):
        check(team, calls.hangs, calls.inputs, calls.total)


def test_in_a_run(pytester: pytest.Pytester, team: Team) -> None:
    team.end()  # its processes would be others on the GPU
    # This one is, if a test before has used it.
    others = int(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
    pytester.makepyfile(
        test_k=f"""
        import pytest, torch
        from torch import distributed

        def inputs(rank, world, seed):
            torch.manual_seed(seed * world + rank)
            return (torch.rand(2**20),)

        def total(rank, world, seed):
            return sum(inputs(each, world, seed)[0] for each in range(world))

        def sum_of_copies(x):
            y = x.clone()  # a sum in place of one rank does nothing
            distributed.all_reduce(y)
            return y

        @pytest.mark.parametrize(
            "ranks", [pytest.param(n, marks=pytest.mark.gpuperf(gpus=n)) for n in (1, 64)]
        )
        def test_sum(gpuperf_ranks, ranks):
            gpuperf_ranks(sum_of_copies, inputs=inputs, expected=total, bytes=2**22)

        def test_on_one_gpu(gpuperf):
            timing = gpuperf.time(torch.relu, torch.rand(2**20, device=gpuperf.device))
            assert timing.conditions.other_processes == {others}
        """
    )
    result = pytester.runpytest_subprocess("--gpuperf", "--gpuperf-counters=off", "-rs")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines([f"*needs 64 GPUs, and torch sees {GPUS}*"])
