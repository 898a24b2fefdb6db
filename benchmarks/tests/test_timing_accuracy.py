"""Tests of the accuracy benchmark, from messages of its processes to the tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from benchmarks.children import Child, ChildError
from benchmarks.results_file import encode
from benchmarks.timing_accuracy import measure as measuring
from benchmarks.timing_accuracy import others
from benchmarks.timing_accuracy.kernels import KERNELS
from benchmarks.timing_accuracy.measure import gpu_jobs, host_jobs, measure
from benchmarks.timing_accuracy.results import SCHEMA, Ours, Placement, Process, Results, Truth, read
from benchmarks.timing_accuracy.tables import others_table, ours_table, placement_table, rows, summary
from benchmarks.timing_accuracy.truth import by_call
from pytest_gpuperf.errors import GpuperfError

if TYPE_CHECKING:
    from benchmarks.children import Parent


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Results:
    """Return the results of a run with a missing tool and an early end of the true durations."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    gpu = [
        ("ours 1", "fake_children:ours_and_truth", ("hot", "cold"), 20.0),
        ("placement", "fake_children:placement", (), 20.0),
        ("do_bench", "fake_children:other", (), 20.0),
        ("ours 2", "fake_children:ours", ("hot", "cold"), 20.0),
    ]
    monkeypatch.setattr(measuring, "gpu_jobs", lambda processes: gpu)
    monkeypatch.setattr(measuring, "host_jobs", lambda: [("gpucheck", "no_such_tool:measure", (), 20.0)])
    path = tmp_path / "results.json"
    kept = []
    measured = measure(2, lambda so_far: kept.append(path.write_bytes(encode(so_far))), lambda _: None)
    assert len(kept) == 5
    assert read(path) == measured
    return measured


def found(hot_us: tuple[float, ...], *truths_us: float, mhz: float = 1979.0, failure: str = "") -> Results:
    """Return results of one kernel with the same time hot and cold, one for each process."""
    return Results(
        schema=SCHEMA,
        date="2026-11-21T10:00:00Z",
        max_sm_clock_mhz=1980,
        processes=tuple(
            Process(
                ours={
                    "square 64²": {
                        mode: Ours(time_us=time_us, sm_clock_mhz=mhz, failure=failure)
                        for mode in ("hot", "cold")
                    }
                },
                truth={"square 64²": Truth(hot_us=true_us, cold_us=true_us)},
            )
            for time_us, true_us in zip(hot_us, truths_us, strict=True)
        ),
    )


def test_failures_are_named_and_the_rest_kept(results: Results) -> None:
    assert results.failures == {
        "ours 1": "ended with status 1: ValueError: 61 kernels in 60 calls",
        "gpucheck": "ended with status 1: ModuleNotFoundError: No module named 'no_such_tool'",
    }
    assert [process.truth for process in results.processes] == [
        {"square 64²": Truth(hot_us=0.95, cold_us=1.2)},
        {},
    ]
    assert [process.ours["square 64²"]["hot"].time_us for process in results.processes] == [1.0, 1.0]
    assert results.processes[0].ours["square 256²"]["cold"].failure == "GpuperfError: too short"
    assert results.others == {"do_bench": {"square 64²": 4.26}}
    assert results.tools == {"triton": "3.6.0"}
    assert results.placement == {"square 64²": {"cold": Placement(same_us=(1.0, 1.1), other_us=(1.2,))}}
    assert results.environment is not None
    assert results.environment.commit == "c0ffee1234"
    assert set(results.seconds) == {"ours 1", "placement", "do_bench", "ours 2", "gpucheck"}


def test_summary_counts_near_kernels_and_names_failures(results: Results) -> None:
    text = summary(results)
    assert text.startswith("NVIDIA H200, driver 580, torch 2.11.0, commit c0ffee1, ")
    assert "; 2 processes. Target: within max(2 %, 0.1 µs) of the true duration. Hot: 1 of 1 kernels" in text
    assert "Cold: 0 of 1 kernels" in text
    assert "the worst is square 64², -0.20 µs (-16.7 %)" in text
    assert "No times by gpucheck: ended with status 1" in text
    assert "\n\n" not in text


def test_table_has_error_and_spread_of_each_kernel() -> None:
    table = ours_table(found((4.95, 5.01, 5.05), 4.85, 4.9, 4.95), "hot")
    assert table.splitlines()[2:] == ["|square 64²|4.90|2.04|5.01|+0.10|+2.1|2.00|events|"]


def test_placement_table_compares_same_and_other_memory() -> None:
    placed = {"hot": Placement(same_us=(1.0, 1.002, 1.001), other_us=(1.0, 1.05, 1.02))}
    one = msgspec.structs.replace(found((1.0,), 1.0), placement={"square 64²": placed})
    assert placement_table(one).splitlines()[2:] == ["|square 64²|0.10|2.46|—|—|"]
    assert (
        "Standard deviation of short kernels in one process, hot: 0.10 to 0.10 % on the same tensors, "
        "2.46 to 2.46 % on new ones."
    ) in summary(one)


def test_other_tools_are_compared_in_their_condition(results: Results) -> None:
    titles, _, row = others_table(results).splitlines()
    assert titles == ("|kernel|hot, true µs|this plugin|cold, true µs|this plugin|triton.testing.do_bench|")
    assert row == "|square 64²|0.95|+5.3|1.20|-16.7|3.5-fold|"


@pytest.mark.parametrize(
    ("times_us", "truths_us", "near"),
    [
        ((0.95, 1.05), (1.0, 1.0), True),  # within 0.1 µs
        ((0.95, 1.12), (1.0, 1.0), False),  # one process is not
        ((0.95, 1.12), (1.0, 1.1), True),  # within that process
        ((101.5, 101.9), (100.0, 100.0), True),  # within 2 %
        ((101.5, 102.1), (100.0, 100.0), False),
    ],
)
def test_near_requires_every_process_within_the_target(
    times_us: tuple[float, ...], truths_us: tuple[float, ...], *, near: bool
) -> None:
    (row,) = rows(found(times_us, *truths_us), "hot")
    assert row.near is near
    assert row.median_near


def test_power_limited_kernels_count_for_no_target() -> None:
    limited = found((170.0, 190.0), 180.0, 180.0, mhz=1600.0)
    assert "square 64² (power-limited)" in ours_table(limited, "hot")
    assert "kernels are within" not in summary(limited)
    assert "At the power limit, not counted: square 64²." in summary(limited)


def test_untimed_kernel_has_no_figures() -> None:
    table = ours_table(found((0.0,), 5.0, failure="GpuperfError: too short"), "cold")
    assert table.splitlines()[2:] == ["|square 64²|5.00|—|—|—|—|—|—|"]


def test_jobs_are_complete_and_unique() -> None:
    names = [name for name, *_ in [*gpu_jobs(4), *host_jobs()]]
    assert len(set(names)) == len(names) == 4 + 8
    assert sum("queued" in arguments for _, _, arguments, _ in gpu_jobs(4)) == 1
    assert len(KERNELS) == 12


def test_triton_without_a_timer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("triton.testing.do_bench_proton", raising=False)
    with pytest.raises(RuntimeError, match=r"Triton 3\.\d.* has no do_bench_proton"):
        others.triton(cast("Parent", None), "do_bench_proton")


def test_durations_are_summed_by_call() -> None:
    records = [("split", 2.0), ("reduce", 1.0)] * 3
    assert by_call(records, 3) == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("records", [[], [("a", 1.0)] * 5])
def test_calls_with_different_launches_are_refused(records: list[tuple[str, float]]) -> None:
    with pytest.raises(ValueError, match=f"{len(records)} kernels in 3 calls"):
        by_call(records, 3)


def test_pytest_benchmark_medians_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
    # Under pytest-xdist, pytest-benchmark would switch itself off.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    child = Child("fake_children:pytest_benchmark_on_cpu")
    child.begin()
    try:
        messages = child.messages(60)
        said = next(messages)
        assert (said["tool"], list(said["times_us"])) == ("pytest-benchmark", ["sum"])
        assert 0.1 < said["times_us"]["sum"] < 10_000
        with pytest.raises(ChildError, match=r"broken.*out of memory"):
            next(messages)
    finally:
        child.stop()


def test_results_of_a_newer_schema_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(encode(Results(schema=SCHEMA + 1, date="2026-11-21")))
    with pytest.raises(GpuperfError, match="newer"):
        read(path)
