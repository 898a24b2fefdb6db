"""Times of the gallery next to true durations."""

from __future__ import annotations

import pytest

from benchmarks.works_with import FILE, Compared, Results, read, refusals, summary, times_table
from pytest_gpuperf.records import NO_GPU, Environment, Toolchain


def results(**tests: Compared) -> Results:
    return Results(
        schema=1,
        date="2026-11-22T15:00:00Z",
        environment=Environment(gpu=NO_GPU, toolchain=Toolchain()),
        packages={"liger-kernel": "0.8.5"},
        tests={name.replace("__", "[") + ("]" if "__" in name else ""): one for name, one in tests.items()},
    )


FOUND = results(
    test_liger_forward__rms_norm=Compared(time_us=67.2, true_us=67.0, mode="hot", source="events"),
    test_cublas=Compared(time_us=25.0, true_us=24.0, mode="hot", source="events"),
    test_liger_backward__rms_norm=Compared(time_us=195.1, true_us=194.4, mode="kernels", source="cupti"),
    test_jax_gelu=Compared(refused="could not import 'jax'"),
)


def test_both_passes_of_an_operation_are_one_row() -> None:
    rows = times_table(FOUND).splitlines()[2:]
    assert rows[0] == "| `liger rms_norm` | 67.20 | 67.00 | 195.1 *k* | 194.4 |"
    assert rows[1].startswith("| `cublas` | 25.00 | 24.00 |")


def test_summary_counts_times_near_the_truth() -> None:
    assert summary(FOUND).startswith("2 of 3 times differ by at most 0.4 % from the true durations.")


def test_refused_test_is_listed_with_its_message() -> None:
    assert "| `jax gelu` | refused | — |" in times_table(FOUND)
    assert refusals(FOUND) == "- `test_jax_gelu`: could not import 'jax'\n"


def test_short_time_may_differ_by_a_tenth_of_a_microsecond() -> None:
    assert Compared(time_us=1.09, true_us=1.0).agrees
    assert not Compared(time_us=1.11, true_us=1.0).agrees


@pytest.mark.skipif(not FILE.exists(), reason="not measured yet")
def test_committed_times_are_near_the_true_durations() -> None:
    far = {name: test for name, test in read(FILE).tests.items() if not test.refused and not test.agrees}
    assert not far
