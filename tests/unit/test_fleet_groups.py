"""Groups of tests of a fleet: their sizes, their order, and what a lost worker changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pytest_gpuperf.session.fleet.simulation import Costs, repeated, simulate

from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli import main
from pytest_gpuperf.session.fleet.groups import LOST_GROUPS, LOST_TESTS, MOST_S, Group, Waiting, make_groups
from pytest_gpuperf.session.fleet.messages import Test as Collected
from run_builders import measured, record, run

if TYPE_CHECKING:
    from pathlib import Path

MODEL = "nvidia-h200"
FREE = {"a": {MODEL: 2}, "b": {MODEL: 1}}


def collected(*counts: int) -> list[Collected]:
    return [Collected(f"test_{file}.py::test_{n}") for file, count in enumerate(counts) for n in range(count)]


def group(seconds: float, *tests: str, gpus: int = 1, lost_on: tuple[str, ...] = ()) -> Group:
    return Group(MODEL, tests or ("t",), gpus, seconds, lost_on)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(1, 40), st.floats(0.1, 900))
def test_each_test_is_in_one_group_of_its_file(counts: list[int], gpus: int, seconds: float) -> None:
    tests = collected(*counts)
    known = {test.nodeid: seconds for test in tests}
    groups = make_groups(MODEL, tests, known, gpus, 1)
    assert [nodeid for one in groups for nodeid in one.tests] == list(known)
    assert all(len({nodeid.partition("::")[0] for nodeid in one.tests}) == 1 for one in groups)
    assert all(one.seconds <= MOST_S or len(one.tests) == 1 for one in groups)


def test_tests_on_several_gpus_have_groups_of_their_own() -> None:
    tests = [Collected("test_a.py::test_1"), Collected("test_a.py::test_8", gpus=8)]
    assert [one.gpus for one in make_groups(MODEL, tests, {}, 4, 4)] == [1, 4]


def test_longest_group_goes_first_to_the_host_with_least_room() -> None:
    waiting = Waiting([group(1, "short"), group(9, "long")])
    assert waiting.take(FREE) == (group(9, "long"), "b")


def test_group_on_several_gpus_goes_before_all_others() -> None:
    waiting = Waiting([group(9, "long"), group(1, "wide", gpus=2), group(1, "wider", gpus=3)])
    assert waiting.take(FREE) == (group(1, "wide", gpus=2), "a")
    assert waiting.take({"b": {MODEL: 1}}) == (group(9, "long"), "b")
    assert waiting.take(FREE) is None
    assert len(waiting) == 1


def test_group_goes_elsewhere_after_a_loss() -> None:
    waiting = Waiting([])
    assert waiting.put_back(group(9), "b")
    assert waiting.take(FREE) == (group(9, lost_on=("b",)), "a")
    assert waiting.put_back(group(9), "b")
    assert waiting.take({"b": {MODEL: 1}}) == (group(9, lost_on=("b",)), "b")


def test_tests_run_alone_after_two_losses() -> None:
    waiting = Waiting([])
    assert waiting.put_back(group(8, "x", "y", lost_on=("a",) * (LOST_GROUPS - 1)), "b")
    assert sorted(waiting, key=lambda one: one.tests) == [group(4, "x"), group(4, "y")]


def test_test_that_loses_three_workers_is_given_up() -> None:
    waiting = Waiting([])
    assert not waiting.put_back(group(8, "x", lost_on=("a",) * (LOST_TESTS - 1)), "b")
    assert list(waiting) == []


COSTS = Costs(start_s=10, group_ms=0, test_ms=0)


def test_one_gpu_needs_the_sum_of_all_times() -> None:
    tests = collected(2, 1)
    plan = simulate(tests, dict.fromkeys((test.nodeid for test in tests), 45.0), 1, COSTS)
    assert (plan.groups, plan.seconds, plan.limit) == (3, 3 * (10 + 45), "tests")
    assert plan.utilisation_pct == pytest.approx(100 * 45 / 55)


@pytest.mark.parametrize(
    ("seconds", "gpus", "costs", "limit"),
    [
        (45.0, 100, COSTS, "longest group"),
        (1.0, 1, Costs(start_s=50, group_ms=0, test_ms=0), "starts"),
        (45.0, 2, Costs(start_s=0, group_ms=90_000, test_ms=0), "scheduler"),
    ],
)
def test_limit_is_named(seconds: float, gpus: int, costs: Costs, limit: str) -> None:
    tests = collected(1, 1, 1, 1)
    plan = simulate(tests, dict.fromkeys((test.nodeid for test in tests), seconds), gpus, costs)
    assert plan.limit == limit


def test_copies_last_as_long_as_their_test() -> None:
    tests = repeated([Collected("test_0.py::test_0")], 3)
    plan = simulate(tests, {"test_0.py::test_0": 45.0}, 1, COSTS)
    assert (plan.tests, plan.test_s) == (3, 135)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tests = [record(f"suites/test_{name}.py::test_k", main=measured()) for name in "ab"]
    accept(run(*tests), BaselineStore(tmp_path / "baselines"), "all", 0.0, environ={})
    return tmp_path


def simulated(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(main, ["fleet", "simulate", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def test_plan_is_shown_with_its_assumptions(project: Path) -> None:
    assert simulated("--gpus", "2", "--tests", "1000") == snapshot("""\
GPU          GPUs  tests  groups   time  utilisation  limited by
----------------------------------------------------------------
nvidia-h200     2  1,000   1,000  2.1 h         33 %  starts

nvidia-h200: the baselines of 2 of 2 tests have no duration yet, so 5 s are assumed for each
assumed: 10 s to start a process, and of the scheduler 15 ms for each group and 0.2 ms for each test
""")


def test_plan_as_json_is_of_the_named_tests(project: Path) -> None:
    [plan] = json.loads(simulated("--json", "--gpus", "8", "suites/test_a.py"))
    assert (plan["gpu"], plan["gpus"], plan["tests"], plan["test_seconds"]) == (MODEL, 8, 1, 5.0)


def test_unknown_model_and_tests_are_errors(project: Path) -> None:
    assert "has no baseline of any test for b200; expected one of nvidia-h200" in simulated(
        "--gpu", "b200", status=2
    )
    assert "has no baseline of other for nvidia-h200" in simulated("other", status=2)
