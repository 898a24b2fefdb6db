"""Calls on several ranks: here processes that meet through gloo, on the CPU."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import forked
import ranked_calls as calls
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.ranks import team as team_module
from pytest_gpuperf.features.ranks.aggregation import correctness_of, timing_of
from pytest_gpuperf.features.ranks.callable_transfer import packed
from pytest_gpuperf.features.ranks.messages import Check, Time
from pytest_gpuperf.features.ranks.team import Team
from pytest_gpuperf.records.call import Reference
from suites.kernels import collectives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_gpuperf.records import Correctness
    from pytest_gpuperf.records.ranks import Collective

SEED = 7


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    """Make two ranks for all tests of this file; those that end are replaced."""
    with pytest.MonkeyPatch.context() as patch:
        forked.fork_children(patch.setattr, team_module)
        patch.setattr(team_module, "GRACE_S", 0.3)
        two = Team(2, "cpu", silence_s=20)
        yield two
        two.end()


def check(team: Team, fn: Callable[..., Any], inputs: Any = calls.inputs, **tolerances: Any) -> Correctness:
    work = packed({"fn": fn, "inputs": inputs, "expected": calls.total}, SEED)
    return correctness_of(team.ask(Check(work, Reference(None, **tolerances))))


@pytest.mark.parametrize("kind", collectives.COLLECTIVES)
def test_collectives_of_the_suite(team: Team, kind: Collective) -> None:
    work: dict[str, Callable[..., Any]] = {
        "fn": collectives.COLLECTIVES[kind],
        "inputs": partial(collectives.buffers, kind, 800),
        "expected": partial(collectives.collected, kind, 800),
    }
    found = correctness_of(team.ask(Check(packed(work, SEED), Reference(None, mutates=(0,)))))
    assert (found.passed, found.low_signal) == (True, "")


@pytest.mark.parametrize("product", [collectives.gathered_product, collectives.overlapped_product])
def test_products_of_the_suite(team: Team, product: Callable[..., Any]) -> None:
    work: dict[str, Callable[..., Any]] = {
        "fn": product,
        "inputs": partial(collectives.shards, 8, 6, 16),
        "expected": partial(collectives.product_of_all, 8, 6, 16),
    }
    found = correctness_of(team.ask(Check(packed(work, SEED), Reference(None, rtol=2**-7, atol=0.01))))
    assert (found.passed, found.elements) == (True, 2 * 16 * 6)


def test_output_in_an_argument(team: Team) -> None:
    assert check(team, calls.in_place, mutates=(0,)).passed


def test_element_that_is_never_written(team: Team) -> None:
    failure = check(team, calls.half_written).failure
    assert "1 of 1000 elements is never written, the first at [999]" in failure


def test_factory_without_arguments(team: Team) -> None:
    with pytest.raises(
        GpuperfError, match=r"rank \d of 2 raised inputs= returned a Tensor; expected a tuple"
    ):
        check(team, calls.all_reduce, inputs=calls.bare_input)


def test_time_is_that_of_the_slowest_rank(team: Team) -> None:
    work = packed({"fn": calls.sleeps_longer_on_rank_1, "inputs": calls.inputs}, SEED)
    answers = team.ask(Time(work, budget_s=0.01))
    timing = timing_of(answers, on_gpu=False, collective="all_reduce", bytes=4 * calls.N, flops=0)
    assert timing.ranks is not None
    assert (timing.mode, timing.source, len(timing.ranks.ranks)) == ("host", "host", 2)
    assert timing.time_us > 8000
    assert timing.ranks.smallest_us < 0.7 * timing.ranks.largest_us
    assert timing.ranks.skew_us > 3000
    assert timing.bus_gb_per_s == timing.gb_per_s


def test_exception_of_a_rank(team: Team) -> None:
    with pytest.raises(
        GpuperfError, match=r"^rank 1 of 2 raised ValueError: a bad shape \(ranked_calls.py:\d+\)"
    ):
        check(team, calls.raises)
    assert check(team, calls.all_reduce).passed


def test_rank_that_hangs(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "_silence_s", 0.5)
    hangs = r"ranks 0 and 1 of 2 gave no sign of life .*; rank 1 is in _hang \(ranked_calls.py:\d+\)"
    with pytest.raises(GpuperfError, match=hangs):
        check(team, calls.hangs)
    assert not team.alive


def test_session_that_ends_leaves_no_rank(team: Team) -> None:
    check(team, calls.all_reduce)
    pids = [rank._process.pid for rank in team._ranks]
    for rank in team._ranks:
        rank.session.close()
    for rank in team._ranks:
        rank._process.wait(10)
    team._ranks.clear()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
