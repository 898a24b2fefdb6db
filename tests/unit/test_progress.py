"""The progress line of a pass."""

from __future__ import annotations

import pytest

from fake_reporter import Reporter
from pytest_gpuperf.session.progress import Progress


def test_a_log_gets_two_lines() -> None:
    reporter = Reporter(isatty=False)
    with Progress(reporter, "ncu profiles 3 tests") as progress:  # type: ignore[arg-type]
        assert reporter.unseen == 0
        for done in range(4):
            progress(f"{done}/3")
    assert reporter.rewritten == []
    begun = "gpuperf: ncu profiles 3 tests"
    assert reporter.lines == [f"{begun} ...", f"{begun}: done in 0.0 s"]


def test_a_terminal_gets_one_line_that_counts() -> None:
    reporter = Reporter(isatty=True)
    with Progress(reporter, "ncu profiles 3 tests") as progress:  # type: ignore[arg-type]
        for done in (0, 0, 1, 3):
            progress(f"{done}/3")
    assert [line.split(",")[0] for line in reporter.rewritten[:-1]] == [
        "gpuperf: ncu profiles 3 tests: 0/3",
        "gpuperf: ncu profiles 3 tests: 1/3",
        "gpuperf: ncu profiles 3 tests: 3/3",
    ]


def test_interruption_is_shown() -> None:
    reporter = Reporter(isatty=False)
    with pytest.raises(KeyboardInterrupt), Progress(reporter, "ncu profiles 3 tests"):  # type: ignore[arg-type]
        raise KeyboardInterrupt
    assert reporter.lines[-1] == "gpuperf: ncu profiles 3 tests: stopped after 0.0 s"
