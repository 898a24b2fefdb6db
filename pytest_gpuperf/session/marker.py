"""The marker of a test, and the state of a test while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.judge.limits import parse_limits
from pytest_gpuperf.metrics.presets import check_presets
from pytest_gpuperf.records.selection import check_launches, check_regex
from pytest_gpuperf.settings.options import MAX_TOLERANCE_PCT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.judge.limits import Limit
    from pytest_gpuperf.records import Measurement
    from pytest_gpuperf.records.selection import Launches

MARKER_KEYS = ("kernels", "launches", "limits", "tolerance", "preset", "metrics", "benchmark")


@dataclass(frozen=True)
class Marker:
    """The `gpuperf` markers of a test, the nearest first, as one."""

    regex: str | None = None
    """Finds the kernels to profile; None for all."""
    launches: Launches = "all"
    """Launches of those kernels to keep."""
    limits: tuple[Limit, ...] = ()
    tolerance_pct: float | None = None
    preset: tuple[str, ...] = ()
    """Names of the presets to read; empty for those of the options."""
    metrics: tuple[str, ...] = ()
    """More metrics to read, also for its limits: short names or raw ones."""

    @classmethod
    def of(cls, item: pytest.Item) -> Marker:
        """Read and check the markers of an item.

        Limits and metrics of class and module markers add up; the nearest `kernels`, `launches`, `tolerance`
        and `preset` count.

        Raises:
            GpuperfError: A marker has an unknown argument, a broken limit, a broken regex, an unknown
                preset, or impossible launches.
        """
        values: dict[str, object] = {}
        limits: list[Limit] = []
        metrics: list[str] = []
        for mark in item.iter_markers("gpuperf"):
            unknown = [key for key in mark.kwargs if key not in MARKER_KEYS]
            if mark.args or unknown:
                found = f"argument {unknown[0]!r}" if unknown else f"positional argument {mark.args[0]!r}"
                raise GpuperfError(
                    f"the gpuperf marker of {item.nodeid} has the {found}",
                    expected=f"keyword arguments out of {', '.join(MARKER_KEYS)}",
                )
            if mark.kwargs.get("limits"):
                limits.extend(parse_limits(mark.kwargs["limits"]))
            metrics.extend(_metrics(mark.kwargs.get("metrics", ()), item.nodeid))
            for key in ("kernels", "launches", "tolerance", "preset"):
                if mark.kwargs.get(key) is not None:
                    values.setdefault(key, mark.kwargs[key])
        metrics.extend(limit.name for limit in limits if limit.part == "profile")
        return cls(
            regex=_regex(values.get("kernels"), item.nodeid),
            launches=check_launches(values.get("launches", "all"), f"in the gpuperf marker of {item.nodeid}"),
            limits=tuple(limits),
            tolerance_pct=_tolerance(values.get("tolerance"), item.nodeid),
            preset=_preset(values.get("preset"), item.nodeid),
            metrics=tuple(dict.fromkeys(metrics)),
        )


def _regex(kernels: object, nodeid: str) -> str | None:
    if kernels is None:
        return None
    parts = [kernels] if isinstance(kernels, str) else kernels
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts) or not parts:
        raise GpuperfError(
            f"kernels={kernels!r} in the gpuperf marker of {nodeid}", expected="a regex or a list of them"
        )
    for part in parts:
        check_regex(part, f"in the gpuperf marker of {nodeid}")
    return parts[0] if len(parts) == 1 else "|".join(f"(?:{part})" for part in parts)


def _preset(value: object, nodeid: str) -> tuple[str, ...]:
    if value is None:
        return ()
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise GpuperfError(
            f"preset={value!r} in the gpuperf marker of {nodeid}", expected="names of presets: 'sol,stalls'"
        )
    return check_presets(parts, f"in the gpuperf marker of {nodeid}")


def _metrics(value: object, nodeid: str) -> Sequence[str]:
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple, set, frozenset)) or not all(isinstance(one, str) for one in parts):
        raise GpuperfError(
            f"metrics={value!r} in the gpuperf marker of {nodeid}", expected="a name or a list of names"
        )
    return list(parts)


def _tolerance(value: object, nodeid: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_TOLERANCE_PCT:
        shown = repr(value) if len(repr(value)) < 40 else f"{repr(value)[:20]}…"
        raise GpuperfError(
            f"tolerance={shown} in the gpuperf marker of {nodeid}",
            expected=f"a number of percent, above 0 and at most {MAX_TOLERANCE_PCT}",
        )
    return float(value)


@dataclass
class ItemState:
    """A test while it runs."""

    nodeid: str
    marker: Marker
    path: Path = Path()
    """The file of the test."""
    unavailable: str = ""
    """Why a required measurement, such as counters, is unavailable."""
    measurements: dict[str, Measurement] = field(default_factory=dict)
    limits: list[Limit] = field(default_factory=list)
    """Added by `gpuperf.limit()`."""
    errors: list[str] = field(default_factory=list)
    """Errors that the user must fix before the test can be judged."""

    def fresh(self) -> ItemState:
        """Return the same test before it has run."""
        errors = [self.unavailable] if self.unavailable else []
        return ItemState(self.nodeid, self.marker, self.path, self.unavailable, errors=errors)


STATE = pytest.StashKey[ItemState]()
