"""Tests with `gpuperf_ranks` in a run: live on two ranks of the CPU, replayed, and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest

from present import present
from pytest_gpuperf.records import Measurement
from pytest_gpuperf.records.ranks import RankTime, RankTimes
from run_builders import measured, record, run, timing
from run_results import expect
from session_builders import run_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from runs_of_pytest import AddRecording

FAKES = ("-p", "fake_gpu", "-p", "fake_ranks")
LIVE = (*FAKES, "--gpuperf", "--gpuperf-counters=off", "-ogpuperf_budget=0.01", "-rs")
CALLS = """
import os, sys
import pytest

def inputs(rank, world, seed):
    import torch
    torch.manual_seed(seed * world + rank)
    return (torch.rand(100),)

def total(rank, world, seed):
    return sum(inputs(each, world, seed)[0] for each in range(world))

def add_up(x):
    from torch import distributed
    y = x.clone()
    distributed.all_reduce(y)
    return y

def die(x):
    from torch import distributed
    if distributed.get_rank() == 1:
        sys.stderr.write("no more memory")
        sys.stderr.flush()
        os._exit(3)
    return add_up(x)

def wrong(x):
    return add_up(x) + 1

"""
SUM = """
@pytest.mark.gpuperf(gpus=2)
def test_sum(gpuperf_ranks):
    gpuperf_ranks(add_up, inputs=inputs, expected=total, collective="all_reduce", bytes=400)
"""


@pytest.fixture
def live(pytester: pytest.Pytester, fake_gpu_runs: None) -> pytest.Pytester:
    """Make a project that runs on the fake GPU."""
    return pytester


def test_failures_cost_only_their_own_tests(live: pytest.Pytester) -> None:
    live.makepyfile(
        test_k=f"""{CALLS}{SUM}
@pytest.mark.gpuperf(gpus=2)
@pytest.mark.parametrize("fn", [die, wrong])
def test_broken(gpuperf_ranks, fn):
    gpuperf_ranks(fn, inputs=inputs, expected=total)

@pytest.mark.gpuperf(gpus=3)
def test_too_many(gpuperf_ranks):
    gpuperf_ranks(add_up, inputs=inputs, expected=total)

@pytest.mark.gpuperf(gpus=2)
def test_lambda(gpuperf_ranks):
    gpuperf_ranks(lambda x: x, inputs=inputs, expected=total)

def test_no_number(gpuperf_ranks):
    gpuperf_ranks(add_up, inputs=inputs, expected=total)

def test_one_gpu(gpuperf):
    gpuperf.time(lambda: 5.0)

@pytest.mark.gpuperf(gpus=2)
def test_after(gpuperf_ranks):
    assert gpuperf_ranks.check(add_up, inputs=inputs, expected=total).elements == 200
"""
    )
    result = live.runpytest_subprocess(*LIVE)
    result.assert_outcomes(passed=3, failed=4, skipped=1)
    result.stdout.fnmatch_lines_random(
        [
            "*gpuperf: rank 1 of 2 ended with status 3 while it calls; its last line: no more memory",
            "*rank 0 of 2: output differs from the reference: 100 of 100 elements*",
            "*needs 3 GPUs, and torch sees 2*",
            "*gpuperf: fn=<function test_lambda.<locals>.<lambda> *cannot be sent to other processes*",
            "*gpuperf_ranks in a test without a number of GPUs; mark it: @pytest.mark.gpuperf(gpus=2)",
        ]
    )
    tests = {test.nodeid: test.measurements.get("main") for test in run_of(live.path).tests}
    timed = present(present(tests["test_k.py::test_sum"]).timing)
    assert (timed.bytes, present(timed.ranks).collective) == (400, "all_reduce")
    assert timed.bus_gb_per_s == timed.gb_per_s


def of_ranks(*times_us: float, slowest_us: float = 100.0) -> Measurement:
    """Return the measurement of an all-reduce of 1 MB."""
    ranks = RankTimes(
        collective="all_reduce", ranks=tuple(RankTime(time_us=us) for us in times_us), skew_us=2.0
    )
    timed = msgspec.structs.replace(timing(slowest_us, "queued", bytes=10**6), ranks=ranks)
    return Measurement(correctness=measured().correctness, timing=timed)


@pytest.fixture
def replayed(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Replay a file with `test_sum` without a GPU."""

    def replay(*arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_k=CALLS + SUM)
        return pytester.runpytest("--gpuperf", "-rs", *arguments)

    return replay


def test_replay_needs_no_gpu(replayed: Callable[..., pytest.RunResult], add_recording: AddRecording) -> None:
    add_recording(run(record("test_k.py::test_sum", main=of_ranks(99.0, 100.0))))
    expect(replayed(), "*test_sum *100 µs queued*0.00 GB/s bus*new*", passed=1)


class Skipped(NamedTuple):
    """A recording that does not have the test."""

    recorded: Measurement
    reason: str


@pytest.mark.parametrize(
    "case",
    [
        Skipped(of_ranks(99.0, 100.0, 98.0), "*is of 3 GPUs, the test asks for 2*"),
        Skipped(measured(), "*is of 1 GPUs, the test asks for 2*"),
        Skipped(Measurement(), "*not recorded on NVIDIA H200; `gpuperf record` adds it*"),
    ],
)
def test_other_recordings_are_not_replayed(
    replayed: Callable[..., pytest.RunResult], add_recording: AddRecording, case: Skipped
) -> None:
    add_recording(run(record("test_k.py::test_sum", main=case.recorded)))
    expect(replayed(), case.reason, skipped=1)


def test_limits_on_several_gpus(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    add_recording(run(record("test_k.py::test_sum", main=of_ranks(99.0, 100.0))))
    limits = '["bus_gb_per_s >= 0.004", "skew_us <= 1", "exposed_us <= 10"]'
    pytester.makepyfile(test_k=CALLS + SUM.replace("gpus=2", f"gpus=2, limits={limits}"))
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines_random(
        [
            "*skew_us 2 is above the limit <= 1 of the test*",
            "*exposed_us was not measured for *: it needs gpuperf_ranks, on GPUs*",
        ]
    )
    result.stdout.no_fnmatch_line("*bus_gb_per_s*is below*")
