"""One value of many tests over one of their parameters, a curve for each family of tests."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.axis import find_axis
from pytest_gpuperf.features.compare.measurement_names import Name, told_apart, varying
from pytest_gpuperf.features.compare.values import MODE, unit_of, values_of
from pytest_gpuperf.records.value_names import is_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_gpuperf.features.compare.selectors import ChosenMeasurements, RunMeasurement

USUAL = ("gb_per_s", "tflop_per_s", "time_us")
"""Metrics to draw by default: the first that a test has."""


class CurvePoint(NamedTuple):
    """One measurement."""

    x: float
    y: float
    parameter: str
    """Its text in the test's id."""


@dataclass(frozen=True)
class Curve:
    """Measurements whose tests differ in one parameter only."""

    name: str
    """The parts of the name that differ from other curves; empty for the only one."""
    points: tuple[CurvePoint, ...]
    """Sorted by `x`; each value once."""


@dataclass(frozen=True)
class Curves:
    """The curves of one plot."""

    x_title: str
    metric: str
    unit: str
    curves: tuple[Curve, ...]
    runs: tuple[str, ...]
    """Ids of its runs."""
    left_out: tuple[str, ...]
    """Names of tests that failed or had a wrong result."""


def curves_of(choices: Sequence[ChosenMeasurements], *, x: str | None = None, y: str | None = None) -> Curves:
    """Sort measurements into curves.

    Tests that differ in more than `x` are on different curves: by function, label, other parameters, run,
    and for times and rates by mode, because times of different modes are different quantities.

    Args:
        choices: The measurements; those without `x` or `y` are skipped.
        x: The parameter of the x axis; see `axis.find_axis`.
        y: A metric that is a number, by short or raw name; None for the rate, otherwise the time.

    Raises:
        GpuperfError: No measurement has such a parameter or metric.
    """
    everything = {
        (entry.run.id, entry.test.nodeid, entry.label): entry for c in choices for entry in c.entries
    }
    passed = [entry for entry in everything.values() if not entry.failed]
    if not passed:
        raise GpuperfError("there is nothing to draw: every test failed or had a wrong result")
    metric = _metric(passed, y)
    entries = [entry for entry in passed if metric in values_of(entry.measurement)]
    axis = find_axis([entry.name for entry in entries], x)
    families: dict[tuple[str, ...], dict[float, CurvePoint]] = {}
    for entry in entries:
        found = axis.of(entry.name)
        if found is None:
            continue
        place, size = found
        rest = tuple("" if index == place else part for index, part in enumerate(entry.name.parts))
        values = values_of(entry.measurement)
        # A shape such as 1024x512 is as large as 512x1024: the first one counts.
        point = CurvePoint(size, float(values[metric]), entry.name.parts[place])
        mode = str(values[MODE]) if is_of(metric, "timing") else ""
        families.setdefault((entry.run.id, mode, *rest), {}).setdefault(size, point)
    curves = [
        Curve(name, tuple(sorted(points.values())))
        for name, points in zip(_curve_names(list(families)), families.values(), strict=True)
    ]
    return Curves(
        x_title=axis.title,
        metric=metric,
        unit=unit_of(metric),
        curves=tuple(curves),
        runs=tuple(dict.fromkeys(family[0] for family in families)),
        left_out=tuple(entry.shown for entry in everything.values() if entry.failed),
    )


def _metric(entries: Iterable[RunMeasurement], wanted: str | None) -> str:
    values = [values_of(entry.measurement) for entry in entries]
    numbers = dict.fromkeys(
        name for found in values for name, value in found.items() if not isinstance(value, str)
    )
    metric = wanted or next((name for name in USUAL if name in numbers), "")
    if metric not in numbers:
        # Words, and metrics that were not measured, cannot be drawn.
        near = difflib.get_close_matches(wanted or "", numbers)
        raise GpuperfError(
            f"no test here has measured a number {wanted!r}" if wanted else "no test here has a time",
            expected="a metric by its short or raw name",
            next_step=f"did you mean {' or '.join(near)}?" if wanted and near else "",
        )
    return metric


def _curve_names(families: Sequence[tuple[str, ...]]) -> list[str]:
    names = [Name.of_parts(rest) for _, _, *rest in families]
    runs, modes = ({family[place] for family in families} for place in (0, 1))
    unique = list(dict.fromkeys(names))
    shown = dict(zip(unique, told_apart(unique, varying(unique)), strict=True))
    titles = []
    for name, (run, mode, *_) in zip(names, families, strict=True):
        parts = (run if len(runs) > 1 else "", shown[name], mode if len(modes) > 1 else "")
        titles.append(" ".join(filter(None, parts)))
    return titles
