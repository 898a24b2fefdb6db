"""Times of the gallery next to true durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.works_with import FILE, Compared, Results, exceptions, read, summary, times_table
from pytest_gpuperf.records import NO_GPU, Environment, Toolchain
from pytest_gpuperf.records.runs import newest_recordings

if TYPE_CHECKING:
    from pytest_gpuperf.records import Timing


def results(**tests: Compared) -> Results:
    return Results(
        schema=1,
        date="2026-11-22T15:00:00Z",
        environment=Environment(gpu=NO_GPU, toolchain=Toolchain()),
        packages={"liger-kernel": "0.8.5"},
        tests={name.replace("__", "[") + ("]" if "__" in name else ""): one for name, one in tests.items()},
    )


FOUND = results(
    test_liger_forward__rms_norm=Compared(time_us=67.2, true_us=67.0, true_source="cupti", mode="hot"),
    test_cublas=Compared(time_us=25.0, true_us=24.0, mode="hot", kernels=1, held_back=True),
    test_numba=Compared(time_us=195.1, true_us=194.4, true_source="ncu", mode="kernels"),
    test_rope=Compared(time_us=3.0, mode="hot"),
    test_jax_gelu=Compared(refused="could not import 'jax'"),
)


def test_row_has_time_true_duration_and_difference() -> None:
    rows = times_table(FOUND).splitlines()[2:]
    assert rows[0] == "|`liger_forward[rms_norm]`|67.20|67.00|+0.3|"
    assert rows[1] == "|`cublas`|25.00|24.00†|+4.2|"
    assert rows[2] == "|`numba`|195.1 *k*|194.4‡|+0.4|"
    assert rows[3] == "|`rope`|3.00|||"
    assert rows[4] == "|`jax_gelu`|refused|||"


def test_summary_counts_times_near_the_truth() -> None:
    assert summary(FOUND).startswith("2 of 3 times differ by at most 0.4 % from the true durations.")


def test_exceptions_have_reasons_and_refusals_messages() -> None:
    power, refused = exceptions(FOUND).splitlines()
    assert power.startswith("- `cublas`: the power limit")
    assert refused == "- `jax_gelu`: could not import 'jax'"


def test_short_time_may_differ_by_a_tenth_of_a_microsecond() -> None:
    assert Compared(time_us=1.09, true_us=1.0).agrees
    assert not Compared(time_us=1.11, true_us=1.0).agrees


def test_committed_times_are_near_the_true_durations() -> None:
    known = {
        "test_fla_retention",
        "test_helion_matmul",
        "test_numba_axpy",
        "test_cuda_extension",
        "test_sdpa",
    }
    assert {name for name, test in read(FILE).tests.items() if not test.agrees} == known


def test_committed_times_are_those_of_a_recording() -> None:
    found = {name: test.time_us for name, test in read(FILE).tests.items()}
    assert found == {name: round(timing.time_us, 3) for name, timing in recorded().items()}


def test_committed_true_durations_are_those_of_a_recording() -> None:
    timings = recorded()
    tests = read(FILE).tests.items()
    by_cupti = {name: test.true_us for name, test in tests if test.true_us and test.true_source == "cupti"}
    assert by_cupti == {name: round(timings[name].cupti_us, 3) for name in by_cupti}
    others = {name for name, test in tests if test.true_us and name not in by_cupti}
    assert others == {"test_numba_axpy"}  # by ncu


def recorded() -> dict[str, Timing]:
    return {
        test.nodeid.partition("::")[2]: timing
        for run in newest_recordings(FILE.parents[2] / "baselines")
        for test in run.tests
        if "test_third_party" in test.nodeid and (timing := test.measurements["main"].timing)
    }
