"""Measurements side by side: the columns and rows of a comparison, its values and their changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf import metrics as catalogue
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.comparison import Comparison, MetricLine, ValueCell
from pytest_gpuperf.features.compare.measurement_names import pair_names, short, told_apart, varying
from pytest_gpuperf.features.compare.values import (
    MODE,
    change,
    other_sources,
    trace_values,
    unit_of,
    values_of,
    why_not_compared,
)
from pytest_gpuperf.metrics.presets import PRESETS
from pytest_gpuperf.records.run import top_stall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_gpuperf.features.compare.measurement_names import Name
    from pytest_gpuperf.features.compare.selectors import ChosenMeasurements, RunMeasurement
    from pytest_gpuperf.records import MetricValue

USUAL = (
    "time_us",
    "spread_pct",
    "gb_per_s",
    "tflop_per_s",
    "rms_ulp",
    "gpu_time_us",
    "launches",
    "gpu_busy",
    "launch_gap",
    "sm_throughput",
    "memory_throughput",
    "dram_throughput",
    "tensor_active",
    "achieved_occupancy",
    "theoretical_occupancy",
    "occupancy_limiter",
    "registers_per_thread",
    "spills",
    "shared_memory_bytes",
    "tensor_instructions",
    "l1_hit_rate",
    "l2_hit_rate",
)
"""Metrics of a comparison without `--metrics`; the largest stall of each column comes below them."""
CLOCKS_DIFFER_PCT = 1.0
"""A note names the SM clocks of two times if they differ by more."""


@dataclass(frozen=True)
class _MeasurementRow:
    """Measurements side by side."""

    subject: str
    entries: tuple[RunMeasurement | None, ...]
    """One for each column."""


def compare_measurements(choices: Sequence[ChosenMeasurements], metrics: Sequence[str] = ()) -> Comparison:
    """Compare measurements.

    One choice has a column for each of its measurements. Several choices have one column each, and the
    measurements that belong together (see `names.pair_names`) make the rows. If none belong together, or each
    choice is one measurement, every measurement has a column.

    Args:
        choices: At least one.
        metrics: Names of metrics and presets, or `all`; the usual metrics if empty.

    Raises:
        GpuperfError: There is only one measurement, a test is in two columns, or none has such a metric.
    """
    columns, rows, notes = _arranged(choices)
    entries = [entry for row in rows for entry in row.entries if entry is not None]
    names = _metrics(metrics, entries)
    lines = [line for row in rows for line in _lines(row, names, usual=not metrics)]
    notes += [note for row in rows for note in _notes(row, columns, names)]
    runs = dict.fromkeys(choice.run.id for choice in choices)
    return Comparison(tuple(runs), tuple(columns), tuple(lines), tuple(dict.fromkeys(notes)))


def _run_titles(choices: Iterable[ChosenMeasurements]) -> dict[str, str]:
    """Return each run's title by its id: the GPU's name if each run has a model of its own, or the id."""
    gpus = {choice.run.id: choice.run.environment.gpu.name for choice in choices}
    if len(set(gpus.values())) < max(2, len(gpus)):
        return {run: run for run in gpus}
    return {run: name.removeprefix("NVIDIA ") for run, name in gpus.items()}


def _arranged(choices: Sequence[ChosenMeasurements]) -> tuple[list[str], list[_MeasurementRow], list[str]]:
    """Return the titles of the columns, the rows, and notes on measurements without a partner."""
    run_titles = _run_titles(choices)
    single = all(len(choice.entries) == 1 for choice in choices)
    pairing = None
    if len(choices) > 1 and (len(run_titles) > 1 or not single):
        pairing = pair_names([[entry.name for entry in choice.entries] for choice in choices])
    if pairing is None:
        found = {(e.run.id, e.test.nodeid, e.label): e for choice in choices for e in choice.entries}
        entries = tuple(found.values())
        return _titles(entries, run_titles), [_MeasurementRow("", entries)], []
    if pairing.place is None and len(run_titles) < len(choices):
        raise GpuperfError(
            f"{' and '.join(repr(choice.ref) for choice in choices)} name the same tests of one run",
            expected="other tests in each column",
            next_step=f"name them in full, as in {'::' + choices[-1].entries[-1].shown!r}",
        )
    titles = _paired_titles(choices, pairing.place, run_titles)
    rows: list[tuple[RunMeasurement | None, ...]] = []
    alone = []
    for places in pairing.rows:
        if len(places) > 1:
            rows.append(
                tuple(
                    choice.entries[places[group]] if group in places else None
                    for group, choice in enumerate(choices)
                )
            )
        else:
            ((group, index),) = places.items()
            alone.append(f"only in {titles[group]}: {choices[group].entries[index].shown}")
    names = [next(entry.name for entry in row if entry is not None) for row in rows]
    return titles, list(map(_MeasurementRow, _subjects(names, pairing.place), rows)), alone


def _paired_titles(
    choices: Sequence[ChosenMeasurements], place: int | None, run_titles: Mapping[str, str]
) -> list[str]:
    if place is None:
        return [run_titles[choice.run.id] for choice in choices]
    titles = told_apart([choice.entries[0].name for choice in choices], {place})
    for group, choice in enumerate(choices):
        if len({entry.name.parts[place] for entry in choice.entries}) > 1:
            titles[group] = choice.ref
    if len(run_titles) == 1:
        return titles
    return [f"{run_titles[choice.run.id]} {title}" for choice, title in zip(choices, titles, strict=True)]


def _subjects(names: Sequence[Name], place: int | None) -> list[str]:
    """Return short names for the rows; an empty one if there is only one row."""
    places = [part for part in varying(names) if part != place]
    if 0 in places:  # the parameters belong to different functions
        places = [part for part in range(max(len(name.parts) for name in names)) if part != place]
    return told_apart(names, places)


def _titles(entries: Sequence[RunMeasurement], run_titles: Mapping[str, str]) -> list[str]:
    if len(entries) < 2:
        raise GpuperfError(
            f"{entries[0].shown} is one measurement",
            expected="two or more to compare",
            next_step="name another test or run, as in gpuperf compare RUN::TEST TEST",
        )
    names = [entry.name for entry in entries]
    if len(run_titles) == 1:
        return told_apart(names, varying(names))
    titles = [short(name, varying(names)) for name in names]
    return [
        f"{run_titles[entry.run.id]} {title}".rstrip() for entry, title in zip(entries, titles, strict=True)
    ]


def _metrics(wanted: Sequence[str], entries: Sequence[RunMeasurement]) -> list[str]:
    known = dict.fromkeys(name for entry in entries for name in values_of(entry.measurement))
    if "all" in wanted:
        return list(known)
    if not wanted:
        return [name for name in USUAL if name in known] or list(known)
    names = dict.fromkeys(name for want in wanted for name in PRESETS.get(want, (want,)))
    missing = [name for name in wanted if name not in known and name not in PRESETS]
    found = [name for name in names if name in known]
    if missing or not found:
        near = catalogue.nearest(missing[0], known) if missing else []
        raise GpuperfError(
            f"nothing here has measured {missing[0] if missing else ', '.join(wanted)!r}",
            expected="a metric, short or raw, the name of a preset, or all",
            next_step=f"did you mean {' or '.join(near)}?" if near else "",
        )
    return found


def _lines(row: _MeasurementRow, names: Sequence[str], *, usual: bool) -> Iterator[MetricLine]:
    found = [values_of(entry.measurement) if entry else {} for entry in row.entries]
    modes = {str(values[MODE]) for values in found if MODE in values}
    # Times without a mode are hot.
    shown = [*([MODE] if usual and modes - {"hot"} else []), *names]
    if usual:
        largest = {top[0]: top[1] for values in found if (top := top_stall(values)) is not None}
        shown += sorted(largest, key=lambda name: -largest[name])
    for name in shown:
        if any(name in values for values in found):
            yield MetricLine(row.subject, name, unit_of(name), tuple(_cells(row, name, found)))


def _cells(
    row: _MeasurementRow, name: str, values: Sequence[Mapping[str, MetricValue]]
) -> Iterator[ValueCell]:
    first = row.entries[0]
    for entry, known in zip(row.entries, values, strict=True):
        value = known.get(name)
        if entry is None or value is None or first is None or entry is first or name in (MODE, "spread_pct"):
            yield ValueCell(value)
            continue
        had = name in values[0]
        not_compared = had and bool(why_not_compared(name, first.measurement, entry.measurement))
        yield ValueCell(value, change(name, first.measurement, entry.measurement), not_compared)


def _notes(row: _MeasurementRow, columns: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    where = f"{row.subject}: " if row.subject else ""
    first = row.entries[0]
    for title, entry in zip(columns, row.entries, strict=True):
        if entry is None:
            continue
        if entry.failed:
            yield f"{where}{title} is from a test that failed or had a wrong result"
        if first is None or entry is first:
            continue
        old, new = first.measurement, entry.measurement
        both = values_of(old).keys() & values_of(new).keys()
        for why in (why_not_compared(name, old, new) for name in names if name in both):
            if why:
                yield f"{why} are different quantities and are not compared"
        if sources := other_sources(old, new):
            yield f"{where}{title}: the times are from {sources}, which differ by up to 2 %"
        yield from _clocks(where, title, first, entry)
        gpus = [one.run.environment.gpu.name for one in (first, entry)]
        if gpus[0] != gpus[1]:
            yield f"{gpus[0]} is compared with {gpus[1]}"
        if trace_values(new) and not trace_values(old):
            yield f"{where}{columns[0]} was not traced"


def _clocks(where: str, title: str, first: RunMeasurement, entry: RunMeasurement) -> Iterator[str]:
    clocks = [timing.sm_clock_mhz if (timing := one.measurement.timing) else 0.0 for one in (first, entry)]
    if all(clocks) and abs(clocks[1] / clocks[0] - 1) > CLOCKS_DIFFER_PCT / 100:
        yield f"{where}{title} was timed at an SM clock of {clocks[1]:.0f} MHz, the first at {clocks[0]:.0f}"
