"""The host half of CUPTI (`cupti_profiler_host.h`): metrics of a chip, their configuration and their values.

It needs no GPU. The library comes with torch's CUDA wheels (`nvidia-cuda-cupti`), with Triton, and with the
CUDA toolkit. The lists are those of `ncu --query-metrics`. ncu itself may take a pass more than this library
says (17 instead of 16 for the default preset on an H200). Without a driver, libraries later than CUDA 13.1
refuse or crash, so another process loads them.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.libcupti import Cupti, CuptiError, copies
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
from pytest_gpuperf.processes.module_process import ask_apart, serve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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


MADE_BY_NCU = ("__maximum_warps_", "__pcsamp_")
"""Parts of names that look like counters but that ncu makes itself."""


class NoHostLibraryError(GpuperfError):
    """No CUPTI library here knows the chip and answers without a GPU."""


def supported_metrics(chip: str) -> frozenset[str]:
    """List all metrics that the hardware of a chip counts, without their suffixes.

    Args:
        chip: Name of the chip, such as `gh100`.

    Raises:
        NoHostLibraryError: No library here knows the chip.
    """
    return frozenset(_ask(chip, ()).base)


def passes_each(chip: str, sets: Sequence[Sequence[str]]) -> list[int | None]:
    """Count the passes, which are the runs of a kernel, that each of several sets of metrics takes.

    Args:
        chip: Name of the chip.
        sets: Raw names with their suffixes. Metrics that ncu makes itself (`launch__*`) take no pass.

    Returns:
        The passes of each set; None if the chip lacks one of its metrics.

    Raises:
        NoHostLibraryError: No library here knows the chip.
    """
    return _ask(chip, tuple(map(tuple, sets))).passes


def is_counted(name: str, units: Iterable[str]) -> bool:
    """Return True if the hardware counts a raw metric; False if ncu makes it.

    Args:
        name: A raw name.
        units: First parts of the metric names of the chip: `sm`, `lts` …
    """
    return name.partition("__")[0] in units and not any(part in name for part in MADE_BY_NCU)


def libraries() -> list[Path]:
    """List the CUPTI libraries here that have a host library next to them, in the order to ask them."""
    return [path for _, path in copies() if path.with_name("libnvperf_host.so").is_file()]


class _Question(msgspec.Struct, frozen=True):
    path: str
    """Path of `libcupti.so`."""
    chip: str
    """Name in CUPTI's spelling: `GH100`."""
    sets: list[list[str]]
    """Raw metric names with their suffixes, a list for each set; those that ncu makes take no pass."""


class _LibraryAnswer(msgspec.Struct, frozen=True):
    """The answer of one library; empty lists if it does not know the chip."""

    chips: list[str] = []
    base: list[str] = []
    """Names of all metrics of the chip, without suffixes."""
    passes: list[int | None] = []
    """Passes of each set; None if a name in it is unknown."""


@lru_cache(maxsize=64)
def _ask(chip: str, sets: tuple[tuple[str, ...], ...]) -> _LibraryAnswer:
    known: list[str] = []
    for library in libraries():
        question = _Question(str(library), chip.upper(), [list(names) for names in sets])
        done = ask_apart(__name__, msgspec.json.encode(question))
        if done.returncode == 0 and done.stdout:
            answer = msgspec.json.decode(done.stdout, type=_LibraryAnswer)
            if answer.base:
                return answer
            known += answer.chips
    raise NoHostLibraryError(
        f"the CUPTI libraries here do not know {chip.upper()}"
        if known
        else "no CUPTI library was found here that answers without a GPU",
        expected="one of CUDA 12.6 or later; without a driver, up to 13.1",
        next_step="type `pip install 'nvidia-cuda-cupti<13.2'`",
    )


def main() -> None:
    """In the other process: answer the question on standard input."""
    serve(_answer)


def _answer(data: bytes) -> bytes:
    question = msgspec.json.decode(data, type=_Question)
    cupti = Cupti(Path(question.path))
    known = chips(cupti)
    answer = _LibraryAnswer(chips=known)
    if question.chip in known:
        host = Host(cupti, question.chip)
        base = host.base_metrics()
        units = {name.partition("__")[0] for name in base}
        answer = _LibraryAnswer(
            chips=known,
            base=base,
            passes=[
                _passes(host, [name for name in names if is_counted(name, units)]) for names in question.sets
            ],
        )
    return msgspec.json.encode(answer)


def _passes(host: Host, metrics: list[str]) -> int | None:
    if not metrics:
        return 0
    found = host.configuration(metrics)
    return found.passes if found else None
