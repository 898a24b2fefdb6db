"""The choice of launches of a call: `launches=`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.counter_source import CounterSource, RawKernel
from pytest_gpuperf.metrics.combination import combine
from pytest_gpuperf.records import KernelProfile, Measurement, Profile
from pytest_gpuperf.records.call import Call, Launches, Selection, check_launches
from run_builders import record, run
from run_results import expect

if TYPE_CHECKING:
    from runs_of_pytest import AddRecording


LAUNCHED = [RawKernel(name=name) for name in ("copy", "gemm_a", "gemm_b", "copy", "gemm_c")]


@pytest.mark.parametrize(
    ("launches", "kept"),
    [
        ("all", ["gemm_a", "gemm_b", "gemm_c"]),
        ("first", ["gemm_a"]),
        ("last", ["gemm_c"]),
        (1, ["gemm_b"]),
        (-2, ["gemm_b"]),
    ],
)
def test_launch_number_counts_matching_kernels_only(launches: Launches, kept: list[str]) -> None:
    call = Call("test_k.py::test_k", "main", print)
    found = CounterSource("ncu", "").choose(call, LAUNCHED, Selection("gemm", launches), list)
    assert [kernel.name for kernel in found] == kept


@pytest.mark.parametrize("index", [3, -4])
def test_missing_launch_error_states_the_count(index: int) -> None:
    call = Call("test_k.py::test_k", "main", print)
    with pytest.raises(
        GpuperfError, match=rf"launches={index} of print, of which 3 launches.* from -3 to 2$"
    ):
        CounterSource("ncu", "").choose(call, LAUNCHED, Selection("gemm", index), list)


@pytest.mark.parametrize("value", ["second", "0", 1.0, True, None, [0]])
def test_invalid_launches_are_an_error(value: object) -> None:
    with pytest.raises(GpuperfError, match=r"launches=.* of test_k; expected 'all', 'first', 'last', or"):
        check_launches(value, "of test_k")


def test_first_and_last_launch_have_one_name() -> None:
    names = [Selection(None, check_launches(index, "")).recorded for index in (0, -1, 2)]
    assert names == ["first", "last", "2"]


CHAIN = tuple(KernelProfile(name="k", metrics={"duration_us": us}) for us in (8.0, 2.0, 6.0))
TIMES_US = {"copy": 100.0, "gemm<half>": 7.0, "gemm<float>": 9.0}
COPY_AND_GEMM = tuple(
    KernelProfile(name=name.partition("<")[0], demangled=name, metrics={"duration_us": us})
    for name, us in TIMES_US.items()
)


def test_launches_of_a_call_beat_the_marker(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    profile = Profile(kernels=CHAIN, combined=combine(CHAIN))
    add_recording(run(record("test_k.py::test_k", main=Measurement(profile=profile))))
    pytester.makepyfile(
        test_k="""
        import pytest
        @pytest.mark.gpuperf(launches="last")
        def test_k(gpuperf):
            profile = gpuperf.profile(print, launches="all")
            assert [kernel.metrics["duration_us"] for kernel in profile.kernels] == [8.0, 2.0, 6.0]
        """
    )
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


FIRST = Profile(kernels=CHAIN[:1], combined=combine(CHAIN[:1]), launches="first")
OF_GEMM = Profile(kernels=COPY_AND_GEMM, combined=combine(COPY_AND_GEMM), regex="gemm")
OF_ALL = Profile(kernels=COPY_AND_GEMM, combined=combine(COPY_AND_GEMM))


@pytest.mark.parametrize(
    ("recorded", "asked", "why"),
    [
        (FIRST, "launches='last'", "has launches=first of all kernels, *asks for launches=last of all*"),
        (OF_GEMM, "kernels='copy'", "has launches=all of kernels='gemm', *asks for *kernels='copy'*"),
        (OF_GEMM, "launches='first'", "has launches=all of kernels='gemm', *launches=first of all kernels*"),
        (OF_ALL, "kernels='gemm'", "has launches=all of all kernels, *asks for *kernels='gemm'*"),
    ],
)
def test_unrecorded_launches_are_skipped(
    pytester: pytest.Pytester, add_recording: AddRecording, recorded: Profile, asked: str, why: str
) -> None:
    add_recording(run(record("test_k.py::test_k", main=Measurement(profile=recorded))))
    pytester.makepyfile(test_k=f"def test_k(gpuperf):\n    gpuperf.profile(print, {asked})\n")
    expect(pytester.runpytest("--gpuperf", "-rs"), f"*recording {why}", skipped=1)
