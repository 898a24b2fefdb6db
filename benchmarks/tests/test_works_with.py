"""Times of the gallery next to true durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.works_with import FILE, Compared, Results, exceptions, read, summary, times_table
from pytest_gpuperf.records import NO_GPU, Environment, Toolchain
from pytest_gpuperf.records.run_store import newest_recordings

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
    test_liger_forward__rms_norm=Compared(
        time_us=67.2,
        mode="hot",
        block_us=67.1,
        kernels=1,
        kernels_us=67.0,
        over_kernels_pct=0.31,
        span_us=67.05,
        over_span_pct=0.1,
        mhz=(1980.0, 1980.0, 1980.0, 1980.0),
    ),
    test_sdpa=Compared(
        time_us=91.0,
        mode="hot",
        block_us=84.6,
        kernels=2,
        kernels_us=80.2,
        over_kernels_pct=5.5,
        span_us=84.9,
        over_span_pct=-0.8,
        held_back=True,
        mhz=(1628.2, 1764.7, 1736.2, 1759.4),
    ),
    test_extension=Compared(
        time_us=117.2,
        mode="hot",
        block_us=117.2,
        kernels=1,
        kernels_us=125.0,
        over_kernels_pct=-6.2,
        span_us=117.4,
        over_span_pct=-0.04,
    ),
    test_numba=Compared(
        time_us=195.1, mode="kernels", block_us=195.0, kernels=1, kernels_us=190.2, over_kernels_pct=2.5
    ),
    test_jax_gelu=Compared(refused="could not import 'jax'"),
)


def test_row_has_time_and_true_durations_with_the_valid_one_bold() -> None:
    rows = times_table(FOUND).splitlines()[2:]
    assert rows[0] == "|`liger_forward[rms_norm]`|67.20|67.10|**67.00**|67.05|+0.3|"
    assert rows[3] == "|`numba`|195.1 *k*|195.0|**190.2**||+2.5|"
    assert rows[4] == "|`jax_gelu`|refused|||||"


def test_span_is_true_for_several_kernels() -> None:
    assert times_table(FOUND).splitlines()[3] == "|`sdpa`|91.00|84.60|80.20|**84.90**|-0.8|"


def test_span_is_true_if_the_profiler_slows_a_kernel() -> None:
    assert times_table(FOUND).splitlines()[4] == "|`extension`|117.2|117.2|125.0|**117.4**|0.0|"


def test_summary_counts_times_near_the_truth() -> None:
    assert summary(FOUND).startswith("3 of 4 times differ by at most 0.8 % from the true durations.")


def test_exceptions_are_differences_refusals_and_clocks() -> None:
    assert exceptions(FOUND).splitlines() == [
        "- `sdpa`, in MHz: time 1628, blocks 1765, kernels 1736, span 1759",
        "- `numba`: +2.5 %; CUPTI slows kernels of many short blocks",
        "- `jax_gelu`: could not import 'jax'",
    ]


def test_short_time_may_differ_by_a_tenth_of_a_microsecond() -> None:
    assert Compared(kernels=1, kernels_us=1.0, over_kernels_pct=9.0).agrees
    assert not Compared(kernels=1, kernels_us=1.0, over_kernels_pct=11.0).agrees


def test_committed_times_are_near_the_true_durations() -> None:
    assert {name for name, test in read(FILE).tests.items() if not test.agrees} == {"test_numba_axpy"}


def test_committed_times_are_those_of_a_recording() -> None:
    # Those with a commit are of other runs.
    found = {name: test.time_us for name, test in read(FILE).tests.items() if not test.commit}
    known = recorded()
    assert found == {name: round(known[name].time_us, 3) for name in found}


def recorded() -> dict[str, Timing]:
    return {
        test.nodeid.partition("::")[2]: timing
        for run in reversed(newest_recordings(FILE.parents[2] / "baselines"))
        for test in run.tests
        if run.environment.gpu.slug == "nvidia-h200"
        and "test_third_party" in test.nodeid
        and (timing := test.measurements["main"].timing)
    }
