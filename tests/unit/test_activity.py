"""CUPTI's activity records, as CUPTI writes them."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from cuda_header import cuda_numbers
from fake_cupti import FakeCupti
from pytest_gpuperf.measure import first_calls
from pytest_gpuperf.measure.cupti import activity, libcupti, range_profiler
from pytest_gpuperf.measure.cupti.activity import Activity


@pytest.fixture
def recorder() -> activity._Recorder:
    return activity._Recorder(FakeCupti(), activity._CONCURRENT_KERNEL)


@pytest.mark.parametrize(
    ("record", "kind", "copy_kind", "with_host"),
    [
        (activity._MemoryRecord, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_MEMCPY_KIND_HTOD", True),
        (activity._MemoryRecord, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_MEMCPY_KIND_DTOD", False),
        (activity._PeerCopy, "CUPTI_ACTIVITY_KIND_MEMCPY2", "CUPTI_ACTIVITY_MEMCPY_KIND_PTOP", False),
        (activity._MemoryRecord, "CUPTI_ACTIVITY_KIND_MEMSET", "", False),
    ],
)
def test_copies_and_fills_are_read(
    recorder: activity._Recorder, record: Any, kind: str, copy_kind: str, with_host: bool
) -> None:
    numbers = cuda_numbers("cupti_activity.h")
    kinds = {"kind": numbers[kind], "copy_kind": numbers.get(copy_kind, 0)}
    memory = record(bytes=64, start=10, end=30, device=1, stream=7, correlation_id=5, **kinds)
    recorder._read(ctypes.addressof(memory))
    (read,) = recorder.activities
    assert read == Activity(10, 30, "", 64, launch=5, stream=7, device=1, with_host=with_host)


@pytest.mark.parametrize(
    ("header", "name", "number"),
    [
        ("activity", "CUPTI_ACTIVITY_KIND_MEMCPY", activity._MEMCPY),
        ("activity", "CUPTI_ACTIVITY_KIND_MEMSET", activity.MEMSET),
        ("activity", "CUPTI_ACTIVITY_KIND_KERNEL", activity._KERNEL),
        ("activity", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", activity._CONCURRENT_KERNEL),
        ("activity", "CUPTI_ACTIVITY_KIND_MEMCPY2", activity._PEER_MEMCPY),
        ("activity", "CUPTI_ACTIVITY_FLAG_FLUSH_FORCED", activity._FLUSH_FORCED),
        ("result", "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", libcupti._MULTIPLE_SUBSCRIBERS),
        ("callbacks", "CUPTI_CB_DOMAIN_RESOURCE", first_calls._RESOURCE),
        ("callbacks", "CUPTI_CBID_RESOURCE_MODULE_LOADED", first_calls._MODULE_LOADED),
        ("profiler_target", "CUPTI_AutoRange", range_profiler._AUTO_RANGE),
        ("profiler_target", "CUPTI_UserReplay", range_profiler._USER_REPLAY),
    ],
)
def test_number_of_cupti_is_that_of_its_header(header: str, name: str, number: int) -> None:
    assert cuda_numbers(f"cupti_{header}.h")[name] == number


def test_explained_results_of_cupti_have_these_names() -> None:
    """The header of this Triton ends before the last one."""
    names = {number: name for name, number in cuda_numbers("cupti_result.h").items()}
    explained = [names[code].removeprefix("CUPTI_ERROR_") for code in libcupti._EXPLANATIONS if code in names]
    assert " ".join(explained) == (
        "OUT_OF_MEMORY NOT_INITIALIZED DISABLED HARDWARE_BUSY NOT_SUPPORTED VIRTUALIZED_DEVICE_NOT_SUPPORTED "
        "INSUFFICIENT_PRIVILEGES OLD_PROFILER_API_INITIALIZED LEGACY_PROFILER_NOT_SUPPORTED "
        "MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES "
        "CONFIDENTIAL_COMPUTING_NOT_SUPPORTED CMP_DEVICE_NOT_SUPPORTED MIG_DEVICE_NOT_SUPPORTED "
        "SLI_DEVICE_NOT_SUPPORTED WSL_DEVICE_NOT_SUPPORTED"
    )


def test_copy_between_devices_has_its_launch_behind_both_devices() -> None:
    """As `correlationId` of `CUpti_ActivityMemcpyPtoP4`: after 3 times device and context, and the stream."""
    assert activity._PeerCopy.correlation_id.offset == 32 + 4 * 7
    assert activity._MemoryRecord.correlation_id.offset == 32 + 4 * 3
