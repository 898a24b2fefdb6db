"""`gpuperf baseline pin` and `unpin`: a release to compare with besides the newest baseline."""

from __future__ import annotations

from datetime import datetime, timezone

import click

from pytest_gpuperf.baseline.merge import refuse_in_ci
from pytest_gpuperf.baseline.pins import PinnedSuite, pin, unpin
from pytest_gpuperf.cli.project import Project, count_tests, echo, project_options

ONLY_TESTS = click.option(
    "--only",
    multiple=True,
    metavar="TESTS",
    help="A node id, a test without its parameters, a file or a folder; may be given again (default: all "
    "tests on all GPUs).",
)
NEXT_STEP = "type the same on your machine, and commit what changes"


@click.command("pin")
@click.argument("name", default="")
@ONLY_TESTS
@project_options
def pin_command(project: Project, name: str, only: tuple[str, ...]) -> None:
    """Keep the present sessions of each time as NAME, whatever is accepted later.

    Times are compared with them too, so that losses that are too small to be seen one by one are seen when
    they have added up. Pin anew with each release, say. Refused where CI is set.
    """
    refuse_in_ci(next_step=NEXT_STEP)
    date = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    for suite in pin(project.store, name, date, only):
        _show(suite, f"pinned{f' as {name}' if name else ''}", "before")


@click.command("unpin")
@ONLY_TESTS
@project_options
def unpin_command(project: Project, only: tuple[str, ...]) -> None:
    """Compare with the baseline alone again. Refused where CI is set."""
    refuse_in_ci(next_step=NEXT_STEP)
    for suite in unpin(project.store, only):
        _show(suite, "unpinned", "from")


def _show(suite: PinnedSuite, what: str, how: str) -> None:
    before = f" ({how}: {', '.join(suite.before)})" if suite.before else ""
    echo(f"{suite.slug}/{suite.suite}: {count_tests(suite.tests)} {what}{before}")
