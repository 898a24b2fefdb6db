"""Series of a history: order, one clock, changes and their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from history_builders import commits, line, times
from pytest_gpuperf.features.history.commit_order import commit_date, order_of
from pytest_gpuperf.features.history.commit_ranges import Accepted, Range, find_ranges
from pytest_gpuperf.features.history.series import TimeSeries, series_of
from pytest_gpuperf.features.history.series_report import marks_of
from pytest_gpuperf.records import ClockModel
from run_builders import NODEID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.features.history.history_line import HistoryLine


def series(lines: Sequence[HistoryLine], folder: Path) -> list[TimeSeries]:
    return series_of(lines, order_of(lines, folder))


def ranges(lines: Sequence[HistoryLine], folder: Path, accepted: Accepted | None = None) -> list[Range]:
    order = order_of(lines, folder)
    return find_ranges(series_of(lines, order), order, accepted or {})


def test_commits_order_runs_even_if_measured_later(tmp_path: Path) -> None:
    ids = commits(tmp_path, 3)
    lines = [line(at, commit=commit) for at, commit in zip((2, 0, 1), ids, strict=True)]
    order = order_of(lines, tmp_path)
    assert (order.by, order.why) == ("commits", "")
    [found] = series_of(lines, order)
    assert [point.line.commit for point in found.points] == ids


def test_unknown_commit_orders_by_date_and_says_so(tmp_path: Path) -> None:
    ids = commits(tmp_path, 1)
    lines = [line(1, commit=ids[0]), line(0)]
    order = order_of(lines, tmp_path)
    assert order.shown == "in the order of dates: git does not know 1 of 2 commits here, such as 0000000"
    [found] = series_of(lines, order)
    assert [point.line.run for point in found.points] == ["run-0000", "run-0001"]


@pytest.mark.parametrize("commit", ["", "--all", "HEAD", "main; rm -rf /"])
def test_text_that_is_no_commit_never_reaches_git(tmp_path: Path, commit: str) -> None:
    commits(tmp_path, 1)
    order = order_of([line(0, commit=commit)], tmp_path)
    assert order.shown == "in the order of dates: there are runs without a commit"


def test_commit_date_is_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-11-20T23:30:00-0300")
    [commit] = commits(tmp_path, 1)
    assert commit_date(tmp_path, commit) == "2026-11-21T02:30:00Z"
    for other in ("0" * 40, "", "HEAD", f"--output={tmp_path / 'taken'}"):
        assert commit_date(tmp_path, other) == ""
    assert not (tmp_path / "taken").exists()


def test_step_of_another_card_is_marked_and_is_no_change(tmp_path: Path) -> None:
    first, second = times(*[5.0] * 6), times(*[5.0] * 6, *[5.05] * 6, gpu_uuid="GPU-2")[6:]
    [found] = series([*first, *second], tmp_path)
    assert found.steps == ()
    [step] = found.steps_of_cards
    assert (step.before, step.after) == (5, 6)
    assert ranges([*first, *second], tmp_path) == []
    [mark] = marks_of(found, [])
    assert (mark.status, round(mark.change_pct[0], 1)) == ("other card", 1.0)


def test_step_of_the_code_is_not_marked_twice(tmp_path: Path) -> None:
    cards = [replace(one, gpu_uuid=f"GPU-{at % 2}") for at, one in enumerate(times(*[5.0] * 6, *[5.2] * 6))]
    [found] = series(cards, tmp_path)
    assert len(found.steps) == 1
    assert found.steps_of_cards == ()


def test_times_are_brought_to_one_clock(tmp_path: Path) -> None:
    def at(number: int, mhz: float) -> HistoryLine:
        model = ClockModel(cycles=9000.0, fixed_us=0.0, reference_mhz=mhz, share_error=0.01)
        own = 9000.0 / mhz
        return line(number, own, sm_clock_mhz=mhz, normalised_us=own, clock_model=model)

    [found] = series([at(0, 1800.0), at(1, 1500.0), at(2, 1800.0)], tmp_path)
    assert found.at_mhz == 1800.0
    assert [point.time_us for point in found.points] == pytest.approx([5.0, 5.0, 5.0])
    # A wrong share of the clock counts where the clock differed.
    assert [point.sd > 0 for point in found.points] == [False, True, False]


def test_code_that_depends_otherwise_on_the_clock_keeps_its_own_model(tmp_path: Path) -> None:
    def at(number: int, mhz: float, share: float) -> HistoryLine:
        model = ClockModel(
            cycles=share * 5 * 1800, fixed_us=5 * (1 - share), reference_mhz=1800.0, share_error=0.02
        )
        return line(
            number, model.time_us(mhz), sm_clock_mhz=mhz, normalised_us=model.time_us(1800), clock_model=model
        )

    lines = [at(0, 1800.0, 0.9), at(1, 1500.0, 0.9), at(2, 1800.0, 0.1), at(3, 1500.0, 0.1)]
    [found] = series(lines, tmp_path)
    assert [point.time_us for point in found.points] == pytest.approx([5.0] * 4)


def test_run_without_clock_is_left_out_of_one_clock(tmp_path: Path) -> None:
    model = ClockModel(cycles=9000.0, fixed_us=0.0, reference_mhz=1800.0)
    clocked = [line(at, 5.0, sm_clock_mhz=1800.0, normalised_us=5.0, clock_model=model) for at in range(2)]
    [found] = series([*clocked, line(2, 6.0)], tmp_path)
    assert (len(found.points), found.left_out) == (2, 1)


def test_step_names_commits_size_and_driver(tmp_path: Path) -> None:
    ids = commits(tmp_path, 12)
    lines = [
        line(at, level, commit=commit, driver="580.95" if at < 6 else "581.10")
        for at, (level, commit) in enumerate(
            zip([one.time_us for one in times(*[5.0] * 6, *[5.2] * 6)], ids, strict=True)
        )
    ]
    [found] = ranges(lines, tmp_path)
    assert (found.before.commit, found.after.commit) == (ids[5], ids[6])
    assert found.shown == f"{ids[5][:7]}..{ids[6][:7]}"
    assert found.suspects == ("driver 580.95 -> 581.10",)
    [change] = found.found
    _, low, high = change.change_pct
    assert low < 4.0 < high
    assert (change.status, found.open) == ("slower", True)


def test_tests_with_one_cause_share_a_range(tmp_path: Path) -> None:
    levels = [5.0] * 6 + [5.2] * 6
    lines = [*times(*levels), *times(*levels, label="backward"), *times(*[5.0] * 12, label="same")]
    [found] = ranges(lines, tmp_path)
    assert sorted(one.after.label for one in found.found) == ["backward", "main"]


def test_time_that_returned_is_not_open(tmp_path: Path) -> None:
    first, second = ranges(times(*[5.0] * 16, *[5.3] * 16, *[5.0] * 16), tmp_path)
    assert (first.found[0].status, first.open) == ("returned", False)
    assert first.found[0].note == f"to the old level at {second.after.commit[:7]}"
    assert (second.found[0].status, second.open) == ("faster", False)


def test_loss_that_a_baseline_has_is_accepted(tmp_path: Path) -> None:
    lines = times(*[5.0] * 6, *[5.2] * 6)
    key = ("nvidia-h200", NODEID, "main")
    [accepted] = ranges(lines, tmp_path, {key: {"run-0008"}})
    assert (accepted.found[0].status, accepted.open) == ("accepted", False)
    [still] = ranges(lines, tmp_path, {key: {"run-0003"}})
    assert still.open


def test_run_of_changed_files_is_not_judged(tmp_path: Path) -> None:
    lines = times(*[5.0] * 12)
    lines[5:8] = times(*[9.0] * 8, dirty=True)[5:8]
    assert ranges(lines, tmp_path) == []


def test_other_cards_are_told(tmp_path: Path) -> None:
    lines = [*times(*[5.0] * 10), *times(*[5.0] * 10, *[8.0] * 10, gpu_uuid="GPU-2")[10:]]
    [found] = ranges(lines, tmp_path)
    assert found.suspects == ("the cards",)


def test_modes_and_labels_are_series_of_their_own(tmp_path: Path) -> None:
    lines = [line(0), line(1, mode="cold"), line(2, label="backward"), line(3, source="cupti")]
    assert len(series(lines, tmp_path)) == 4
