"""`gpuperf trace`: show the kernel tables of a run, or of a trace from torch.profiler."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.selectors import choose_all
from pytest_gpuperf.features.trace.files import FoundTrace, read_traces
from pytest_gpuperf.features.trace.kernel_table import short_name
from pytest_gpuperf.features.trace.report import trace_report
from pytest_gpuperf.features.trace.summary import NAMES_SHOWN
from pytest_gpuperf.records.call import check_regex
from pytest_gpuperf.records.file_kind_detection import kind_of, type_of
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.run_store import RUN_FILES, file_of_run, load_run
from pytest_gpuperf.report.number_format import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_gpuperf.records import Run

_RUN_AND_TEST = 2


@click.command("trace")
@click.argument("sources", metavar="[SOURCE]... [TEST]", nargs=-1)
@click.option("--kernel", metavar="REGEX", help="Show only kernels with this regex in their names.")
@click.option(
    "--annotation",
    metavar="REGEX",
    help="Show the part of a trace file inside these annotations, such as 'ProfilerStep#.*'; the median if "
    "there are several (default: the whole file).",
)
@output_form
@project_options
def command(
    project: Project,
    sources: tuple[str, ...],
    kernel: str | None,
    annotation: str | None,
    form: str,
) -> None:
    """Show the kernels of a run or of saved traces.

    SOURCE is a run (an id, the start of an id, a run.json, or its folder; the newest run by default), tests
    of a run as RUN::TEST and ::TEST, or trace files and folders of them, from export_chrome_trace or
    tensorboard_trace_handler, gzipped or not: ranks, GPUs and steps stand next to each other. TEST alone is
    a part of a node id. Needs no GPU.
    """
    if kernel is not None:
        check_regex(kernel, "of --kernel")
    paths = [Path(source) for source in sources]
    remarks: list[str] = []
    of_run = not paths or not _is_trace(paths[0])
    if not of_run:
        if strange := [source for source, path in zip(sources, paths, strict=True) if not type_of(path)]:
            raise click.UsageError(
                f"{strange[0]!r} is neither a file nor a folder; TEST chooses among the tests of a run"
            )
        found, remarks = read_traces(paths, annotation)
    elif annotation is not None:
        raise click.UsageError("--annotation is for a trace file; a run holds the table of one call")
    elif len(sources) > _RUN_AND_TEST:
        raise click.UsageError("a run and a part of a test's name, or trace files, are expected")
    else:
        found = _of_run(project, *(sources or ("latest",)))
    chosen = found if kernel is None else _with_kernel(found, kernel)
    # The bounds of a call depend on all its kernels; a file is more than a call, as slow as its profiler.
    explained = of_run and kernel is None
    show(trace_report(chosen, matching=kernel or "", explained=explained, remarks=remarks), form)


def _is_trace(path: Path) -> bool:
    """Return True for a file or a folder that is not a run."""
    if type_of(path) == "folder":
        return not any(found for name in RUN_FILES for found in (*path.glob(name), *path.glob(f"*/{name}")))
    return type_of(path) == "file" and kind_of(path) != "run"


def _of_run(project: Project, ref: str, test: str | None = None) -> list[FoundTrace]:
    path = Path()

    def load(run_ref: str | None) -> list[Run]:
        nonlocal path
        path = project.find(run_ref)
        return [load_run(path)]

    [choice] = choose_all(ref, load)
    found = [
        FoundTrace(trace, file_of_run(path, trace.file), entry.test.nodeid, entry.label)
        for entry in choice.entries
        if (trace := entry.measurement.trace) is not None and (test is None or test in entry.test.nodeid)
    ]
    if not found:
        records = choice.run.tests
        known = ", ".join(one.nodeid for one in records if any(m.trace for m in one.measurements.values()))
        what = f" of a test with {test!r} in its name" if test else f" of {ref!r}" if "::" in ref else ""
        raise GpuperfError(
            f"{show_path(path)} has no trace{what}",
            expected=f"a part of one of {known}" if known else "a run whose tests call gpuperf.trace()",
        )
    return found


def _with_kernel(found: Sequence[FoundTrace], regex: str) -> list[FoundTrace]:
    """Keep the kernels with the regex in their names; at least one table must have some."""
    chosen = [_only(one, regex) for one in found]
    if not any(one.trace.kernels for one in chosen):
        names = list(dict.fromkeys(short_name(row.name) for one in found for row in one.trace.kernels))
        where = found[0].title if len(found) == 1 else f"the {len(found)} traces"
        raise GpuperfError(
            f"no kernel of {where} matches {regex!r}",
            expected=f"a regex found in the name of one of {listed(names, NAMES_SHOWN)}"
            if names
            else "a trace of kernels",
        )
    return chosen


def _only(one: FoundTrace, kernel: str) -> FoundTrace:
    kernels = tuple(row for row in one.trace.kernels if re.search(kernel, row.name))
    return replace(one, trace=msgspec.structs.replace(one.trace, kernels=kernels))
