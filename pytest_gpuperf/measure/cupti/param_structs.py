"""Structures for CUPTI's profiling functions, with the names of its headers.

They come from `cupti_profiler_host.h`, `cupti_profiler_target.h`, `cupti_range_profiler.h` and
`cupti_target.h` of CUDA 12.6: later versions add fields at the end, and read only `structSize` bytes.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_void_p,
)
from typing import TypeVar

AnyParams = TypeVar("AnyParams", bound="Params")


class Params(Structure):
    """First fields of all structures."""

    _fields_ = [("structSize", c_size_t), ("pPriv", c_void_p)]

    @classmethod
    def size(cls) -> int:
        """Return the bytes up to the end of the last field, without padding, as CUPTI counts."""
        last = getattr(cls, cls._fields_[-1][0])
        return int(last.offset + last.size)


class WithHost(Params):
    """Structure with a host object, which `cuptiProfilerHostInitialize` makes."""

    _fields_ = [("pHostObject", c_void_p)]


class SupportedChips(Params):
    """`cuptiProfilerHostGetSupportedChips`."""

    _fields_ = [("numChips", c_size_t), ("ppChipNames", POINTER(c_char_p))]


class HostInitialize(Params):
    """`cuptiProfilerHostInitialize`."""

    _fields_ = [
        ("profilerType", c_int),
        ("pChipName", c_char_p),
        ("pCounterAvailabilityImage", c_void_p),
        ("pHostObject", c_void_p),
    ]


class BaseMetrics(WithHost):
    """`cuptiProfilerHostGetBaseMetrics`."""

    _fields_ = [("metricType", c_int), ("ppMetricNames", POINTER(c_char_p)), ("numMetrics", c_size_t)]


class AddMetrics(WithHost):
    """`cuptiProfilerHostConfigAddMetrics`."""

    _fields_ = [("ppMetricNames", POINTER(c_char_p)), ("numMetrics", c_size_t)]


class ConfigImageSize(WithHost):
    """`cuptiProfilerHostGetConfigImageSize`."""

    _fields_ = [("configImageSize", c_size_t)]


class ConfigImage(WithHost):
    """`cuptiProfilerHostGetConfigImage`."""

    _fields_ = [("configImageSize", c_size_t), ("pConfigImage", c_void_p)]


class NumOfPasses(Params):
    """`cuptiProfilerHostGetNumOfPasses`."""

    _fields_ = [("configImageSize", c_size_t), ("pConfigImage", c_void_p), ("numOfPasses", c_size_t)]


class Evaluate(WithHost):
    """`cuptiProfilerHostEvaluateToGpuValues`."""

    _fields_ = [
        ("pCounterDataImage", c_void_p),
        ("counterDataImageSize", c_size_t),
        ("rangeIndex", c_size_t),
        ("ppMetricNames", POINTER(c_char_p)),
        ("numMetrics", c_size_t),
        ("pMetricValues", POINTER(c_double)),
    ]


class ChipName(Params):
    """`cuptiDeviceGetChipName`."""

    _fields_ = [("deviceIndex", c_size_t), ("pChipName", c_char_p)]


class CounterAvailability(Params):
    """`cuptiProfilerGetCounterAvailability`."""

    _fields_ = [
        ("ctx", c_void_p),
        ("counterAvailabilityImageSize", c_size_t),
        ("pCounterAvailabilityImage", c_void_p),
    ]


class Enable(Params):
    """`cuptiRangeProfilerEnable`."""

    _fields_ = [("ctx", c_void_p), ("pRangeProfilerObject", c_void_p)]


class WithProfiler(Params):
    """Structure with a range profiler from `cuptiRangeProfilerEnable`; also for `Start` and `Disable`."""

    _fields_ = [("pRangeProfilerObject", c_void_p)]


class CounterDataSize(WithProfiler):
    """`cuptiRangeProfilerGetCounterDataSize`."""

    _fields_ = [
        ("pMetricNames", POINTER(c_char_p)),
        ("numMetrics", c_size_t),
        ("maxNumOfRanges", c_size_t),
        ("maxNumRangeTreeNodes", c_uint32),
        ("counterDataSize", c_size_t),
    ]


class CounterDataInitialize(WithProfiler):
    """`cuptiRangeProfilerCounterDataImageInitialize`."""

    _fields_ = [("counterDataSize", c_size_t), ("pCounterData", c_void_p)]


class SetConfig(WithProfiler):
    """`cuptiRangeProfilerSetConfig`."""

    _fields_ = [
        ("configSize", c_size_t),
        ("pConfig", c_void_p),
        ("counterDataImageSize", c_size_t),
        ("pCounterDataImage", c_void_p),
        ("range", c_int),
        ("replayMode", c_int),
        ("maxRangesPerPass", c_size_t),
        ("numNestingLevels", c_uint16),
        ("minNestingLevel", c_uint16),
        ("passIndex", c_size_t),
        ("targetNestingLevel", c_uint16),
    ]


class Stop(WithProfiler):
    """`cuptiRangeProfilerStop`."""

    _fields_ = [("passIndex", c_size_t), ("targetNestingLevel", c_size_t), ("isAllPassSubmitted", c_uint8)]


class Decode(WithProfiler):
    """`cuptiRangeProfilerDecodeData`."""

    _fields_ = [("numOfRangeDropped", c_size_t)]


class CounterDataInfo(Params):
    """`cuptiRangeProfilerGetCounterDataInfo`."""

    _fields_ = [
        ("pCounterDataImage", c_void_p),
        ("counterDataImageSize", c_size_t),
        ("numTotalRanges", c_size_t),
    ]
