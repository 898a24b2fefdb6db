"""The measurements that an argument of a command names: `RUN`, `RUN::TEST`, or a test of the newest run."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.measurement_names import Name, name_of
from pytest_gpuperf.features.compare.values import values_of
from pytest_gpuperf.records.call import with_label
from pytest_gpuperf.records.run_store import UnknownRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_gpuperf.records import Measurement, Run, TestRecord


_LABELLED = re.compile(r"(?P<name>.*?)\s*\((?P<label>[^()]+)\)")


@dataclass(frozen=True)
class RunMeasurement:
    """One measurement of one test of one run."""

    run: Run
    test: TestRecord
    label: str

    @property
    def measurement(self) -> Measurement:
        """The measurement."""
        return self.test.measurements[self.label]

    @property
    def name(self) -> Name:
        """The parts of the name."""
        return name_of(self.test.nodeid, self.label)

    @property
    def shown(self) -> str:
        """Node id, then the label unless it is `main`, as all reports show it."""
        return with_label(self.test.nodeid, self.label)

    @property
    def failed(self) -> bool:
        """True if the test ended with an exception or its result was wrong."""
        return bool(self.test.failure) or self.measurement.is_wrong


@dataclass(frozen=True)
class ChosenMeasurements:
    """The measurements that one argument names."""

    ref: str
    """The argument as typed."""
    run: Run
    entries: tuple[RunMeasurement, ...]
    """At least one, in the order of the run."""


def choose_all(ref: str, load: Callable[[str | None], Sequence[Run]]) -> list[ChosenMeasurements]:
    """Find the measurements that an argument names, in each run of a merged run.

    Args:
        ref: `RUN`, for all its tests; `RUN::TEST`; `::TEST` or a node id, which begins with a file that ends
            in `.py`, for tests of the newest run. TEST is a node id, a node id without its parameters, a
            parameter, or a part of names; the first that fits counts. A label may follow any of them, or
            stand alone, as in `test_a (cold)` and `(main)`.
        load: Reads the runs of a name, the newest for None.

    Returns:
        A choice for each run that has such a measurement.

    Raises:
        GpuperfError: The run does not exist, or has no measurement of that name.
    """
    head, _, rest = ref.partition("::")
    run_ref, test = (None, ref) if head.endswith(".py") else (head or None, rest)
    try:
        runs = load(run_ref)
    except UnknownRunError as error:
        if rest:
            raise
        next_step = f"check the path, or type {'::' + ref!r} for a test of the newest run"
        raise GpuperfError(error.found, expected=error.expected, next_step=next_step) from None
    entries_of = [(run, _entries(run)) for run in runs]
    matching = [(run, _matching(entries, test) if test else entries) for run, entries in entries_of]
    choices = [ChosenMeasurements(ref, run, tuple(found)) for run, found in matching if found]
    if not choices:
        # The name alone is as near to a misspelt name as the node id is to a misspelt one.
        known = {
            (entry.shown if "::" in test else entry.shown.rpartition("::")[2]): entry.shown
            for _, entries in entries_of
            for entry in entries
        }
        near = [known[name] for name in difflib.get_close_matches(test, known, cutoff=0.4)]
        name = runs[0].id
        raise GpuperfError(
            f"the run {name} has measured nothing of a test {test!r}" if test else f"{name} is empty",
            expected="a node id, or a part of one",
            next_step=f"did you mean {' or '.join(near)}?" if near else "",
        )
    return choices


def _entries(run: Run) -> list[RunMeasurement]:
    return [
        entry
        for record in run.tests
        for label in record.measurements
        if values_of((entry := RunMeasurement(run, record, label)).measurement)
    ]


def _matching(entries: Sequence[RunMeasurement], test: str) -> list[RunMeasurement]:
    labelled = _LABELLED.fullmatch(test)
    # Otherwise it may be the end of a parameter that is a tuple.
    if labelled and labelled["label"] in {entry.label for entry in entries}:
        entries = [entry for entry in entries if entry.label == labelled["label"]]
        test = labelled["name"]
    rules: tuple[Callable[[RunMeasurement], bool], ...] = (
        lambda entry: test == entry.test.nodeid,
        lambda entry: test in (entry.name.function, entry.name.function.rpartition("::")[2]),
        lambda entry: test in entry.name.parameters,
        lambda entry: test in entry.test.nodeid,
    )
    return next((found for rule in rules if (found := [entry for entry in entries if rule(entry)])), [])
