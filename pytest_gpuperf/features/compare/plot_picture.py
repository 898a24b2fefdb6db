"""Pictures of one test for `gpuperf plot --picture`, of an ncu file or of a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.choosing import choose
from pytest_gpuperf.features.page.picture_of_launches import timeline
from pytest_gpuperf.features.page.pictures import pictures_of
from pytest_gpuperf.metrics.combine import combine
from pytest_gpuperf.records import NO_GPU, Measurement, Profile
from pytest_gpuperf.records.baseline import MeasurementBaseline
from pytest_gpuperf.records.counters import STATIC_SOURCE
from pytest_gpuperf.records.file_kinds import kind_of, type_of
from pytest_gpuperf.records.runs import load_run
from pytest_gpuperf.registry import instrument
from pytest_gpuperf.report.rows import source_lines
from pytest_gpuperf.report.show import count

if TYPE_CHECKING:
    from pytest_gpuperf.cli.project import Project
    from pytest_gpuperf.features.compare.choosing import Entry
    from pytest_gpuperf.features.page.picture import Picture
    from pytest_gpuperf.records import Run

NEEDS = {
    "sessions": "a time with a baseline: pytest --gpuperf --gpuperf-update=all",
    "restarts": "a comparison in turn: pytest --gpuperf --gpuperf-against=REF",
    "blocks": "a time: call gpuperf(…) or gpuperf.time(…) in the test",
    "roofline": "operations and bytes: pytest --gpuperf -o gpuperf_preset=roofline, or ncu --set roofline",
    "stalls": "counters: call gpuperf(…) or gpuperf.profile(…) in the test",
    "occupancy": "counters: call gpuperf(…) or gpuperf.profile(…) in the test",
    "timeline": "a trace: call gpuperf.trace(…) in the test",
}
"""Pictures by name, with the values that each needs."""


def picture_of(project: Project, ref: str, name: str) -> Picture:
    """Make one picture of the one measurement that an argument names.

    Args:
        project: The project, with its runs and baselines.
        ref: A test of a run, as `choose` takes it; an ncu file or a trace of torch.profiler, for an ncu file
            with `::` and a regex for names of kernels.
        name: One of `NEEDS`.

    Raises:
        GpuperfError: Nothing or several tests have that name, or the values were not measured.
    """
    file, _, regex = ref.partition("::")
    path = Path(file)
    if type_of(path) == "file" and kind_of(path) in ("other", "trace"):
        title, found = _of_trace(path) if kind_of(path) == "trace" else _of_ncu_file(path, regex or None)
        notes = [path.name]
    else:
        entry, folder = _entry(project, ref)
        title, found = entry.shown, _pictures(project, entry, folder)
        notes = source_lines([entry.run])
    if name not in found:
        raise GpuperfError(
            f"{title} has no values for the picture {name!r}",
            expected=f"one of {', '.join(found)}" if found else "",
            next_step=f"{name} needs {NEEDS[name]}",
        )
    picture = found[name]
    return replace(picture, title=f"{picture.title}: {title}", notes=(*picture.notes, *notes))


def _entry(project: Project, ref: str) -> tuple[Entry, Path]:
    """Return the one measurement of a name, and the folder of its run."""
    folders: dict[str, Path] = {}

    def load(name: str | None) -> Run:
        path = project.find(name)
        run = load_run(path)
        folders[run.id] = path.parent
        return run

    choice = choose(ref, load)
    if len(choice.entries) > 1:
        shown = [entry.shown for entry in choice.entries[:3]]
        raise GpuperfError(
            f"{ref!r} names {count(len(choice.entries), 'measurement')}: {', '.join(shown)} …",
            expected="one test for --picture",
            next_step=f"gpuperf plot '{choice.run.id}::{shown[0]}' --picture …",
        )
    (entry,) = choice.entries
    return entry, folders[choice.run.id]


def _pictures(project: Project, entry: Entry, folder: Path) -> dict[str, Picture]:
    from pytest_gpuperf.baseline.expectations import Expectations
    from pytest_gpuperf.judge.times import judgement_of

    run, measurement, nodeid = entry.run, entry.measurement, entry.test.nodeid
    gpu = run.environment.gpu
    expected = Expectations(project.store, gpu)
    slug = STATIC_SOURCE if measurement.is_static else ""
    known = expected.of(nodeid, slug)
    baseline = known.measurements.get(entry.label) if known is not None else None
    origin = expected.origin(nodeid, run.environment)
    judgement = judgement_of(measurement, baseline or MeasurementBaseline(), origin, entry.test.tolerance_pct)
    return pictures_of(
        measurement,
        gpu,
        baseline=baseline,
        runs=expected.runs(nodeid, slug),
        comparison=judgement.time if judgement is not None else None,
        folder=folder,
    )


def _of_ncu_file(path: Path, regex: str | None) -> tuple[str, dict[str, Picture]]:
    kernels = instrument("ncu").read_report(path, regex)
    names = list(dict.fromkeys(kernel.name for kernel in kernels))
    launches = f", {len(kernels)} launches" if len(kernels) > 1 else ""
    measurement = Measurement(profile=Profile(kernels=tuple(kernels), combined=combine(kernels)))
    return f"{' + '.join(names[:3])}{launches}", pictures_of(measurement, NO_GPU)


def _of_trace(path: Path) -> tuple[str, dict[str, Picture]]:
    from pytest_gpuperf.features.trace.chrome import read_chrome_trace
    from pytest_gpuperf.features.trace.summary import median_region, summarise

    trace = read_chrome_trace(path)
    made = summarise(trace)
    region, _ = median_region(trace, made.device)
    return path.name, {"timeline": timeline(region.activities, made)}
