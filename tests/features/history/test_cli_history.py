"""`gpuperf history`."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from inline_snapshot import snapshot
from msgspec import structs

from command_line import gpuperf
from history_builders import commit_of, times
from pytest_gpuperf.features.history.store import HistoryStore
from pytest_gpuperf.records import Measurement, OtherTime, Run
from pytest_gpuperf.records.run_store import RunStore
from run_builders import NODEID, measured, record, run, timing

if TYPE_CHECKING:
    from pathlib import Path


history = partial(gpuperf, "history")


def keep(project: Path, *runs: Run) -> None:
    for each in runs:
        RunStore(project / ".gpuperf").write(each)


def step(project: Path) -> None:
    HistoryStore(project / "perf-history").add(times(*[5.0] * 6, *[5.2] * 6))


def test_newest_run_is_added_once(project: Path) -> None:
    keep(project, run(record(main=measured(), cold=measured(7.0))))
    assert history("add").output == snapshot("""\
run 20261120-173012-3f9a, commit c0ffee1, 2026-11-20, nvidia-h200: 2 times
2 new lines in perf-history
""")
    assert history("add", "20261120").output.endswith("0 new lines in perf-history\n")


def test_wrong_and_failed_tests_are_left_out(project: Path) -> None:
    wrong = record("t/test_a.py::test_wrong", main=measured(correct=False))
    failed = record("t/test_a.py::test_failed", failure="ValueError", main=measured())
    by_host = structs.replace(timing(9.0, "host"), not_captured="it synchronises")
    only_host = record("t/test_a.py::test_host", main=Measurement(timing=by_host))
    keep(project, run(wrong, failed, only_host))
    assert history("add").output == snapshot("""\
run 20261120-173012-3f9a, commit c0ffee1, 2026-11-20, nvidia-h200: 0 times
  left out t/test_a.py::test_wrong: the output is wrong
  left out t/test_a.py::test_failed: the test failed: ValueError
  left out t/test_a.py::test_host: the time is by the host's clock, as CUPTI was missing
0 new lines in perf-history
""")


def test_later_run_keeps_the_source_of_the_first(project: Path) -> None:
    both = structs.replace(timing(6.0), source="cupti", other=OtherTime(time_us=6.5))
    keep(
        project,
        run(record(main=measured(6.5)), id="first"),
        run(record(main=Measurement(timing=both)), id="second"),
    )
    assert history("add", "second", "first").exit_code == 0
    assert {found.source for found in HistoryStore(project / "perf-history").load()} == {"cupti", "events"}
    assert history("add", "first", "second", "--store", "other").exit_code == 0
    assert {found.source for found in HistoryStore(project / "other").load()} == {"events"}


def test_one_test_is_listed_by_commit(project: Path) -> None:
    step(project)
    result = history("show", "triton", "--last", "8", status=0)
    assert result.output == snapshot("""\
suites/test_square.py::test_triton[1823x781], nvidia-h200, hot by events, as measured

commit         date  runs      time
-----------------------------------
0000004  2026-11-01     1  4.998 µs
0000005  2026-11-01     1  5.000 µs
0000006  2026-11-01     1  5.202 µs
    step +4.0 % (+3.8 to +4.2), slower
0000007  2026-11-01     1  5.199 µs
0000008  2026-11-01     1  5.200 µs
0000009  2026-11-01     1  5.202 µs
000000a  2026-11-01     1  5.198 µs
000000b  2026-11-01     1  5.201 µs

4 older commits not shown: --last 0 shows all

in the order of dates: git does not know 12 of 12 commits here, such as 0000000
""")


def test_all_tests_are_listed(project: Path) -> None:
    step(project)
    assert history("show").output == snapshot("""\
  test                   runs      time  newest change          status
----------------------------------------------------------------------
nvidia-h200, suites/test_square.py
  test_triton[1823x781]    12  5.201 µs  +4.0 % (+3.8 to +4.2)  slower

1 time at 12 commits, in the order of dates: git does not know 12 of 12 commits here, such as
  0000000
""")


def test_open_loss_exits_with_one(project: Path) -> None:
    step(project)
    result = history("show", "--changes", status=1)
    assert result.output == snapshot("""\
nvidia-h200, 0000005..0000006, 2026-11-01

test                                          change                 status
---------------------------------------------------------------------------
suites/test_square.py::test_triton[1823x781]  +4.0 % (+3.8 to +4.2)  slower

searched 1 time at 12 commits, in the order of dates: git does not know 12 of 12 commits here, such
  as 0000000
""")


def test_unchanged_times_exit_with_zero(project: Path) -> None:
    HistoryStore(project / "perf-history").add(times(*[5.0] * 12))
    result = history("show", "--changes")
    assert (result.exit_code, result.output.splitlines()[0]) == (0, "no change found")


def test_json_has_commits_size_and_suspects(project: Path) -> None:
    step(project)
    [change] = json.loads(history("show", "--changes", "--json").output)
    assert (change["before"], change["after"]) == (commit_of(5), commit_of(6))
    assert change["low_pct"] < 4 < change["high_pct"]
    assert (change["test"], change["suspects"]) == (NODEID, [])


def test_unknown_test_lists_the_next_command(project: Path) -> None:
    step(project)
    result = history("show", "nothing", status=2)
    assert "the history has no test 'nothing'" in result.output
    assert "gpuperf history show lists the tests" in result.output
