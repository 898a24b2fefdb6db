"""Runs of the `gpuperf` command in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from pytest_gpuperf.cli import main


def gpuperf(*arguments: object, status: int | None = None) -> Result:
    """Run a command, and check its exit status if one is expected."""
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert status is None or done.exit_code == status, done.output
    return done
