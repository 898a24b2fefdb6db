"""`gpuperf explain`: show what bounds the kernels of a run or an ncu file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import output_form, show
from pytest_gpuperf.cli.project import Project, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.compare.selectors import choose_all
from pytest_gpuperf.features.explain.diagnosis_rows import explain_kernels, explain_measurement
from pytest_gpuperf.features.explain.report import ExplainedMeasurement, explain_report
from pytest_gpuperf.features.ncu.launch_tables import header_lines as ncu_header_lines
from pytest_gpuperf.features.ncu.launches import failure_note
from pytest_gpuperf.records.call import check_regex
from pytest_gpuperf.records.file_kind_detection import kind_of, type_of
from pytest_gpuperf.report.rows import header_lines

if TYPE_CHECKING:
    from pytest_gpuperf.features.compare.selectors import ChosenMeasurements, RunMeasurement
    from pytest_gpuperf.features.ncu.report_file import NcuFile
    from pytest_gpuperf.records import Run
    from pytest_gpuperf.report.table import Report


@click.command("explain")
@click.argument("source", metavar="[RUN|FILE]", required=False)
@click.argument("test", required=False)
@output_form
@project_options
def command(project: Project, source: str | None, test: str | None, form: str) -> None:
    """Show the bound of each call and kernel, and what to try.

    RUN is an id, the start of an id, a run.json, its folder, or what `gpuperf merge` wrote; the newest run by
    default; or tests of a run, RUN::TEST and ::TEST. FILE is a report (.ncu-rep) or CSV from ncu,
    gzipped or not. TEST is a part of test names; if no test has it, it is a regex for the names of kernels.
    """
    from pytest_gpuperf.features.ncu.report_file import read_file

    path = None if source is None else Path(source)
    if path is not None and type_of(path) == "file" and kind_of(path) == "other":
        if test is not None:
            check_regex(test, "asked for")
        report = _of_file(read_file(path, test))
    else:
        report = _of_run(project, source or "latest", test)
    show(report, form)


def _of_run(project: Project, source: str, wanted: str | None) -> Report:
    choices = choose_all(source, project.load_all)
    kernels = None
    if wanted is not None and not any(_with_name(choice, wanted) for choice in choices):
        check_regex(wanted, "asked for")
        kernels, wanted = wanted, None
    sections = [(choice.run, _explained(choice, wanted, kernels)) for choice in choices]
    if not any(found for _, found in sections):
        named = f"of {source!r}" if "::" in source else "of any test"
        asked = wanted or kernels
        what = named if asked is None else f"of a test or kernel {asked!r}"
        raise GpuperfError(
            f"the run {choices[0].run.id} has no counters {what}, and no kernel table",
            expected="a part of a test's name, or a regex found in a kernel's"
            if asked
            else "tests that were profiled or traced on a GPU",
        )
    return explain_report([(_above(run), found) for run, found in sections if found])


def _above(run: Run) -> list[str]:
    above = header_lines(run.environment, None)
    if run.counters_unavailable:
        above.append(f"no counters: {run.counters_unavailable}")
    return above


def _with_name(choice: ChosenMeasurements, wanted: str | None) -> list[RunMeasurement]:
    return [entry for entry in choice.entries if wanted is None or wanted in entry.test.nodeid]


def _explained(
    choice: ChosenMeasurements, wanted: str | None, kernels: str | None
) -> list[ExplainedMeasurement]:
    gpu = choice.run.environment.gpu
    explained = [
        explain_measurement(entry.test, entry.label, regex=kernels) for entry in _with_name(choice, wanted)
    ]
    return [replace(one, gpu=gpu.slug) for one in explained if one is not None]


def _of_file(file: NcuFile) -> Report:
    failed = failure_note(file.kernels)
    rows, left_out = explain_kernels(file.kernels)
    above = [*ncu_header_lines(file), *file.notes, *filter(None, [failed])]
    return explain_report([(above, [ExplainedMeasurement("", "", rows, left_out=left_out)])])
