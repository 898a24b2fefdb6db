"""Table and sentences about planted bugs."""

from __future__ import annotations

from benchmarks.fuzz_figures import Results, summary, table
from pytest_gpuperf.records import NO_GPU, Environment, Fuzzing, Toolchain

FOUND = Results(
    schema=1,
    date="2026-11-22T15:00:00Z",
    environment=Environment(gpu=NO_GPU, toolchain=Toolchain()),
    bugs={"tail_columns": Fuzzing(passed=False, cases=70, seconds=1.0, found_after=5, case="m=1, n=129")},
    honest={
        "softmax": Fuzzing(passed=True, cases=1200, seconds=5.0),
        "matmul": Fuzzing(passed=False, cases=800, seconds=5.0, found_after=9),
    },
    check_ms=12.34,
    red_zones_ms=3.21,
)


def test_row_has_case_number_and_smallest_case() -> None:
    assert table(FOUND).splitlines()[2:] == ["|`tail_columns`|5|m=1, n=129|"]


def test_summary_has_rate_and_accusations() -> None:
    text = summary(FOUND)
    assert text.startswith("torch's softmax, matmul: 2,000 cases, 200 per second, 1 accused. ")
    assert "Red zones take 3.2 of the 12.3 ms" in text
