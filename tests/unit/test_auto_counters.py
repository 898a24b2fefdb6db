"""The reader of each test under `--gpuperf-counters=auto`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.auto_counters import AutoCounters
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.records import Profile
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.records.passes import Invocation, SelectedTest
from pytest_gpuperf.records.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass

GRAPH = "the call launches a CUDA graph, whose kernels CUPTI counts as one"
TESTS = [SelectedTest(f"t.py::{name}") for name in ("test_new", "test_known", "test_graph", "test_graph_2")]


class InProcess:
    """CUPTI's counters: graphs are refused, or everything."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.let_gone = 0

    def expect(self, tests: Sequence[SelectedTest]) -> None:
        """Do nothing."""

    def refusal(self) -> str:
        return self.refused

    def let_go(self) -> None:
        self.let_gone += 1

    def keep(self, read_at: str) -> str:
        return f"the disk is full on {read_at}"

    def lookup(self, call: Call, selection: Selection, metrics: Sequence[str]) -> Profile:
        if "graph" in call.nodeid:
            raise CuptiError(GRAPH, next_step="use ncu")
        if selection.regex == "gemm":
            raise GpuperfError("no kernel matched")
        return Profile(source="cupti")


class Pass:
    """A pass under ncu that notes its tests."""

    def __init__(self, unavailable: str = "", kept: Sequence[str] = ()) -> None:
        self.unavailable = unavailable
        self.recalled = dict.fromkeys(kept)
        self.notices: list[str] = []
        self.ran: list[str] = []
        self.kept: list[str] = []

    def run(self, tests: Sequence[SelectedTest], *_: object) -> None:
        self.ran += [test.nodeid.partition("::")[2] for test in tests]

    def resume(self, tests: Sequence[SelectedTest], reading: object) -> None:
        self.run(tests)

    def lookup(self, call: Call, selection: Selection, metrics: Sequence[str]) -> Profile:
        assert call.nodeid.partition("::")[2] in self.ran
        return Profile(unavailable=self.unavailable) if self.unavailable else Profile(source="ncu")

    def keep(self, read_at: str) -> str:
        self.kept.append(read_at)
        return ""


class Run:
    """A run of all tests.

    Args:
        refused: Why CUPTI is refused altogether.
        no_ncu: Why ncu reads no test by itself.
        lost: Why the pass before the tests has read nothing.
        kept: Tests with kept counters of ncu.
    """

    def __init__(self, refused: str = "", no_ncu: str = "", lost: str = "", kept: Sequence[str] = ()) -> None:
        self.in_process = InProcess(refused)
        self.before = Pass(lost)
        self.alone: list[Pass] = []

        def one_more(number: int) -> ProfilingPass:
            assert number == len(self.alone) + 1
            self.alone.append(Pass(no_ncu, kept))
            return cast("ProfilingPass", self.alone[-1])

        self.counters = AutoCounters(
            cast("CuptiCounters", self.in_process),
            cast("ProfilingPass", self.before),
            one_more,
            lambda nodeid: nodeid.endswith("test_known"),
        )
        asked: Any = (TESTS, Invocation((), Path(), Path()), lambda title: nullcontext(print))
        self.counters.expect(*asked)
        self.counters.run(*asked)

    def lookup(self, name: str, label: str = "main", regex: str | None = None) -> Profile:
        return self.counters.lookup(Call(f"t.py::{name}", label, print), Selection(regex), ())


def test_cupti_reads_new_tests_and_ncu_those_whose_baseline_it_has_read() -> None:
    run = Run()
    assert run.before.ran == ["test_known"]
    assert [run.lookup(name).source for name in ("test_new", "test_known")] == ["cupti", "ncu"]
    assert (run.alone, run.counters.read_alone) == ([], [])


def test_ncu_reads_all_tests_if_cupti_is_refused() -> None:
    run = Run(refused="the driver denies hardware counters to this user")
    assert run.before.ran == ["test_new", "test_known", "test_graph", "test_graph_2"]
    assert run.lookup("test_graph").source == "ncu"
    assert run.counters.notices == [
        "ncu reads all counters, in a process of its own: the driver denies hardware counters to this user"
    ]


def test_cupti_reads_if_ncu_cannot_read_a_test_that_it_has_read_before() -> None:
    assert Run(lost="ncu does not fit the driver").lookup("test_known").source == "cupti"


def test_counters_of_ncu_that_were_kept_need_no_notice() -> None:
    run = Run(kept=["t.py::test_graph"])
    assert run.lookup("test_graph").source == "ncu"
    assert run.counters.read_alone == []


def test_ncu_reads_a_test_that_cupti_cannot_read_once_for_all_calls() -> None:
    run = Run()
    assert [run.lookup("test_graph", label).source for label in ("main", "other")] == ["ncu", "ncu"]
    assert run.in_process.let_gone == 1, "only one process can have the counters"
    assert run.lookup("test_graph_2").source == "ncu"
    assert [each.ran for each in run.alone] == [["test_graph"], ["test_graph_2"]]
    assert run.counters.read_alone == [
        f"ncu has read t.py::test_graph and 1 more in a process of its own, which takes longer: {GRAPH}"
    ]


def test_without_either_the_test_goes_on_and_ncu_is_asked_once() -> None:
    run = Run(no_ncu="the driver denies counters")
    first, second = run.lookup("test_graph"), run.lookup("test_graph_2")
    assert (first.tolerated, second.tolerated) == (True, True)
    assert first.unavailable.startswith(GRAPH)
    assert first.unavailable.endswith("; the driver denies counters")
    assert second.unavailable.startswith(GRAPH)
    assert len(run.alone) == 1
    assert run.counters.read_alone == []


def test_an_error_of_the_test_is_not_asked_again_of_ncu() -> None:
    run = Run()
    with pytest.raises(GpuperfError, match="no kernel matched"):
        run.lookup("test_new", regex="gemm")
    assert run.alone == []


def test_counters_of_all_passes_are_kept() -> None:
    run = Run()
    run.lookup("test_graph")
    assert run.counters.keep("2026-11-25") == "the disk is full on 2026-11-25"
    assert [each.kept for each in (run.before, *run.alone)] == [["2026-11-25"]] * 2


def test_a_run_without_counters_asks_nobody() -> None:
    run = Run()
    run.counters.unavailable = "counters are off"
    assert run.lookup("test_graph").unavailable == "counters are off"
    assert run.alone == []


def test_a_process_that_replaces_another_takes_its_counters() -> None:
    run = Run()
    run.before.ran.clear()
    run.counters.resume(TESTS, cast("Any", None))
    assert run.before.ran == ["test_known"]
