from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import msgspec
import pytest
from _pytest._io import TerminalWriter
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from rich.cells import cell_len

from pytest_gpuperf.judge.result import Finding, Status, TestResult
from pytest_gpuperf.plugin.late_reports import Failure
from pytest_gpuperf.records import Measurement, Profile, Workload
from pytest_gpuperf.records.run import STATIC_SOURCE, Accuracy, Correctness
from pytest_gpuperf.report.forms.as_text import cut_middle
from pytest_gpuperf.report.rows import Summary
from pytest_gpuperf.report.table import Screen
from pytest_gpuperf.report.terminal_table import summary_lines
from report_examples import ENVIRONMENT, RECORDED, profile, result, timing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records import MetricValue

LONG = "suites/test_gemm.py::test_bf16_gemm[" + "triton-128x256x64-" * 6 + "8192]"
NUMBERS = ("5.30 µs ±0.2 %", "mem 78 %", "77/100 %", "long_scoreboard 62 %", "+0.3 ±0.5 %")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def lines_of(
    results: Sequence[TestResult],
    *,
    width: int = 100,
    verbosity: int = 0,
    colour: bool = False,
    replayed: bool = False,
    counters_unavailable: str = "",
    updated: bool = False,
) -> list[str]:
    source = RECORDED if replayed else None
    summary = Summary(results, ENVIRONMENT, source, counters_unavailable, updated)
    return summary_lines(summary, Screen(width, colour), verbosity=verbosity)


def test_verbose_summary_has_rows_kernels_and_remarks() -> None:
    two_labels = {
        "main": Measurement(timing=msgspec.structs.replace(timing(), work=Workload(peak_memory_mb=4.0))),
        "cold": Measurement(timing=timing(), profile=profile("square_kernel", "reduce")),
    }
    queued = msgspec.structs.replace(timing(), mode="queued", not_captured="it synchronises")
    faster = Finding(Status.IMPROVED, "faster", "main", ("registers_per_thread 32 -> 40 (+25.0 %)",))
    results = [
        result("suites/test_square.py::test_square[bold]"),
        result("suites/test_square.py::test_labels", measurements=two_labels),
        result("suites/test_gemm.py::test_gemm", Status.REGRESSED, change_pct=7.0, line="7 % slower"),
        result("suites/test_gemm.py::test_new", Status.NEW, change_pct=None, line="no baseline"),
        result("suites/test_gemm.py::test_queued", measurements={"main": Measurement(timing=queued)}),
        TestResult(result(status=Status.IMPROVED).record, Status.IMPROVED, (faster,)),
    ]
    assert "\n".join(lines_of(results, verbosity=1)) == snapshot("""\
NVIDIA H200, driver 580.95.05, torch 2.11.0+cu128, triton 3.6.0, ncu 2025.3.1.0, commit abc1234

test                                               change  verdict
                     time       SOL  occupancy  top stall
--------------------------------------------------------------------
suites/test_square.py
test_square[bold]                             +0.3 ±0.5 %  pass
           5.30 µs ±0.2 %  mem 78 %   77/100 %  long_scoreboard 62 %
    square_kernel  5.10 µs  mem 78 %  77/100 %  32 regs  1.70 waves  long_scoreboard 62 %
test_labels                                   +0.3 ±0.5 %  pass
           5.30 µs ±0.2 %
    a call takes 4 MB beyond its arguments
test_labels (cold)                            +0.3 ±0.5 %  pass
           5.30 µs ±0.2 %  mem 78 %   77/100 %  long_scoreboard 62 %
    square_kernel  5.10 µs  mem 78 %  77/100 %  32 regs  1.70 waves  long_scoreboard 62 %
    reduce         5.10 µs  mem 78 %  77/100 %  32 regs  1.70 waves  long_scoreboard 62 %

suites/test_gemm.py
test_gemm                                     +7.0 ±0.5 %  regressed
           5.30 µs ±0.2 %  mem 78 %   77/100 %  long_scoreboard 62 %
    square_kernel  5.10 µs  mem 78 %  77/100 %  32 regs  1.70 waves  long_scoreboard 62 %
test_new                                              new  new
           5.30 µs ±0.2 %  mem 78 %   77/100 %  long_scoreboard 62 %
    square_kernel  5.10 µs  mem 78 %  77/100 %  32 regs  1.70 waves  long_scoreboard 62 %
    no baseline
test_queued                                   +0.3 ±0.5 %  pass
    5.30 µs queued ±0.2 %
    timed queued because it cannot be captured: it synchronises

suites/test_square.py
test_square                                                improved
           5.30 µs ±0.2 %  mem 78 %   77/100 %  long_scoreboard 62 %
    square_kernel  5.10 µs  mem 78 %  77/100 %  32 regs  1.70 waves  long_scoreboard 62 %
    faster
      registers_per_thread 32 -> 40 (+25.0 %)

1 test timed without a CUDA graph: test_queued: queued: it synchronises
1 test without a baseline: pytest --gpuperf --gpuperf-update=new, on this GPU, makes one
kernels timed by ncu, L2 flushed\
""")


def test_summary_of_a_replay_has_only_columns_with_values() -> None:
    untimed = result(measurements={"main": Measurement(timing=timing())}, replayed=True)
    assert "\n".join(lines_of([untimed], replayed=True)) == snapshot("""\
replayed from NVIDIA H200, commit abc1234, 2026-11-20
driver 580.95.05, torch 2.11.0+cu128, triton 3.6.0, ncu 2025.3.1.0

test                   time       change  verdict
-------------------------------------------------
suites/test_square.py
test_square  5.30 µs ±0.2 %  +0.3 ±0.5 %  pass\
""")


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    results = [
        result(LONG, Status.NEW, replayed=True, change_pct=None),
        result(
            measurements={"main": Measurement(timing=timing(flops=1), profile=profile("k" * 300, "reduce"))},
            replayed=True,
        ),
    ]
    lines = lines_of(
        results, width=width, verbosity=1, replayed=True, counters_unavailable="because " + "of this " * 30
    )
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_numbers_are_never_cut(width: int) -> None:
    text = "\n".join(lines_of([result(LONG)], width=width))
    assert [number for number in NUMBERS if number not in text] == []


@pytest.mark.parametrize("width", [120, 140, 200])
def test_wide_terminal_shows_a_test_on_one_line(width: int) -> None:
    lines = lines_of([result(f"t.py::test_{LONG}[{number}]") for number in range(10)], width=width)
    rows = [line for line in lines if line.startswith("test_")]
    assert len(rows) == 10
    assert len(lines) < 20
    for shown in ("5.30 µs ±0.2 %", "mem 78 %", "+0.3 ±0.5 %", "pass"):
        assert shown in rows[0]


@pytest.mark.parametrize(
    ("length", "missing"), [(20, {"error"}), (30, {"error", "occupancy"}), (45, {"top stall"})]
)
def test_least_useful_columns_go_first(length: int, missing: set[str]) -> None:
    correctness = Correctness(passed=True, accuracy=Accuracy(rms_ulp=0.29))
    work = timing(bytes=10_000_000)
    measured = Measurement(timing=work, profile=profile("k"), correctness=correctness)
    lines = lines_of([result("t.py::" + "x" * length, measurements={"main": measured})], width=120)
    assert {title for title in ("error", "occupancy", "top stall") if title not in lines[2]} == missing


@pytest.mark.parametrize("nodeid", ["t.py::test_static", "u.py::test_static"])
def test_compiled_kernels_have_columns_of_their_own(nodeid: str) -> None:
    metrics: dict[str, MetricValue] = {"theoretical_occupancy": 12.0, "registers_per_thread": 255.0}
    static = Measurement(profile=Profile(source=STATIC_SOURCE, combined=metrics))
    results = [result("t.py::test_a"), result(nodeid, measurements={"main": static}, change_pct=None)]
    rows = [line for line in lines_of(results, width=120) if line.startswith("test")]
    titles, measured, titles_of_compiled, compiled = [line.split() for line in rows]
    assert titles[:2] == ["test", "time"]
    assert measured[-1] == "pass"
    assert titles_of_compiled == ["test", "occupancy", "compiled", "verdict"]
    assert compiled == ["test_static", "≤12", "%", "255", "regs", "pass"]


def test_failure_is_coloured() -> None:
    file = io.StringIO()
    writer = TerminalWriter(file)
    writer.hasmarkup = True
    Failure("gpuperf: 7 % slower\n    waves 3 -> 4").toterminal(writer)
    assert file.getvalue() == "\x1b[31m\x1b[1mgpuperf: 7 % slower\x1b[0m\n    waves 3 -> 4\n"


def test_only_notable_tests_of_many_are_shown() -> None:
    results = [result(f"t.py::test_x[{number}]") for number in range(100)]
    results[42] = result("t.py::test_x[42]", Status.REGRESSED)
    results[50] = result("t.py::test_x[50]", Status.INVALID)
    lines = lines_of(results)
    assert [line.split()[0] for line in lines if line.startswith("test_")] == ["test_x[42]", "test_x[50]"]
    assert "… 98 more passed; -v shows them" in lines


def test_only_the_worst_of_too_many_are_shown() -> None:
    results = [result(f"t.py::test_x[{number}]", Status.NEW) for number in range(100)]
    results.append(result("t.py::test_x[last]", Status.WRONG))
    lines = lines_of(results)
    assert any(line.startswith("test_x[last]") for line in lines)
    assert "… 91 more (91 new); -v shows them" in lines


def test_colour_adds_escape_sequences_and_nothing_else() -> None:
    results = [result(status=status) for status in Status]
    coloured = lines_of(results, colour=True)
    assert any("\x1b[1;31mregressed" in line for line in coloured)
    assert [ANSI.sub("", line).rstrip() for line in coloured] == lines_of(results)


def test_wrapped_lines_never_start_a_workflow_command() -> None:
    lines = lines_of([result()], width=40, counters_unavailable="because " * 5 + "::error::x ##[error]y")
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in lines)
    assert any("error::x" in line for line in lines)


@given(st.text(), st.integers(min_value=5, max_value=40))
def test_cut_name_fits_for_any_characters(text: str, width: int) -> None:
    cut = cut_middle(text, width)
    assert cell_len(cut) <= width
    assert cut == text or "…" in cut
