"""The host half of CUPTI (`cupti_profiler_host.h`): metrics of a chip, their configuration and their values.

It needs no GPU, and up to CUDA 13.1 no driver.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.measure.cupti.libcupti import CuptiError
from pytest_gpuperf.measure.cupti.param_structs import (
    AddMetrics,
    BaseMetrics,
    ConfigImage,
    ConfigImageSize,
    Evaluate,
    HostInitialize,
    NumOfPasses,
    SupportedChips,
    WithHost,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_gpuperf.measure.cupti.libcupti import Cupti
    from pytest_gpuperf.measure.cupti.param_structs import AnyParams

_METRIC_KINDS = (0, 1, 2)
"""`CUpti_MetricType`: counters, ratios, throughputs."""


@dataclass(frozen=True)
class Configuration:
    """Counters for the GPU to count."""

    metrics: tuple[str, ...]
    """Raw names with their suffixes."""
    image: ctypes.Array[ctypes.c_char]
    passes: int
    """Number of times that a kernel has to run."""


class Host:
    """The host half for one chip.

    Args:
        cupti: The library.
        chip: Name in CUPTI's spelling: `GH100`.
        availability: Counters that the GPU here has, in its own words; None for all counters of the chip.
    """

    def __init__(
        self, cupti: Cupti, chip: str, availability: ctypes.Array[ctypes.c_char] | None = None
    ) -> None:
        self.chip = chip
        self._cupti = cupti
        self._availability = availability
        cupti.load_neighbours("libnvperf_host.so")

    def base_metrics(self) -> list[str]:
        """List all metrics of the chip, without suffixes."""
        names: list[str] = []
        with self._object() as host:
            for kind in _METRIC_KINDS:
                params = self._ask("GetBaseMetrics", BaseMetrics(pHostObject=host, metricType=kind))
                names += _texts(params.ppMetricNames, params.numMetrics)
        return names

    def configuration(self, metrics: Sequence[str]) -> Configuration | None:
        """Make the configuration for metrics; None if the chip lacks one of them.

        Args:
            metrics: Raw names with their suffixes, at least one.
        """
        names = _names(metrics)
        # An object takes only one set of metrics, and none after a wrong name.
        with self._object() as host:
            try:
                self._ask(
                    "ConfigAddMetrics",
                    AddMetrics(pHostObject=host, ppMetricNames=names, numMetrics=len(names)),
                )
            except CuptiError:
                return None
            size = self._ask("GetConfigImageSize", ConfigImageSize(pHostObject=host)).configImageSize
            image = ctypes.create_string_buffer(size)
            address = ctypes.addressof(image)
            self._ask(
                "GetConfigImage", ConfigImage(pHostObject=host, configImageSize=size, pConfigImage=address)
            )
            params = self._ask("GetNumOfPasses", NumOfPasses(configImageSize=size, pConfigImage=address))
        return Configuration(tuple(metrics), image, params.numOfPasses)

    def evaluate(
        self, counters: ctypes.Array[ctypes.c_char], ranges: int, metrics: Sequence[str]
    ) -> list[dict[str, float]]:
        """Compute values of metrics in base units (`ns`, `byte`, `%`); NaN for a metric without a value.

        Args:
            counters: Decoded counters of the GPU.
            ranges: Number of ranges.
            metrics: Raw names.

        Returns:
            A row for each range.
        """
        names = _names(metrics)
        rows = []
        with self._object() as host:
            for index in range(ranges):
                values = (ctypes.c_double * len(names))()
                self._ask(
                    "EvaluateToGpuValues",
                    Evaluate(
                        pHostObject=host,
                        pCounterDataImage=ctypes.addressof(counters),
                        counterDataImageSize=len(counters),
                        rangeIndex=index,
                        ppMetricNames=names,
                        numMetrics=len(names),
                        pMetricValues=values,
                    ),
                )
                rows.append(dict(zip(metrics, values, strict=True)))
        return rows

    @contextmanager
    def _object(self) -> Iterator[int]:
        image = None if self._availability is None else ctypes.addressof(self._availability)
        params = HostInitialize(pChipName=self.chip.encode(), pCounterAvailabilityImage=image)
        host = self._ask("Initialize", params).pHostObject
        try:
            yield host
        finally:
            self._ask("Deinitialize", WithHost(pHostObject=host))

    def _ask(self, function: str, params: AnyParams) -> AnyParams:
        return self._cupti.ask(f"cuptiProfilerHost{function}", params)


def chips(cupti: Cupti) -> list[str]:
    """List the chips that a library knows."""
    cupti.load_neighbours("libnvperf_host.so")
    params = cupti.ask("cuptiProfilerHostGetSupportedChips", SupportedChips())
    return _texts(params.ppChipNames, params.numChips)


def _names(metrics: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(metrics))(*(name.encode() for name in metrics))


def _texts(names: ctypes._Pointer[ctypes.c_char_p], count: int) -> list[str]:
    return [(names[i] or b"").decode() for i in range(count)]
