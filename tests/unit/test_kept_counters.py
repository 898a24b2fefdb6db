"""Kept counters: an unchanged project needs no second run under ncu."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fake_ncu
from fake_cupti import activity
from pass_progress import no_progress
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters import profiling_pass
from pytest_gpuperf.measure.counters.kept_counters import KEPT_DAYS, KEPT_PER_TEST, KeptCounters
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.ncu.report_reader import read_report
from pytest_gpuperf.measure.ncu.tool import find_ncu
from pytest_gpuperf.records.call import Call
from pytest_gpuperf.records.passes import Invocation, PassFolder, SelectedTest
from pytest_gpuperf.records.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.measure.ncu.raw_kernel import RawKernel
    from pytest_gpuperf.records import Profile

CHAIN = SelectedTest("suites/test_chain.py::test_chain", None, ("duration_us", "sm_throughput"))
CALL = Call(CHAIN.nodeid, "both", print)
SHAPE: dict[str, Any] = {"grid": (1823, 1, 1), "block": (128, 1, 1)}
TWO = [activity("square_kernel", launch, **SHAPE) for launch in (1, 2)]
"""Launches of the report that the fake ncu writes."""
DATES = ("2026-11-20T10:00:00Z", "2026-11-21T10:00:00Z", "2026-11-22T10:00:00Z")


@dataclass(frozen=True)
class Project:
    """A project whose runs read the counters of one test, one run after the other."""

    root: Path
    wanted: SelectedTest = CHAIN
    launched: list[Activity] = field(default_factory=lambda: TWO)
    conditions: tuple[str, ...] = ("NVIDIA H200", "ncu 2025.3.1")
    reads: bool = True
    refused: bool = False
    required: bool = False

    def session(self, date: str = DATES[0]) -> tuple[Profile, bool]:
        """Return the profile of a run, and True if it needed ncu."""
        counters = self.counters()
        self.run(counters)
        try:
            profile = counters.lookup(CALL, Selection(), self.wanted.metrics)
        finally:
            counters.keep(date)
        return profile, not counters.recalled

    def run(self, counters: ProfilingPass) -> None:
        counters.run([self.wanted], Invocation(["suites"], self.root, self.root), no_progress)

    def counters(self) -> ProfilingPass:
        kept = KeptCounters(self.root / ".gpuperf", self.root, lambda: self.conditions, reads=self.reads)
        ncu = find_ncu(str(fake_ncu.install(self.root)))
        folder = PassFolder(self.root / "pass")
        return ProfilingPass(folder, ncu, kept=kept, required=self.required, launched=self._launches)

    def _launches(self, _call: Call) -> list[Activity]:
        if self.refused:
            raise CuptiError("another profiler holds CUPTI")
        return self.launched

    @property
    def files(self) -> list[Path]:
        return sorted((self.root / ".gpuperf" / "counters").glob("*.json"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    def read(report: Path, names: Sequence[str], search: Sequence[Path]) -> list[RawKernel]:
        """Read a report without a process of its own."""
        return read_report(report, names)

    monkeypatch.setattr(profiling_pass, "read_report_isolated", read)
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "test_chain.py").write_text("def test_chain(gpuperf): ...\n")
    return Project(tmp_path)


def test_unchanged_test_is_not_run_under_ncu_again(project: Project) -> None:
    first, ran = project.session()
    assert ran
    assert first.combined["duration_us"] == pytest.approx(4.896 + 4.96)
    assert not first.read_at
    second, ran = project.session(DATES[1])
    assert not ran
    assert second == msgspec.structs.replace(first, read_at=DATES[0])
    assert project.session(DATES[2])[0].read_at == DATES[0]


def test_changed_test_is_read_again(project: Project) -> None:
    project.session()
    (project.root / "suites" / "test_chain.py").write_text("def test_chain(gpuperf): pass\n")
    profile, ran = project.session()
    assert (ran, profile.read_at) == (True, "")


@pytest.mark.parametrize(
    "change",
    [
        {"wanted": replace(CHAIN, regex="square")},
        {"wanted": replace(CHAIN, metrics=("duration_us",))},
        {"conditions": ("NVIDIA H200", "ncu 2025.4.0")},
        {"reads": False},
    ],
    ids=str,
)
def test_other_requests_and_conditions_are_read_again(project: Project, change: dict[str, object]) -> None:
    project.session()
    profile, ran = replace(project, **change).session()  # type: ignore[arg-type]
    assert (ran, profile.read_at) == (True, "")


def test_counters_read_again_replace_the_kept_ones(project: Project) -> None:
    project.session()
    replace(project, reads=False).session(DATES[1])
    assert project.session()[0].read_at == DATES[1]
    assert len(project.files) == 1


@pytest.mark.parametrize(
    ("launched", "why"),
    [
        (
            [TWO[0], activity("square_kernel", 2, grid=(64, 1, 1))],
            "it launched square_kernel with 1823x1x1 blocks .*; now it launches square_kernel with 64x1x1 ",
        ),
        (TWO[:1], "it had 2 launches, and has 1 now"),
    ],
)
def test_other_launches_drop_kept_counters(project: Project, launched: list[Activity], why: str) -> None:
    project.session()
    changed = replace(project, launched=launched)
    profile, ran = changed.session()
    assert (ran, profile.kernels, profile.read_at) == (False, (), DATES[0])
    assert re.match(rf"its counters, kept on 2026-11-20, do not fit this run: .*{why}", profile.unavailable)
    assert changed.session()[0].combined
    # The launches of the test depend on something outside the hash of the project.
    assert changed.session()[1]
    (project.root / "suites" / "test_chain.py").write_text("def test_chain(gpuperf): pass\n")
    assert project.session(DATES[1])[1]
    assert project.session()[0].read_at == DATES[1]


@pytest.mark.parametrize(
    "launched",
    [
        [TWO[0], activity("square_kernel", 2, **{**SHAPE, "grid": (64, 1, 1)})],
        [TWO[0], activity("square_kernel", 2, **{**SHAPE, "block": (64, 1, 1)})],
        [TWO[0], activity("cube_kernel", 2, **SHAPE)],
        TWO[:1],
    ],
)
def test_launches_that_differ_under_ncu_are_not_kept(project: Project, launched: list[Activity]) -> None:
    otherwise = replace(project, launched=launched)
    assert otherwise.session()[0].combined
    assert otherwise.session()[1]
    assert project.session(DATES[1])[1]
    assert project.session()[0].read_at == DATES[1]


def test_required_counters_that_do_not_fit_are_an_error(
    project: Project,
) -> None:
    project.session()
    counters = replace(project, required=True, launched=TWO[:1]).counters()
    assert counters.recall([CHAIN]) == []
    with pytest.raises(GpuperfError, match=r"kept on 2026-11-20, do not fit this run: .*reads them again"):
        counters.lookup(CALL, Selection(), CHAIN.metrics)


def test_launch_order_and_kernels_outside_the_marker_do_not_matter(project: Project) -> None:
    square = replace(project, wanted=replace(CHAIN, regex="square"))
    square.session()
    profile, _ = replace(square, launched=[TWO[1], activity("copy_kernel", 3), TWO[0]]).session()
    assert profile.read_at == DATES[0]


def test_launches_that_cupti_cannot_record_are_not_trusted(project: Project) -> None:
    blind = replace(project, refused=True)
    assert blind.session()[0].combined
    assert project.files == []
    project.session()
    profile, ran = blind.session()
    assert not ran
    assert "cannot be checked: another profiler holds CUPTI; --gpuperf-counter-cache" in profile.unavailable
    assert project.session()[0].read_at == DATES[0]


def test_call_without_kept_counters_has_none(project: Project) -> None:
    project.session()
    counters = project.counters()
    assert counters.recall([CHAIN]) == []
    other = Call(CHAIN.nodeid, "third", print)
    profile = counters.lookup(other, Selection(), CHAIN.metrics)
    assert "do not fit this run: the test did not make this call" in profile.unavailable
    assert project.session()[1]


def test_test_with_an_unseen_call_is_not_kept(project: Project) -> None:
    counters = project.counters()
    project.run(counters)
    counters.keep(DATES[0])
    assert project.files == []


def test_rounded_counters_are_not_kept(project: Project) -> None:
    counters = project.counters()
    fake_ncu.install(project.root, "writes no report it can read")
    project.run(counters)
    counters.lookup(CALL, Selection(), CHAIN.metrics)
    counters.keep(DATES[0])
    assert "rounded" in counters.notices[0]
    assert project.files == []


def test_newest_files_stay_and_old_ones_are_deleted(project: Project) -> None:
    for number in range(KEPT_PER_TEST + 2):
        replace(project, conditions=(str(number),)).session()
        for path in project.files:
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 60))
    assert len(project.files) == KEPT_PER_TEST
    assert not replace(project, conditions=(str(KEPT_PER_TEST + 1),)).session()[1]
    assert replace(project, conditions=("0",)).session()[1]
    old = time.time() - (KEPT_DAYS + 1) * 86400
    for path in project.files:
        os.utime(path, (old, old))
    replace(project, conditions=("new",)).session()
    assert len(project.files) == 1


@given(st.one_of(st.binary(max_size=200), st.just(b"[" * 100_000)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
def test_damaged_file_is_read_again(project: Project, content: bytes) -> None:
    kept = KeptCounters(project.root / ".gpuperf", project.root, tuple)
    path = kept._path(CHAIN)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    assert kept.find(CHAIN) is None
    assert not kept.problem


def test_a_folder_that_cannot_be_written_is_one_note(project: Project) -> None:
    (project.root / ".gpuperf").write_text("")
    assert project.session()[0].combined
