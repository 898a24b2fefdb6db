"""`gpuperf.compare` with a fake GPU, on which a call takes as many microseconds as it returns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pytest
from msgspec.structs import replace

from against_project import Project
from pytest_gpuperf.against.callable_rounds import time_in_turn
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.settled_suspects import speed_up
from pytest_gpuperf.records import AgainstTiming, Correctness
from pytest_gpuperf.records.call import Call
from run_builders import measured, record, run
from run_results import expect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runs_of_pytest import AddRecording

TEST = """
from random import gauss

import pytest

def slow(x): return x * gauss(10.0, NOISE)
def fast(x): return x * gauss(8.0, NOISE)
slow.counters = fast.counters = {"registers_per_thread": 32.0}

def test_k(gpuperf):
    found = gpuperf.compare({"cublas": slow, "mine": fast, "same": slow}, 2.0, expected=slow, limits="LIMIT")
    assert found["mine"].low <= found["mine"].value <= found["mine"].high
"""


def project(tmp_path: Path, limit: str, noise: float = 0.001) -> Project:
    made = Project(tmp_path / "repo")
    made.commit({"test_k.py": TEST.replace("LIMIT", limit).replace("NOISE", str(noise))})
    made.forks = True
    return made


@pytest.mark.parametrize("limit", ["cublas / mine >= 1.2", "mine / cublas<=0.81", "same: same/cublas < 1.01"])
def test_limit_on_a_ratio_passes(tmp_path: Path, limit: str) -> None:
    done = project(tmp_path, limit).session()
    assert done.returncode == 0, done.stdout
    assert "in turn: 1.25 times as fast as cublas (1.2" in done.stdout


@pytest.mark.parametrize(
    ("limit", "noise", "status", "line"),
    [
        ("cublas / mine >= 1.3", 0.001, 1, "cublas / mine 1.25 (1.2"),
        ("cublas / mine >= 1.3", 2.0, 0, "is across the limit >= 1.3 of the test, within its interval"),
        ("theirs / ours >= 1", 0.001, 1, "theirs / ours was not measured for the limit >= 1 of the test"),
        ("mine / same >= 1", 0.001, 1, "the test calls no compare() with both of them, one as the first"),
    ],
)
def test_broken_limit_fails_only_beyond_the_interval(
    tmp_path: Path, limit: str, noise: float, status: int, line: str
) -> None:
    done = project(tmp_path, limit, noise).session("-Wdefault")
    assert done.returncode == status, done.stdout
    assert line in " ".join(done.stdout.split())


def test_against_a_commit_each_callable_is_compared_by_its_label(tmp_path: Path) -> None:
    made = project(tmp_path, "cublas / mine >= 1.2")
    made.restarts = "2"
    done = made.session("--gpuperf-against=main")
    assert done.returncode == 0, done.stdout
    assert list(made.compared()) == ["test_k cublas", "test_k mine", "test_k same"]


@pytest.mark.parametrize("fns", ["{'mine': abs}", "abs", "[abs, abs]", "{'a': abs, 'b': abs}, label='c'"])
def test_fewer_than_two_callables_by_label_are_refused(tmp_path: Path, fns: str) -> None:
    made = Project(tmp_path / "repo")
    made.commit({"test_k.py": f"def test_k(gpuperf): gpuperf.compare({fns}, expected=abs)\n"})
    made.forks = True
    assert "expected a dictionary of two callables or more" in made.session().stdout


def test_replay_judges_the_recorded_ratio(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    log_ratios = (-0.223, -0.224, -0.223, -0.224)
    cublas = replace(measured(10.0, {"registers_per_thread": 32.0}), correctness=Correctness(passed=True))
    mine = replace(cublas, in_turn=AgainstTiming(ref="cublas", commit="", log_ratios=log_ratios))
    add_recording(run(record("test_k.py::test_k", cublas=cublas, mine=mine)))
    pytester.makepyfile(
        test_k="""
        def test_k(gpuperf):
            gpuperf.compare({"cublas": abs, "mine": abs}, 1.0, expected=abs)
            gpuperf.limit("cublas / mine >= 1.3")
        """
    )
    done = pytester.runpytest_inprocess("--gpuperf")
    expect(done, "*cublas / mine 1.25 (1.2* is below the limit >= 1.3 of the test", failed=1)


class Block(NamedTuple):
    time_us: float
    sm_clock_mhz: float


class Prepared:
    """A call that CUPTI records, except for one block of the first round."""

    mode = "hot"
    recorded: ClassVar[list[bool]] = []

    def __init__(self, call: Call, mode: str) -> None:
        if call.fn is hex and mode != "kernels":
            raise GpuperfError("it cannot be captured")
        self.mode = "kernels" if mode == "kernels" else "hot"

    def records_better(self) -> bool:
        return True

    def block(self, *, recorded: bool) -> Block:
        self.recorded.append(recorded)
        return Block(0.0 if self.recorded.count(True) == 2 else 5.0, 1500.0)


def in_turn(other: Callable[..., Any]) -> AgainstTiming:
    Prepared.recorded.clear()
    timer: Any = SimpleNamespace(prepare=Prepared, budget_s=0.0)
    first = Call("test_k.py::test_k", "first", abs)
    return time_in_turn(timer, (first, first, first), Call("test_k.py::test_k", "other", other), "auto")


def test_cupti_times_two_short_calls() -> None:
    found = in_turn(abs)
    assert (found.ref, found.recorded, found.mode) == ("first", True, "hot")
    assert found.new_first == (False, True) * 3
    assert Prepared.recorded[:4] == [False] * 4  # the warm-up
    assert all(Prepared.recorded[4:])
    assert speed_up(found) == pytest.approx((1.0, 1.0, 1.0), abs=0.01)


def test_two_callables_without_a_common_mode_are_timed_by_kernels() -> None:
    assert in_turn(hex).mode == "kernels"
