"""Private names of pytest, pluggy and pytest-benchmark, with the replacement of a missing one.

pytest 9.2 has all of them; the tests with the lowest dependencies run with pytest 8.0.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from _pytest.terminal import TerminalReporter


def leave_assertions() -> None:
    """Take this package from `_must_rewrite` of pytest's finder; else it is rewritten as test files are.

    That is slow, and happens in each run if Python may not write its bytecode, as in many containers.
    """
    for finder in sys.meta_path:
        getattr(finder, "_must_rewrite", set()).discard("pytest_gpuperf")


def early_options(config: pytest.Config) -> Namespace | None:
    """Return `known_args_namespace`, the first options; else None: the run has one process."""
    return getattr(config, "known_args_namespace", None)


def terminal_columns(reporter: TerminalReporter) -> int:
    """Return `_tw.fullwidth`; else the width of the terminal that Python sees."""
    found = getattr(getattr(reporter, "_tw", None), "fullwidth", None)
    return found if isinstance(found, int) else shutil.get_terminal_size().columns


def write_past_capture(reporter: TerminalReporter, text: Callable[[int], str]) -> None:
    """Write to `_tw._file`, of which pytest captures nothing; else nothing: there is no status line.

    Args:
        reporter: pytest's.
        text: Returns what to write for a number of columns.
    """
    writer: Any = getattr(reporter, "_tw", None)
    file = getattr(writer, "_file", None)
    if file is None:
        return
    # pytest captures writes to the terminal's file while a test runs.
    capture = reporter.config.pluginmanager.get_plugin("capturemanager")
    shown = getattr(capture, "global_and_fixture_disabled", nullcontext)
    with shown():
        file.write(text(terminal_columns(reporter)))
        writer.flush()


def set_collected(reporter: TerminalReporter, count: int) -> None:
    """Set `_numcollected`; else pytest's line about the collection counts 0 tests."""
    if hasattr(reporter, "_numcollected"):
        reporter._numcollected = count


def kept_failure(item: pytest.Item) -> list[pytest.ExceptionInfo[BaseException]] | None:
    """Return `_excinfo`, in which unittest's runner keeps an exception; else None: the test is judged."""
    return getattr(item, "_excinfo", None)


@contextmanager
def calls_held(caller: Any, holds: Callable[[dict[str, Any]], bool]) -> Iterator[bool]:
    """Keep calls of a hook from all plugins, by pluggy's `_hookexec`.

    Without it nothing is held: suspects are settled while their fixtures live, and reports appear before ncu
    has read their counters. Gives True if calls can be held.

    Args:
        caller: The hook.
        holds: Returns True for the arguments of a call to hold.
    """
    execute = getattr(caller, "_hookexec", None)
    if execute is None:
        yield False
        return

    def held(name: str, methods: object, kwargs: dict[str, Any], firstresult: bool) -> object:
        return [] if holds(kwargs) else execute(name, methods, kwargs, firstresult)

    caller._hookexec = held
    try:
        yield True
    finally:
        caller._hookexec = execute


def leave_out_summary_of_hypothesis(config: pytest.Config) -> None:
    """Remove Hypothesis' part of a summary that nobody reads, by pluggy's `_remove_plugin`.

    Without it Hypothesis imports itself for that, in 0.6 s. A `conftest.py` may write a file there.
    """
    plugin = config.pluginmanager.get_plugin("hypothesispytest")
    remove = getattr(config.hook.pytest_terminal_summary, "_remove_plugin", None)
    if plugin is not None and remove is not None:
        with suppress(ValueError):  # this version has no such part
            remove(plugin)


def reporter_type() -> Any:
    """Take `pytest.TerminalReporter`, or `_pytest.terminal.TerminalReporter` of older versions; else None."""
    name, private = "TerminalReporter", sys.modules.get("_pytest.terminal")
    return getattr(pytest, name, getattr(private, name, None))


def benchmarks_of(config: pytest.Config) -> Any:
    """Return pytest-benchmark's `_benchmarksession`; else None: its table is not shown."""
    return getattr(config, "_benchmarksession", None)
