"""`gpuperf baseline pin` and `unpin`: compare with a release as well as with the newest baseline."""

from __future__ import annotations

from datetime import datetime, timezone

import click

from pytest_gpuperf.baseline.merge import refuse_in_ci
from pytest_gpuperf.baseline.pins import PinnedSuite, pin, unpin
from pytest_gpuperf.cli.output import echo
from pytest_gpuperf.cli.project import Project, count_tests, project_options
from pytest_gpuperf.errors import GpuperfError

ONLY_TESTS = click.option(
    "--only",
    multiple=True,
    metavar="TESTS",
    help="Choose a node id, a test without its parameters, a file or a folder; repeatable (default: all "
    "tests on all GPUs).",
)
NEXT_STEP = "type the same on your machine, and commit the changes"


@click.command("pin")
@click.argument("name", default="")
@ONLY_TESTS
@project_options
def pin_command(project: Project, name: str, only: tuple[str, ...]) -> None:
    """Keep the present sessions of each time as NAME.

    Times are compared with pinned sessions too. That shows slowdowns that are too small to detect one by one
    but add up, for example from release to release. Refused if CI is set.
    """
    refuse_in_ci(next_step=NEXT_STEP)
    if not name.isprintable():
        raise GpuperfError(f"the pin {name!r} has no name that can be written", expected="printable text")
    date = f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    for suite in pin(project.store, name, date, only):
        _show(suite, f"pinned{f' as {name}' if name else ''}", "before")


@click.command("unpin")
@ONLY_TESTS
@project_options
def unpin_command(project: Project, only: tuple[str, ...]) -> None:
    """Remove pins. Refused if CI is set."""
    refuse_in_ci(next_step=NEXT_STEP)
    for suite in unpin(project.store, only):
        _show(suite, "unpinned", "from")


def _show(suite: PinnedSuite, what: str, how: str) -> None:
    before = f" ({how}: {', '.join(suite.before)})" if suite.before else ""
    echo(f"{suite.slug}/{suite.suite}: {count_tests(suite.tests)} {what}{before}")
