from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.pins import PinnedSuite, pin, unpin
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.errors import GpuperfError
from run_builders import measured, record, run

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gpuperf.records import Run, TimingMode
    from pytest_gpuperf.records.baseline import TimeBaseline

SUITE = "suites/test_square.py"
A, B = f"{SUITE}::test_a[1]", f"{SUITE}::test_b"
DATE = "2026-11-30T00:00:00Z"


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return BaselineStore(tmp_path / "baselines")


def of_run(id: str, time_us: float, mode: TimingMode = "hot") -> Run:
    tests = [record(nodeid, main=measured(time_us, mode=mode)) for nodeid in (A, B)]
    return run(*tests, id=id, started_at=f"2026-11-{id}T00:00:00Z")


def accepted(store: BaselineStore, *runs: Run) -> dict[str, Any]:
    accept(runs, store, "all", 5.0, environ={})
    found = store.load_for_update("nvidia-h200", "test_square")
    assert found is not None
    return found[1]


def time(store: BaselineStore, nodeid: str) -> TimeBaseline:
    found = BaselineStore(store.root).load("nvidia-h200", "test_square")
    assert found is not None
    known = found.tests[nodeid].measurements["main"].time
    assert known is not None
    return known


def test_pinned_sessions_outlive_those_of_the_baseline(store: BaselineStore) -> None:
    accepted(store, of_run("01", 5.0), of_run("02", 5.2))
    assert pin(store, "v1.2", DATE) == [PinnedSuite("nvidia-h200", "test_square", (A, B), ())]
    content = accepted(store, of_run("03", 9.9, "cold"))
    found = time(store, A)
    assert found.pinned is not None
    assert (found.mode, [session.run for session in found.sessions]) == ("cold", ["03"])
    assert (str(found.pinned), found.pinned.mode, found.pinned.mean_us) == ("v1.2 of 2026-11-30", "hot", 5.1)
    assert sorted(content["runs"]) == ["01", "02", "03"]


def test_earlier_pin_is_reported(store: BaselineStore) -> None:
    accepted(store, of_run("01", 5.0))
    pin(store, "", DATE)
    (suite,) = pin(store, "v2", "2026-12-01T00:00:00Z")
    assert suite.before == ("2026-11-30",)
    assert str(time(store, A).pinned) == "v2 of 2026-12-01"


def test_unpinned_runs_that_no_longer_serve_are_forgotten(store: BaselineStore) -> None:
    accepted(store, of_run("01", 5.0))
    pin(store, "v1", DATE)
    accepted(store, of_run("02", 9.9))
    assert unpin(store) == [PinnedSuite("nvidia-h200", "test_square", (A, B), ("v1 of 2026-11-30",))]
    found = store.load_for_update("nvidia-h200", "test_square")
    assert found is not None
    assert list(found[1]["runs"]) == ["02"]
    assert time(store, A).pinned is None


@pytest.mark.parametrize(
    ("only", "tests"),
    [
        ((A,), (A,)),
        ((f"{SUITE}::test_a",), (A,)),
        ((SUITE,), (A, B)),
        (("suites",), (A, B)),
        (("suites/",), (A, B)),
        ((A, B), (A, B)),
    ],
)
def test_tests_are_chosen_as_on_the_command_line_of_pytest(
    store: BaselineStore, only: tuple[str, ...], tests: tuple[str, ...]
) -> None:
    accepted(store, of_run("01", 5.0))
    (suite,) = pin(store, "v1", DATE, only)
    assert suite.tests == tests
    assert {nodeid for nodeid in (A, B) if time(store, nodeid).pinned is not None} == set(tests)


@pytest.mark.parametrize("only", [(f"{SUITE}::test",), (A, "suites/test_squ")])
def test_a_test_that_does_not_exist_pins_nothing(store: BaselineStore, only: tuple[str, ...]) -> None:
    accepted(store, of_run("01", 5.0))
    with pytest.raises(GpuperfError, match=f"there is no time to pin in {only[-1]};"):
        pin(store, "v1", DATE, only)
    assert time(store, A).pinned is None


def test_nothing_to_pin_or_to_unpin_is_an_error(store: BaselineStore) -> None:
    with pytest.raises(GpuperfError, match="there is no time to pin;"):
        pin(store, "v1", DATE)
    accepted(store, of_run("01", 5.0))
    with pytest.raises(GpuperfError, match="nothing is pinned;"):
        unpin(store)


def test_one_broken_file_pins_nothing_in_the_others(store: BaselineStore) -> None:
    accepted(store, of_run("01", 5.0))
    store.path("nvidia-h200", "test_x").write_text('{"schema": 99}', encoding="utf-8")
    with pytest.raises(GpuperfError, match="newer pytest-gpuperf"):
        pin(store, "v1", DATE)
    assert time(store, A).pinned is None


def test_file_without_a_chosen_test_keeps_every_byte(store: BaselineStore) -> None:
    accepted(store, of_run("01", 5.0))
    path = store.path("nvidia-h200", "test_square")
    other = path.with_name("test_other.json")
    other.write_text(path.read_text("utf-8").replace("test_square", "test_other").replace("  ", "    "))
    before = other.read_bytes()
    assert [suite.suite for suite in pin(store, "v1", DATE, [A])] == ["test_square"]
    assert other.read_bytes() == before
