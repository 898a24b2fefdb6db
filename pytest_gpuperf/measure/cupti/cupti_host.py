"""Which metrics a chip has and how many passes a set of them takes, without a GPU, by CUPTI's host library.

The library comes with torch's CUDA wheels (`nvidia-cuda-cupti`), with Triton, and with the CUDA toolkit. The
lists are those of `ncu --query-metrics`. ncu itself may take a pass more than said here (17 instead of 16 for
the default preset on an H200).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.cupti.cupti_library import Answer, Question
from pytest_gpuperf.measure.cupti.search import copies
from pytest_gpuperf.processes.isolation import ask_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_ANSWERS = "pytest_gpuperf.measure.cupti.cupti_library"

MADE_BY_NCU = ("__maximum_warps_", "__pcsamp_")
"""Parts of names that begin like a counter's and are ncu's own."""


class NoHostLibraryError(GpuperfError):
    """No CUPTI library that answers was found here."""


def supported_metrics(chip: str) -> frozenset[str]:
    """Names of all metrics that the hardware of a chip counts, without their suffixes.

    Args:
        chip: Its name, such as `gh100`.

    Raises:
        NoHostLibraryError: There is no library here that knows the chip.
    """
    return frozenset(_ask(chip, ()).base)


def passes(chip: str, metrics: Iterable[str]) -> int:
    """How often a kernel has to run for a set of metrics.

    Args:
        chip: Its name.
        metrics: Raw names with their suffixes. Those that ncu makes itself (`launch__*`) take none.

    Raises:
        NoHostLibraryError: There is no library here that knows the chip.
        GpuperfError: The chip lacks one of the metrics.
    """
    names = list(metrics)
    found = passes_each(chip, [names])[0]
    if found is None:
        each = passes_each(chip, [[name] for name in names])
        lacking = [name for name, own in zip(names, each, strict=True) if own is None]
        raise GpuperfError(f"unavailable on {chip.upper()}: {', '.join(lacking)}")
    return found


def passes_each(chip: str, sets: Sequence[Sequence[str]]) -> list[int | None]:
    """The passes of several sets of metrics; None for a set of which the chip lacks a metric.

    Raises:
        NoHostLibraryError: There is no library here that knows the chip.
    """
    known = {name.partition("__")[0] for name in supported_metrics(chip)}
    counted = tuple(tuple(name for name in names if is_counted(name, known)) for names in sets)
    return _ask(chip, counted).passes


def is_counted(name: str, units: Iterable[str]) -> bool:
    """Whether a raw metric is one of the hardware's and not of ncu's own.

    Args:
        name: A raw name.
        units: What the names of the chip's metrics begin with: `sm`, `lts` …
    """
    return name.partition("__")[0] in units and not any(part in name for part in MADE_BY_NCU)


@lru_cache(maxsize=64)
def _ask(chip: str, sets: tuple[tuple[str, ...], ...]) -> Answer:
    known: list[str] = []
    for library in libraries():
        question = Question(str(library), chip.upper(), [list(names) for names in sets])
        done = ask_apart(_ANSWERS, msgspec.json.encode(question))
        if done.returncode == 0 and done.stdout:
            answer = msgspec.json.decode(done.stdout, type=Answer)
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


def libraries() -> list[Path]:
    """CUPTI libraries of this environment, each with the host library beside it, in the order to ask them."""
    return [path for _, path in copies() if path.with_name("libnvperf_host.so").is_file()]
