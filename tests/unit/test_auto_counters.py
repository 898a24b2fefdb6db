"""The reader of each call under `--gpuperf-counters=auto`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.auto_counters import AutoCounters
from pytest_gpuperf.measure.counters.kept_counters import KeptCounters
from pytest_gpuperf.measure.counters.profiling_pass import NotReachedError
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.records import Profile
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.records.passes import Invocation, SelectedTest
from pytest_gpuperf.records.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.measure.counters.cupti_counters import CuptiCounters
    from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass, Reading

GRAPH = "the call launches a CUDA graph, whose kernels CUPTI counts as one"
DENIED = "the driver denies hardware counters to this user"
TESTS = [SelectedTest(f"t.py::{name}") for name in ("test_new", "test_known", "test_graph")]


class InProcess:
    """CUPTI's counters: graphs are refused, or everything."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.attached = False

    def expect(self, tests: Sequence[SelectedTest]) -> None:
        """Do nothing."""

    def refusal(self) -> str:
        return self.refused

    def let_go(self) -> None:
        self.attached = False

    def keep(self, read_at: str) -> str:
        return f"the disk is full on {read_at}"

    def lookup(self, call: Call, selection: Selection, metrics: Sequence[str]) -> Profile:
        self.attached = True
        if "graph" in call.label:
            raise CuptiError(GRAPH, next_step="use ncu")
        if selection.regex == "gemm":
            raise GpuperfError("no kernel matched")
        return Profile(source="cupti")


class Pass:
    """The pass under ncu."""

    def __init__(self, in_process: InProcess, unavailable: str = "", recalled: Sequence[str] = ()) -> None:
        self.unavailable = unavailable
        self.recalled = dict.fromkeys(recalled)
        self.notices: list[str] = []
        self.ran: list[str] = []
        self.noted: list[str] = []
        self.in_process = in_process

    def run(self, tests: Sequence[SelectedTest], *_: object) -> None:
        self.ran += [test.nodeid.partition("::")[2] for test in tests]

    def resume(self, tests: Sequence[SelectedTest], reading: Reading) -> None:
        self.run(tests)

    def lookup(self, call: Call, selection: Selection, metrics: Sequence[str]) -> Profile:
        assert call.nodeid.partition("::")[2] in self.ran
        if call.label == "lost graph":
            raise NotReachedError("the run under ncu did not profile it")
        self.note(call)
        return Profile(source="ncu")

    def note(self, call: Call) -> None:
        assert not self.in_process.attached, "CUPTI records the launches"
        self.noted.append(call.label)

    def keep(self, read_at: str) -> str:
        return ""


class Run:
    """A run of all tests in a project.

    Args:
        project: Its folder.
        refused: Why CUPTI is refused altogether.
        lost: Why ncu has read nothing.
        recalled: Tests with kept counters of ncu.
        keeps: False if no counters are kept.
    """

    def __init__(
        self,
        project: Path,
        refused: str = "",
        lost: str = "",
        recalled: Sequence[str] = (),
        *,
        keeps: bool = True,
    ) -> None:
        in_process = InProcess(refused)
        self.under_ncu = Pass(in_process, lost, recalled)
        self.counters = AutoCounters(
            cast("CuptiCounters", in_process),
            cast("ProfilingPass", self.under_ncu),
            lambda nodeid: frozenset(["main"] if nodeid.endswith("test_known") else []),
            KeptCounters(project / ".gpuperf", project, lambda: ()) if keeps else None,
        )
        self.counters.expect(TESTS)
        chosen = self.counters.chosen(TESTS)
        invocation: Any = Invocation((), Path(), Path())
        self.counters.run(chosen, invocation, lambda title: nullcontext(print))

    def lookup(self, name: str, label: str = "main", regex: str | None = None) -> Profile:
        try:
            return self.counters.lookup(Call(f"t.py::{name}", label, print), Selection(regex), ())
        finally:
            self.counters.let_go()


def mark(project: Path, label: str) -> None:
    """Let an earlier run have a call that CUPTI could not read."""
    kept = KeptCounters(project / ".gpuperf", project, lambda: ())
    assert kept.leave_to_ncu("t.py::test_graph", label)


def test_cupti_reads_new_calls_and_ncu_those_of_its_baselines(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.under_ncu.ran == ["test_known"]
    assert [run.lookup(name).source for name in ("test_new", "test_known")] == ["cupti", "ncu"]
    assert run.lookup("test_known", "other").source == "cupti"
    assert run.counters.notices == []


def test_ncu_reads_everything_if_cupti_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, refused=DENIED)
    assert run.under_ncu.ran == ["test_new", "test_known", "test_graph"]
    assert run.lookup("test_graph", "graph").source == "ncu"
    assert run.counters.notices == [f"ncu has read the counters, in another process: {DENIED}"]


def test_a_run_has_no_counters_if_both_are_refused(tmp_path: Path) -> None:
    run = Run(tmp_path, refused=DENIED, lost="ncu does not fit the driver")
    assert run.counters.unavailable == f"{DENIED}; ncu does not fit the driver"
    assert run.lookup("test_new").unavailable == run.counters.unavailable


def test_ncu_reads_in_the_next_run_what_cupti_cannot_read(tmp_path: Path) -> None:
    first = Run(tmp_path)
    found = first.lookup("test_graph", "graph")
    assert (found.unavailable, found.tolerated) == (f"{GRAPH}; the next run reads it by ncu", True)
    first.counters.keep("2026-11-25")
    for _ in range(2):
        later = Run(tmp_path)
        assert later.under_ncu.ran == ["test_known", "test_graph"]
        assert later.lookup("test_graph", "graph").source == "ncu"
        assert later.lookup("test_graph", "plain").source == "cupti"
        assert later.under_ncu.noted == ["graph", "plain"], "all of a test are kept, or none"
        later.counters.keep("2026-11-26")


def test_a_test_that_cupti_can_read_again_is_left_to_it(tmp_path: Path) -> None:
    mark(tmp_path, "other")
    for label, left in (("plain", ["test_known", "test_graph"]), ("other", ["test_known"])):
        changed = Run(tmp_path)
        changed.lookup("test_graph", label)
        changed.counters.keep("2026-11-26")
        assert Run(tmp_path).under_ncu.ran == left


def test_without_kept_counters_the_option_is_named(tmp_path: Path) -> None:
    found = Run(tmp_path, keeps=False).lookup("test_graph", "graph")
    assert found.unavailable == f"{GRAPH}; --gpuperf-counters=ncu reads it"


def test_cupti_reads_if_ncu_cannot(tmp_path: Path) -> None:
    run = Run(tmp_path, lost="ncu does not fit the driver")
    assert run.lookup("test_known").source == "cupti"
    assert run.counters.notices == ["ncu has read nothing: ncu does not fit the driver"]


def test_a_marked_call_that_ncu_did_not_reach_costs_no_test(tmp_path: Path) -> None:
    mark(tmp_path, "lost graph")
    found = Run(tmp_path).lookup("test_graph", "lost graph")
    assert found.unavailable == f"{GRAPH}; the run under ncu did not profile it"
    assert found.tolerated


def test_the_next_run_is_not_promised_if_ncu_fails(tmp_path: Path) -> None:
    found = Run(tmp_path, lost="ncu does not fit the driver").lookup("test_graph", "graph")
    assert found.unavailable == f"{GRAPH}; --gpuperf-counters=ncu reads it"


def test_kept_counters_of_ncu_are_used_though_ncu_cannot_read(tmp_path: Path) -> None:
    run = Run(tmp_path, lost="ncu does not fit the driver", recalled=["t.py::test_known"])
    assert run.lookup("test_known").source == "ncu"
    refused = Run(tmp_path, refused=DENIED, lost="it fails", recalled=["t.py::test_known"])
    assert refused.lookup("test_known").source == "ncu"
    assert refused.lookup("test_new").unavailable == f"{DENIED}; it fails"


def test_an_error_of_the_test_is_raised(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match="no kernel matched"):
        Run(tmp_path).lookup("test_new", regex="gemm")


def test_an_error_of_keeping_is_told(tmp_path: Path) -> None:
    assert Run(tmp_path).counters.keep("2026-11-25") == "the disk is full on 2026-11-25"


def test_a_run_without_counters_asks_nobody(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.counters.unavailable = "counters are off"
    assert run.lookup("test_graph", "graph").unavailable == "counters are off"


def test_a_process_that_replaces_another_has_the_tests_of_its_pass(tmp_path: Path) -> None:
    Run(tmp_path).lookup("test_graph", "graph")
    run = Run(tmp_path, refused=DENIED)
    run.under_ncu.ran.clear()
    run.counters.resume(TESTS, cast("Any", type("Reading", (), {"tests": ["t.py::test_known"]})))
    assert run.under_ncu.ran == ["test_known"]
    assert run.lookup("test_known").source == "ncu"
    found = run.lookup("test_new")
    assert (found.unavailable, found.tolerated) == (DENIED, True)
    run.under_ncu.unavailable = "the driver denies counters"
    run.counters.resume(TESTS, cast("Any", type("Reading", (), {"tests": []})))
    assert run.counters.unavailable == f"{DENIED}; the driver denies counters"
