"""Counters that CUPTI has read in an earlier run: each call is read again only if it has to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from fake_cupti import activity
from pytest_gpuperf.measure.counters.kept_calls import KeptCalls
from pytest_gpuperf.measure.counters.kept_counters import KeptCounters
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.records.passes import SelectedTest

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.measure.cupti.activity import Activity

WANTED = SelectedTest("t.py::test_k", None, ("duration_us",))
DAYS = ("2026-11-20", "2026-11-21", "2026-11-22")


@dataclass
class Project:
    """A project that stays the same from run to run."""

    root: Path
    reader: str = "cupti"

    def run(self, day: str, *labels: str, launches: str = "square_kernel") -> dict[str, str]:
        """Look up calls; return the date of the counters of each, or an empty text if it was read."""
        kept = KeptCounters(self.root / ".gpuperf", self.root, lambda: ("NVIDIA H200",), reader=self.reader)
        launched = [activity(launches)]
        calls = KeptCalls(kept, lambda _: launched)
        dates = {}
        for label in labels:
            call = Call(WANTED.nodeid, label, print)
            found = calls.find(call, WANTED)
            dates[label] = found[1] if found is not None else ""
            if found is None:
                kernel = RawKernel(
                    name=launches,
                    demangled=launches,
                    grid=launched[0].grid,
                    block=launched[0].block,
                    metrics={"gpu__time_duration.sum": 5000.0},
                )
                calls.note(call, [kernel], launched)
            else:
                assert [kernel.metrics["gpu__time_duration.sum"] for kernel in found[0]] == [5000.0]
        assert calls.keep(day) == ""
        return dates


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "kernels.py").write_text("def square(x): return x * x\n")
    return Project(tmp_path)


def test_counters_are_read_once_while_nothing_changes(project: Project) -> None:
    assert project.run(DAYS[0], "main") == {"main": ""}
    assert [project.run(day, "main")["main"] for day in DAYS[1:]] == [DAYS[0]] * 2


def test_a_change_of_the_sources_reads_them_again(project: Project) -> None:
    project.run(DAYS[0], "main")
    (project.root / "kernels.py").write_text("def square(x): return x ** 2\n")
    assert project.run(DAYS[1], "main") == {"main": ""}


def test_other_launches_are_read_at_once_and_never_kept(project: Project) -> None:
    project.run(DAYS[0], "main")
    assert project.run(DAYS[1], "main", launches="sum_kernel") == {"main": ""}
    assert project.run(DAYS[2], "main", launches="sum_kernel") == {"main": ""}


def test_a_further_call_is_read_and_the_others_keep_their_date(project: Project) -> None:
    project.run(DAYS[0], "main")
    assert project.run(DAYS[1], "main", "other") == {"main": DAYS[0], "other": ""}
    assert project.run(DAYS[2], "main", "other") == {"main": DAYS[0], "other": DAYS[0]}


def test_counters_of_ncu_are_not_those_of_cupti(project: Project) -> None:
    project.run(DAYS[0], "main")
    assert Project(project.root, reader="ncu").run(DAYS[1], "main") == {"main": ""}


def test_a_refusal_of_cupti_costs_no_other_call(project: Project) -> None:
    project.run(DAYS[0], "main", "other")
    kept = KeptCounters(project.root / ".gpuperf", project.root, lambda: ("NVIDIA H200",), reader="cupti")

    def launched(call: Call) -> list[Activity]:
        if call.label == "main":
            raise CuptiError("torch.profiler is running and holds CUPTI")
        return [activity("square_kernel")]

    calls = KeptCalls(kept, launched)
    found = [calls.find(Call(WANTED.nodeid, label, print), WANTED) for label in ("main", "other")]
    assert [one is None for one in found] == [True, False]
    assert calls.keep(DAYS[1]) == ""
