"""`gpuperf comment`: write the comment on a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from pytest_gpuperf.baseline.run_verdicts import judge_run, not_measured
from pytest_gpuperf.baseline.store import Expectations
from pytest_gpuperf.cli.output import output_file, write
from pytest_gpuperf.cli.project import Project, count_tests, project_options
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.github.merging import merge_runs
from pytest_gpuperf.features.github.pull_request_comment import (
    JudgedRun,
    RequestFacts,
    refused_comment,
    request_comment,
)
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.records.run import STATIC_SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONCLUSIONS = ("success", "failure", "cancelled", "timed_out")
"""Results of a workflow run on GitHub."""


def _only(regex: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return a check of an option: nothing that passes can be markup."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value is None or re.fullmatch(regex, value):
            return value
        raise click.BadParameter(f"{value!r} does not match {regex}", ctx, param)

    return check


_URL = _only(r"https?://[A-Za-z0-9.:/_~%?=&#-]+")
_NAME = _only(r"[a-z0-9]+(-[a-z0-9]+)*")


@click.command("comment")
@click.argument("runs", nargs=-1, required=True)
@output_file("-o", "--output", required=True, help="Write the Markdown to this file.")
@click.option("--report", callback=_URL, help="Link to the HTML report.")
@click.option("--job", callback=_URL, help="Link to the workflow run that measured.")
@click.option("--conclusion", type=click.Choice(CONCLUSIONS), help="Name the result of that job.")
@click.option(
    "--marker",
    callback=_NAME,
    default="gpuperf",
    show_default=True,
    help="Set the name in the hidden first line, by which the comment is found again.",
)
@click.option("--partial", is_flag=True, help="Expect only some of the tests: do not name missing ones.")
@project_options
def command(
    project: Project,
    runs: tuple[str, ...],
    output: Path,
    report: str | None,
    job: str | None,
    conclusion: str | None,
    marker: str,
    partial: bool,
) -> None:
    """Write RUNS as a comment on a pull request.

    A run is an id, the start of an id, a run.json, its folder, or a folder from `gpuperf merge`. The records
    are judged by the baselines and the tolerance of the project and by the limits in the records, without its
    tests: no code of the pull request runs. Runs that cannot be judged are an error, and the file says so.
    """
    facts = RequestFacts(marker, report or "", job or "", conclusion or "")
    try:
        merged = merge_runs([run for ref in runs for run in project.load_all(ref)])
        judged = []
        for run in merged.runs:
            results = judge_run(run, project.store, project.tolerance_pct)
            missing = [] if partial else not_measured(run, project.store)
            expected = Expectations(project.store, run.environment)
            slugs = ("", STATIC_SOURCE)
            known = any(expected.of(test.nodeid, slug) for test in run.tests for slug in slugs)
            judged.append(JudgedRun(run, results, missing, known))
    except GpuperfError as error:
        write({output: refused_comment(str(error), facts).encode()})
        raise
    text = request_comment(judged, facts, merged.notes)
    tests = [result for one in judged for result in one.results]
    write({output: text.encode()}, f"wrote {show_path(output)} ({count_tests(tests)})")
