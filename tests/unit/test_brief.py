"""The form of failures and summaries with `--gpuperf-brief`: at most ten lines each."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.limits import parse_limit
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.plugin.brief_reports import BriefReports
from pytest_gpuperf.report.brief import MOST_CHARACTERS, MOST_LINES, brief_lines, shortened
from pytest_gpuperf.report.rows import Summary
from pytest_gpuperf.session.marker import STATE
from report_examples import ENVIRONMENT, RECORDED, result


def test_next_step_stays_and_accepting_goes_first() -> None:
    details = [f"stall.wait {number} -> 60" for number in range(12)]
    lines = [
        *details,
        "to look closer: pytest --gpuperf-against=REF",
        "if this is intended: gpuperf baseline accept",
    ]
    text = "\n".join(["gpuperf: time_us 8 is 50.9 % slower", *(f"    {line}" for line in lines)])
    assert shortened(text, "t.py:3") == snapshot("""\
gpuperf: time_us 8 is 50.9 % slower
    stall.wait 0 -> 60
    stall.wait 1 -> 60
    stall.wait 2 -> 60
    stall.wait 3 -> 60
    stall.wait 4 -> 60
    stall.wait 5 -> 60
    to look closer: pytest --gpuperf-against=REF
… 7 more lines without --gpuperf-brief
at t.py:3\
""")


def test_short_message_stays_as_it_is() -> None:
    text = "gpuperf: slower\n    if this is intended: accept"
    assert shortened(text) == text


@given(st.text(), st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20))
def test_any_text_has_at_most_ten_short_lines(text: str, place: str) -> None:
    lines = shortened(text, place).split("\n")
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= MOST_CHARACTERS


def test_summary_names_the_worst_tests_and_errors() -> None:
    results = [
        *(result(f"t.py::test_{number}", Status.LIMIT, line="above") for number in range(7)),
        result("t.py::test_slow", Status.REGRESSED, change_pct=7.0, line="7 % slower"),
        *(result(f"t.py::test_good[{number}]") for number in range(90)),
    ]
    notices = ["run written to .gpuperf/runs/r/run.json", "error: a line\n    and its details"]
    lines = brief_lines(Summary(results, ENVIRONMENT, RECORDED, notices=notices))
    assert len(lines) <= MOST_LINES
    assert lines == snapshot(
        [
            "replayed from NVIDIA H200, commit abc1234, 2026-11-20; driver 580.95.05, torch 2.11.0+cu128, "
            "triton 3.6.0, ncu 2025.3.1.0",
            "8 of 98 judged tests failed: 1 regressed, 7 limit, 90 pass",
            "  regressed t.py::test_slow (+7.0 ±0.5 %)",
            "  limit t.py::test_0 (+0.3 ±0.5 %)",
            "  limit t.py::test_1 (+0.3 ±0.5 %)",
            "  limit t.py::test_2 (+0.3 ±0.5 %)",
            "  limit t.py::test_3 (+0.3 ±0.5 %)",
            "  … 3 more failed",
            "gpuperf: error: a line",
            "gpuperf: run written to .gpuperf/runs/r/run.json",
        ]
    )


@pytest.mark.parametrize("number", [0, 1, 5, 6, 500])
def test_summary_has_at_most_ten_lines(number: int) -> None:
    results = [result(f"t.py::test_{index}", Status.WRONG, line="off") for index in range(number)]
    notices = [f"error: {index}" for index in range(20)]
    assert len(brief_lines(Summary([*results, result()], ENVIRONMENT, None, notices=notices))) == MOST_LINES


def test_failure_is_at_the_test_if_the_plugin_lies_in_the_project() -> None:
    with pytest.raises(GpuperfError) as raised:
        parse_limit("dram_throughput")
    config = SimpleNamespace(rootpath=Path(__file__).parents[2])
    item: Any = SimpleNamespace(config=config, stash={STATE: None}, location=("test_k.py", 4, "test_k"))
    hook = BriefReports().pytest_runtest_makereport(item, SimpleNamespace(excinfo=raised))  # type: ignore[arg-type]
    next(hook)
    report: Any = SimpleNamespace(failed=True)
    with pytest.raises(StopIteration):
        hook.send(report)
    line = raised.traceback[0].lineno + 1
    assert report.longrepr.splitlines()[-1] == f"at tests/unit/test_brief.py:{line}"
