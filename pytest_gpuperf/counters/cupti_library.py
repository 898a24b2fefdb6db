"""CUPTI's Profiler Host API through ctypes (`cupti_profiler_host.h`): metrics and passes of any chip.

No GPU is needed, and up to CUDA 13.1 no driver either; without one, later libraries refuse or crash. So this
runs in a process of its own only (`cupti_host`).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint8, c_void_p
from pathlib import Path
from typing import TypeVar

import msgspec

from pytest_gpuperf.counters.isolation import serve

Params = TypeVar("Params", bound="_Params")

_METRIC_KINDS = (0, 1, 2)
"""`CUpti_MetricType`: counters, ratios, throughputs."""


class Question(msgspec.Struct, frozen=True):
    """What to ask a library."""

    library: str
    """Path of `libcupti.so`."""
    chip: str
    """As CUPTI spells it: `GH100`."""
    sets: list[list[str]]
    """Raw metric names with their suffixes, a list for each set to be counted."""


class Answer(msgspec.Struct, frozen=True):
    """What it says; everything is empty where it does not know the chip."""

    chips: list[str] = []
    base: list[str] = []
    """Names of all metrics of the chip, without suffixes."""
    passes: list[int | None] = []
    """Passes of each set; None where a name in it is unknown."""


class CuptiError(Exception):
    """A call failed."""


class _Params(Structure):
    """What every call takes: its own fields follow."""

    _fields_ = [("structSize", c_size_t), ("pPriv", c_void_p)]


class _SupportedChips(_Params):
    _fields_ = [("numChips", c_size_t), ("ppChipNames", POINTER(c_char_p))]


class _Initialize(_Params):
    # The last field of the header is for sampling, and left out: older libraries lack it.
    _fields_ = [
        ("profilerType", c_int),
        ("pChipName", c_char_p),
        ("pCounterAvailabilityImage", c_void_p),
        ("pHostObject", c_void_p),
    ]


class _OfHost(_Params):
    _fields_ = [("pHostObject", c_void_p)]


class _BaseMetrics(_OfHost):
    _fields_ = [("metricType", c_int), ("ppMetricNames", POINTER(c_char_p)), ("numMetrics", c_size_t)]


class _AddMetrics(_OfHost):
    _fields_ = [("ppMetricNames", POINTER(c_char_p)), ("numMetrics", c_size_t)]


class _ConfigImageSize(_OfHost):
    _fields_ = [("configImageSize", c_size_t)]


class _ConfigImage(_OfHost):
    _fields_ = [("configImageSize", c_size_t), ("pConfigImage", POINTER(c_uint8))]


class _NumOfPasses(_Params):
    _fields_ = [
        ("configImageSize", c_size_t),
        ("pConfigImage", POINTER(c_uint8)),
        ("numOfPasses", c_size_t),
    ]


class Library:
    """One loaded `libcupti.so`.

    Args:
        path: Its path. The library that it needs for metrics lies beside it.
    """

    def __init__(self, path: Path) -> None:
        # Otherwise the system's search path may have that of another version, or none.
        ctypes.CDLL(str(path.with_name("libnvperf_host.so")), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(path))

    def chips(self) -> list[str]:
        """Names of the chips that it knows."""
        params = self._call("GetSupportedChips", _SupportedChips())
        return _texts(params.ppChipNames, params.numChips)

    def base_metrics(self, chip: str) -> list[str]:
        """Names of all metrics of a chip, without suffixes."""
        host = self._host(chip)
        names: list[str] = []
        for kind in _METRIC_KINDS:
            params = self._call("GetBaseMetrics", _BaseMetrics(pHostObject=host, metricType=kind))
            names += _texts(params.ppMetricNames, params.numMetrics)
        self._call("Deinitialize", _OfHost(pHostObject=host))
        return names

    def passes(self, chip: str, metrics: list[str]) -> int | None:
        """Passes that a set of metrics takes; None where the chip lacks one of them."""
        if not metrics:
            return 0
        host = self._host(chip)
        try:
            names = (c_char_p * len(metrics))(*(name.encode() for name in metrics))
            try:
                self._call(
                    "ConfigAddMetrics",
                    _AddMetrics(pHostObject=host, ppMetricNames=names, numMetrics=len(metrics)),
                )
            except CuptiError:
                return None
            size = self._call("GetConfigImageSize", _ConfigImageSize(pHostObject=host)).configImageSize
            image = (c_uint8 * size)()
            self._call(
                "GetConfigImage", _ConfigImage(pHostObject=host, configImageSize=size, pConfigImage=image)
            )
            params = self._call("GetNumOfPasses", _NumOfPasses(configImageSize=size, pConfigImage=image))
            return int(params.numOfPasses)
        finally:
            self._call("Deinitialize", _OfHost(pHostObject=host))

    def _host(self, chip: str) -> int:
        host = self._call("Initialize", _Initialize(pChipName=chip.encode())).pHostObject
        assert isinstance(host, int)
        return host

    def _call(self, name: str, params: Params) -> Params:
        params.structSize = ctypes.sizeof(params)
        result = getattr(self._library, f"cuptiProfilerHost{name}")(byref(params))
        if result:
            raise CuptiError(f"cuptiProfilerHost{name} returned {result}")
        return params


def _texts(names: ctypes._Pointer[c_char_p], count: int) -> list[str]:
    return [(names[i] or b"").decode() for i in range(count)]


def main() -> None:
    """Answer the question on standard input."""
    serve(_answer)


def _answer(data: bytes) -> bytes:
    question = msgspec.json.decode(data, type=Question)
    library = Library(Path(question.library))
    chips = library.chips()
    answer = Answer(chips=chips)
    if question.chip in chips:
        answer = Answer(
            chips=chips,
            base=library.base_metrics(question.chip),
            passes=[library.passes(question.chip, names) for names in question.sets],
        )
    return msgspec.json.encode(answer)
