"""`gpuperf report`: write the results of runs as one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pytest_gpuperf.cli.output import output_file, write
from pytest_gpuperf.cli.project import Project, count_tests, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.records.files import show_path

if TYPE_CHECKING:
    from pathlib import Path


@click.command("report")
@click.argument("runs", metavar="[RUN …]", nargs=-1)
@output_file("-o", "--output", required=True, help="Write to this file: report.html.")
@project_options
def command(project: Project, runs: tuple[str, ...], output: Path) -> None:
    """Write runs as one HTML page that needs no other file.

    RUN is an id, the start of an id, a run.json, its folder, or what `gpuperf merge` wrote; the newest run by
    default. There is a section for each run, such as those of several GPU models. The page has a table of all
    tests with their verdicts; each test shows its times, counters, roofline and explanation. Limits are those
    of the baselines and those that the tests stated in the run.
    """
    from pytest_gpuperf.baseline.run_verdicts import judge_run
    from pytest_gpuperf.baseline.store import Expectations
    from pytest_gpuperf.features.page.main_table import entries_of
    from pytest_gpuperf.features.page.page import page_pieces
    from pytest_gpuperf.features.page.run_section import Section
    from pytest_gpuperf.features.page.source_links import source_links
    from pytest_gpuperf.report.number_format import count
    from pytest_gpuperf.report.rows import Summary

    loaded = [run for ref in runs or [None] for run in project.load_all(ref)]
    links = source_links(project.root)
    sections = []
    for run in loaded:
        results = judge_run(run, project.store, project.tolerance_pct)
        summary = Summary(
            results, run.environment, None, counters_unavailable=run.counters_unavailable, root=project.root
        )
        sections.append(Section(run, summary, Expectations(project.store, run.environment), links))
    tests = [test for section in sections for test in section.run.tests]
    rows = count(sum(len(entries_of(section.summary.results)) for section in sections), "row")
    of = ", ".join(run.id for run in loaded)
    write(
        {output: page_pieces(sections)}, f"wrote {show_path(output)} ({count_tests(tests)}, {rows}) of {of}"
    )
    if not tests:
        raise GpuperfError("no test was judged", expected="runs with tests")
