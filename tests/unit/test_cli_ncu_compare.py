"""`gpuperf ncu --compare`, on what ncu wrote on an H200."""

from __future__ import annotations

import pytest

from ncu_command import (
    FULL,
    LONG,
    PASS,
    WARNINGS,
    WIDE,
    as_csv,
    as_json,
    go_to_captures,
    needs_ncu_report,
    shown,
)


@pytest.fixture(autouse=True)
def _in_the_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    go_to_captures(monkeypatch)


@needs_ncu_report
def test_a_comparison_starts_with_the_durations() -> None:
    assert shown(FULL, "--compare", PASS)[:10] == [
        f"old: {PASS}",
        f"new: {FULL}",
        "",
        "kernel                old      new     change",
        "-" * 53,
        "#0 square_kernel  4.90 µs  4.64 µs     -5.2 %  better",
        "#1 matmul_kernel  6.82 µs   201 µs  +2846.9 %  worse",
        "all 4 -> all 3    21.6 µs   481 µs  +2130.6 %  worse",
        "",
        "only in old: #2 square_kernel, #3 square_kernel",
    ]


@needs_ncu_report
def test_a_comparison_has_the_largest_movers_of_each_pair() -> None:
    lines = shown(FULL, "--compare", PASS, "--preset=sol", "--kernel=square")
    start = lines.index("#0 square_kernel")
    assert lines[start + 3 : start + 11] == [
        "    duration_us        us    4.90  4.64       -5.2 %  better",
        "    l1_throughput      %     40.1  42.3  +2.2 points  better",
        "    memory_throughput  %     42.9  44.9  +2.0 points  better",
        "    l2_throughput      %     59.2  61.1  +2.0 points  better",
        "    dram_throughput    %     24.4  25.7  +1.3 points  better",
        "    sm_throughput      %     11.8  10.6  -1.2 points  worse",
        "    issue_active       %     20.9  20.4  -0.4 points  worse",
        "    13 did not move",
    ]


@needs_ncu_report
def test_a_comparison_without_a_preset_shows_the_first_few() -> None:
    lines = shown(FULL, "--compare", PASS, "--kernel=square")
    start = lines.index("#0 square_kernel")
    assert len(lines[start + 3 : lines.index("", start)]) == 9
    assert "moved less, --preset=all shows them" in lines[lines.index("", start) - 1]


def test_a_file_beside_itself_has_not_moved() -> None:
    lines = shown(WARNINGS, "--compare", WARNINGS, "--kernel=^square")
    assert lines[-1] == "nothing moved in #0 square_kernel"
    assert "better" not in "".join(lines)


@pytest.mark.parametrize(("file", "other"), [(LONG, WIDE), (WIDE, LONG)])
def test_what_ncu_rounds_in_its_csv_is_shown_and_neither_better_nor_worse(file: str, other: str) -> None:
    lines = shown(file, "--compare", other, "--preset=all")  # two pages of one report
    moved = [line.split() for line in lines if line.split()[:1] == ["shared_memory.driver"]]
    assert {line[-2] for line in moved} == {"-0.4" if file == LONG else "+0.4"}
    assert not {"better", "worse"} & set(" ".join(lines).split())
    assert {row["effect"] for row in as_csv(file, "--compare", other)} == {""}
    result = as_json(file, "--compare", other)
    pairs = [*result["kernels"], result["all"]]
    assert {metric["effect"] for pair in pairs for metric in pair["metrics"].values()} == {""}


@needs_ncu_report
def test_a_comparison_as_json_has_both_sides_of_each_metric() -> None:
    result = as_json(FULL, "--compare", PASS, "--preset=launch", "--metric=instructions")
    first = result["kernels"][0]
    assert (first["name"], first["old_launch"], first["new_launch"]) == ("square_kernel", 0, 0)
    assert first["metrics"]["duration_us"] == {
        "old": 4.896,
        "new": 4.64,
        "unit": "us",
        "change_pct": pytest.approx(-5.22876, abs=1e-5),
        "effect": "better",
    }
    assert next(iter(first["metrics"])) == "instructions"  # moved by 7.6 %
    assert [kernel["launch"] for kernel in result["only_old"]] == [2, 3]
    assert [kernel["launch"] for kernel in result["only_new"]] == [2]
    assert result["all"]["metrics"]["grid_size"]["old"] == 5533.0  # 3 * 1823 + 64
    assert result["all"]["metrics"]["grid_size"]["effect"] == ""


@needs_ncu_report
def test_a_comparison_as_csv_has_a_row_for_each_metric() -> None:
    rows = as_csv(FULL, "--compare", PASS, "--preset=launch", "--metric=instructions")
    assert {row["name"] for row in rows} == {"square_kernel", "matmul_kernel", "all"}
    first = rows[0]
    assert (first["metric"], first["unit"], first["effect"]) == ("instructions", "inst", "better")
    assert (float(first["old"]), float(first["new"])) == (576068.0, 532316.0)
    alone = [row for row in rows if row["new_launch"] == "" and row["name"] != "all"]
    assert {row["old_launch"] for row in alone} == {"2", "3"}
    assert all(row["old"] and not row["new"] and not row["change_pct"] for row in alone)
