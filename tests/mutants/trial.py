"""Runs of the tests of a mutant, each in a process forked from one that has the slow imports behind it."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from multiprocessing.connection import Connection
    from pathlib import Path

_SERVER = multiprocessing.get_context("forkserver")
# No module of the package: one that is changed where it runs at import is read in each process.
PRELOAD = (__name__, "inline_snapshot", "msgspec", "scipy.optimize", "scipy.special", "scipy.stats", "torch")
"""Modules that the server of the forked processes imports first."""
_OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
PATIENCE_S = 30
"""Seconds that a test may take in addition to five times its usual duration: a mutant may make it hang."""
ENDED = "a process that ended early"
_OTHER_FUNCTIONS = 77
"""Exit status if a change cannot be made in a process that has the functions."""


class Collected:
    """A process that has collected all tests, and forks one that runs those of a mutant.

    A change in a function replaces the code of the function. What runs at import needs a fresh process:
    see `failing`.
    """

    def __init__(self, project: Path, files: list[str]) -> None:
        self._connection, other = _SERVER.Pipe()
        self._process = _SERVER.Process(target=_collect, args=(str(project), files, other), daemon=True)
        self._process.start()
        other.close()
        self._connection.recv()

    def failing(self, path: Path, original: str, source: str, tests: Mapping[str, float]) -> list[str] | None:
        """Run tests with another source of a file until the first failure; return the test that fails.

        None if the sources have different functions: that needs a fresh process.

        Args:
            path: The file.
            original: Its source when the tests were collected.
            source: The changed source.
            tests: Usual seconds by node id, in the order in which the tests run.
        """
        self._connection.send((str(path), original, source, dict(tests)))
        failed = []
        while isinstance(said := self._connection.recv(), str):
            failed.append(said)
        if said == _OTHER_FUNCTIONS:
            return None
        return failed or ([] if said == 0 else [ENDED])


def failing(project: Path, tests: Mapping[str, float], *, all_of_them: bool = False) -> list[str]:
    """Run tests in a fresh process; return those that fail: one, or all of them.

    Args:
        project: A copy of the project.
        tests: Usual seconds by node id.
        all_of_them: Go on after the first failure.
    """
    receiver, sender = _SERVER.Pipe(duplex=False)
    process = _SERVER.Process(target=_run, args=(str(project), dict(tests), sender, all_of_them))
    process.start()
    process.join()
    with suppress(ProcessLookupError):  # children that the tests left behind
        os.killpg(process.pid or 0, signal.SIGKILL)
    sender.close()
    failed: list[str] = []
    with suppress(EOFError):
        while True:
            failed.append(receiver.recv())
    return failed or ([] if process.exitcode == 0 else [ENDED])


class _Plugin:
    """Plugin of pytest that runs chosen tests in their order, each with a limit, and says which fail."""

    def __init__(self, tests: dict[str, float], sender: Connection) -> None:
        self.tests, self.sender = tests, sender
        self.failed = False

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        order = {name: number for number, name in enumerate(self.tests)}
        chosen = [item for item in items if item.nodeid in order]
        items[:] = sorted(chosen, key=lambda item: order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.alarm(int(PATIENCE_S + 5 * self.tests[nodeid]))  # without a handler it ends the process

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = True
            self.sender.send(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.sender.send(report.nodeid)


class _Forking(_Plugin):
    """The plugin of the process that has collected all tests: it forks one for each mutant."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep all tests."""

    def pytest_runtestloop(self, session: pytest.Session) -> NoReturn:
        items = {item.nodeid: item for item in session.items}
        gc.unfreeze()  # `loaded_once` has hidden what it imported
        functions = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
        gc.freeze()
        sys.dont_write_bytecode = True
        self.sender.send(0)
        while True:
            path, original, source, self.tests = self.sender.recv()
            child = os.fork()
            if not child:
                os.setsid()
                try:
                    replace_code(functions, path, original, source)
                except ValueError:
                    os._exit(_OTHER_FUNCTIONS)
                self._run([items[name] for name in self.tests if name in items])
            _, status = os.waitpid(child, 0)
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            self.sender.send(os.waitstatus_to_exitcode(status))

    def _run(self, items: list[pytest.Item]) -> NoReturn:
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                break
        os._exit(self.failed)


def replace_code(functions: list[FunctionType], path: str, original: str, source: str) -> None:
    """Give the functions of a file the code of another source.

    Raises:
        ValueError: The other source has other functions, or other closures.
    """
    one, other = (list(_codes(compile(text, path, "exec", dont_inherit=True))) for text in (original, source))
    codes: dict[tuple[str, int], CodeType | None] = {}
    for old, new in zip(one, other, strict=True):
        place = (old.co_name, old.co_firstlineno)
        codes[place] = new if place not in codes else None  # two lambdas on a line
    for function in functions:
        code = function.__code__
        if code.co_filename == path and (found := codes.get((code.co_name, code.co_firstlineno))):
            function.__code__ = found


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of all functions and classes, in their order; no comprehensions, which are in them."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == "<lambda>" or not constant.co_name.startswith("<"):
                yield constant
            yield from _codes(constant)


def _collect(project: str, files: list[str], sender: Connection) -> None:
    _prepare(project)
    pytest.main([*_OPTIONS, f"--basetemp={project}.temporary", *files], plugins=[_Forking({}, sender)])
    os._exit(1)


def _run(project: str, tests: dict[str, float], sender: Connection, all_of_them: bool) -> None:
    os.setsid()
    _prepare(project)
    sys.dont_write_bytecode = True  # a mutant of the same size and second would be taken for the one before
    signal.alarm(PATIENCE_S)
    files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
    status = pytest.main(
        [*_OPTIONS, f"--basetemp={project}.temporary", *([] if all_of_them else ["-x"]), *files],
        plugins=[_Plugin(tests, sender)],
    )
    # What a mutant breaks outside of tests, such as the plugin's start, is noticed too.
    os._exit(0 if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else 1)


def _prepare(project: str) -> None:
    os.chdir(project)
    os.environ.update(PYTHONPATH=project, PYTHONDONTWRITEBYTECODE="1")
    sys.dont_write_bytecode = False
    sys.path.insert(0, project)
    hypothesis.settings.register_profile(
        "mutants", deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck)
    )
    hypothesis.settings.load_profile("mutants")
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(silent, stream)
    gc.freeze()
