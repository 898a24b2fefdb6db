"""`gpuperf ncu --compare`, with files from ncu on an H200."""

from __future__ import annotations

import re

import pytest
from inline_snapshot import snapshot

from ncu_command import (
    FULL,
    LONG,
    PASS,
    WARNINGS,
    WIDE,
    as_csv,
    as_json,
    needs_ncu_report,
    shown,
)

pytestmark = pytest.mark.usefixtures("in_captures")


@needs_ncu_report
def test_comparison_shows_durations_then_the_largest_movers() -> None:
    assert shown(FULL, "--compare", PASS, "--kernel=square", "--preset=sol") == snapshot(
        [
            "old: profiling_pass/report.ncu-rep.gz, NVIDIA H200 (compute capability 9.0), ncu 2025.3.1.0",
            "new: triton_square_gemm_set_full.ncu-rep.gz, NVIDIA H200 (compute capability 9.0), ncu 2025.3.1.0,",  # noqa: E501
            "  SM clock 1957 MHz",
            "",
            "kernel                old              new",
            "--------------------------------------------------",
            "#0 square_kernel  4.90 µs  4.64 µs  -5.2 %  better",
            "all 3 -> all 1    14.8 µs  4.64 µs -68.5 %  better",
            "",
            "only in old: #2 square_kernel, #3 square_kernel",
            "",
            "  metric             unit    old               new",
            "----------------------------------------------------------",
            "#0 square_kernel",
            "  duration_us        us     4.90  4.64      -5.2 %  better",
            "  l1_throughput      %      40.1  42.3 +2.2 points  better",
            "  memory_throughput  %      42.9  44.9 +2.0 points  better",
            "  l2_throughput      %      59.2  61.1 +2.0 points  better",
            "  dram_throughput    %      24.4  25.7 +1.3 points  better",
            "  sm_throughput      %      11.8  10.6 -1.2 points  worse",
            "  issue_active       %      20.9  20.4 -0.4 points  worse",
            "all 3 -> all 1",
            "  duration_us        us     14.8  4.64     -68.5 %  better",
            "  grid_size          block  5469  1823     -66.7 %",
            "  l2_throughput      %      58.9  61.1 +2.2 points  better",
            "  memory_throughput  %      42.8  44.9 +2.1 points  better",
            "  dram_throughput    %      24.3  25.7 +1.4 points  better",
            "  sm_throughput      %      11.7  10.6 -1.1 points  worse",
            "  l1_throughput      %      41.6  42.3 +0.7 points  better",
            "  issue_active       %      20.7  20.4 -0.3 points  worse",
        ]
    )


@needs_ncu_report
def test_only_the_largest_movers_are_shown_without_a_preset() -> None:
    few, every = (
        shown(FULL, "--compare", PASS, "--kernel=square", *preset) for preset in ([], ["--preset=all"])
    )
    assert any(re.fullmatch(r"\d+ moved less: --preset=all shows them", line) for line in few)
    assert len(every) > len(few)
    assert not any("moved less" in line for line in every)


def test_file_compared_with_itself_has_not_moved() -> None:
    lines = shown(WARNINGS, "--compare", WARNINGS, "--kernel=^square")
    assert lines[-1] == "nothing moved in #0 square_kernel"
    assert "better" not in "".join(lines)


@pytest.mark.parametrize(("file", "other"), [(LONG, WIDE), (WIDE, LONG)])
def test_rounding_of_ncu_has_no_effect(file: str, other: str) -> None:
    lines = shown(file, "--compare", other, "--preset=all")  # two pages of one report
    moved = [line.split() for line in lines if line.split()[:1] == ["shared_memory.driver"]]
    assert {line[-2] for line in moved} == {"-0.4" if file == LONG else "+0.4"}
    assert not {"better", "worse"} & set(" ".join(lines).split())
    assert {row["effect"] for row in as_csv(file, "--compare", other)} == {""}
    found = as_json(file, "--compare", other)["lines"]
    assert {cell["effect"] for line in found for cell in line["cells"]} == {""}


@needs_ncu_report
def test_json_has_both_sides_of_each_metric() -> None:
    result = as_json(FULL, "--compare", PASS, "--preset=launch", "--metric=instructions")
    assert (result["sources"], result["columns"]) == ([PASS, FULL], ["old", "new"])
    lines = {(line["subject"], line["metric"]): line["cells"] for line in result["lines"]}
    assert next(iter(lines)) == ("#0 square_kernel", "instructions")  # moved by 7.6 %
    old, new = lines["#0 square_kernel", "duration_us"]
    assert (old["value"], new["value"], new["effect"]) == (4.896, 4.64, "better")
    assert new["change_pct"] == pytest.approx(-5.22876, abs=1e-5)
    assert lines["#3 square_kernel", "duration_us"][1]["value"] is None
    assert lines["#2 matmul_kernel", "duration_us"][0]["value"] is None
    grid = lines["all 4 -> all 3", "grid_size"]
    assert grid[0]["value"] == 5533.0  # 3 * 1823 + 64
    assert grid[1]["effect"] == ""
    still = lines["#0 square_kernel", "grid_size"][1]
    assert (still["change_pct"], still["effect"]) == (0.0, "")
