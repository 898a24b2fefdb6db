"""`gpuperf bisect`: one run of pytest, with the exit status that `git bisect run` expects."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from pytest_gpuperf.errors import of_system
from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.change import printable

GOOD, BAD, SKIPPED = 0, 1, 125
"""Exit statuses; git takes any other one below 128 for a bad commit."""
NOTHING_KNOWN = "no verdicts; expected a COMMAND that runs `pytest --gpuperf` and no other --gpuperf-json"


class _Test(msgspec.Struct, frozen=True):
    nodeid: str
    verdict: Status
    expected_failure: bool


class _Verdicts(msgspec.Struct, frozen=True):
    """The part of the file of `--gpuperf-json` that is needed."""

    passed: bool
    tests: tuple[_Test, ...]
    replayed: bool = False
    skipped: tuple[str, ...] = ()


@click.command("bisect", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("line", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND...")
def command(line: tuple[str, ...]) -> None:
    """Tell `git bisect run` if a commit is good or bad.

    COMMAND runs `pytest --gpuperf`, as it is or in a script that builds first. The exit status is 0 if all
    tests pass, 1 if one is `regressed`, and in any other case 125: git skips the commit.
    """
    status, why = SKIPPED, "interrupted"
    with suppress(KeyboardInterrupt):
        status, why = _judged(line)
    name = {GOOD: "good", BAD: "bad", SKIPPED: "skipped"}[status]
    try:
        click.echo(printable(f"gpuperf: {name}: {why}"), err=True)
    except OSError:
        # Full, or without a reader. Python would try again at its end, and exit with 120, so bad.
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    sys.exit(status)


def _judged(line: tuple[str, ...]) -> tuple[int, str]:
    """Run the command; return the exit status and the reason."""
    if not line:
        return SKIPPED, NOTHING_KNOWN
    found = None
    try:
        with TemporaryDirectory(prefix="gpuperf-bisect-") as folder:
            path = Path(folder, "verdicts.json")
            options = f"{os.environ.get('PYTEST_ADDOPTS', '')} {shlex.quote(f'--gpuperf-json={path}')}"
            environment = {**os.environ, "PYTEST_ADDOPTS": options}
            ended = subprocess.run(line, env=environment, check=False).returncode  # noqa: S603 - the user's own
            with suppress(OSError, msgspec.DecodeError):
                found = msgspec.json.decode(path.read_bytes(), type=_Verdicts)
    except OSError as error:
        return SKIPPED, str(of_system(error))
    if found is None:
        return SKIPPED, NOTHING_KNOWN
    if found.replayed:
        return SKIPPED, "nothing was measured: a recording was judged"
    bad = [one for one in found.tests if one.verdict is Status.REGRESSED and not one.expected_failure]
    if bad:
        return BAD, f"{bad[0].nodeid} is {bad[0].verdict.value}"
    unclear = [
        f"{one.nodeid} is {one.verdict.value}{', as expected' * one.expected_failure}"
        for one in found.tests
        if one.verdict not in (Status.PASS, Status.IMPROVED)
    ]
    unclear += [f"{nodeid} was skipped" for nodeid in found.skipped]
    if unclear:
        return SKIPPED, unclear[0]
    if ended or not found.passed or not found.tests:
        return SKIPPED, f"no verdict is bad, but the command ended with {ended}"
    return GOOD, f"{len(found.tests)} passed"
