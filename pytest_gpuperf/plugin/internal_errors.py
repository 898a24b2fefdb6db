"""Unexpected errors of this plugin: they become lines, and pytest goes on.

It is imported without `--gpuperf`, so it imports records only when there is an error.
"""

from __future__ import annotations

import re
from functools import wraps
from inspect import isgeneratorfunction
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import pytest

from pytest_gpuperf.errors import GpuperfError, of_system, show_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import TypeAlias

    from _pytest.terminal import TerminalReporter

    from pytest_gpuperf.session.progress import News

    Hook: TypeAlias = Callable[..., Any]

ISSUES = "https://github.com/pytest-gpuperf/pytest-gpuperf/issues"
COLLECTED = "pytest_collection_modifyitems"
"""The hook that makes a run ready to measure."""
ENDS_THE_RUN = frozenset(
    (
        "pytest_load_initial_conftests",
        "pytest_xdist_auto_num_workers",
        "pytest_configure",
        COLLECTED,
        "pytest_runtestloop",
    )
)
"""Hooks in which a mistake of the user ends the run."""
FAILS_THE_TEST = frozenset(("pytest_runtest_setup", "pytest_runtest_call"))
"""Hooks whose error fails their test: one that could not be judged must not pass."""
OF_THE_USER = (
    "pytest_gpuperf.records.call",
    "pytest_gpuperf.measure.correctness",
    "pytest_gpuperf.features.fuzz",
    "pytest_gpuperf.measure.reachable_tensors",
    "pytest_gpuperf.measure.verification",
)
"""Modules that call code of the user: an error from below them need not be this plugin's."""
FRAMES_SHOWN = 3
_PACKAGE = Path(__file__).parents[1]


class OwnErrors:
    """The errors of one run, which the terminal shows at its end."""

    def __init__(self) -> None:
        from pytest_gpuperf.session.progress import News

        self.news: News = News()
        """What a reader of the run should know; its `failures` are these errors."""
        self.tell: Callable[[], object] = lambda: None
        """Called after each error; a worker tells the controller."""

    @classmethod
    def of(cls, config: pytest.Config) -> OwnErrors:
        """Return the errors of a run."""
        return config.stash.setdefault(OWN_ERRORS, cls())

    def note(self, place: str, error: Exception) -> str:
        """Keep an error, and return its line.

        Args:
            place: The hook, or another thing that failed.
            error: The error; raised again if it is not this plugin's: a request to end pytest, or the error
                of a kernel, which torch and Triton report wherever the host waits next, or a lack of memory.
        """
        asked = isinstance(error, (pytest.UsageError, pytest.exit.Exception, pytest.Session.Failed))
        if asked or re.search(r"CUDA error|\[CUDA\]|[Oo]ut of memory", show_exception(error)):
            raise error
        line = _line(place, error)
        self.news.failures.setdefault(place, line)
        self.tell()
        return line

    def settle(self, hook: str, error: Exception) -> None:
        """End no more than a hook that has failed; if it concerns one test, this test.

        Raises:
            pytest.UsageError: The run cannot begin, or the user can fix the error.
        """
        from pytest_gpuperf.records.change import printable_lines

        if hook == COLLECTED and isinstance(error, OSError):
            error = of_system(error)  # such as a file in the place of a folder: no test can be measured
        ends, fails = hook in ENDS_THE_RUN, hook in FAILS_THE_TEST
        mistake = isinstance(error, GpuperfError) and (ends or fails)
        text = printable_lines(f"gpuperf: {error if mistake else self.note(hook, error)}")
        if fails:
            raise pytest.fail.Exception(text, pytrace=False) from None
        if (mistake and ends) or hook == "pytest_configure":
            raise pytest.UsageError(text) from None

    def run(self, hook: str, *steps: Callable[[], object]) -> None:
        """Do the steps of a hook: one that fails leaves the others."""
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: PERF203
                self.settle(hook, error)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """Clean the reason of a failure or a skip of this package: it may hold text of files."""
        from pytest_gpuperf.records.change import printable_lines

        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, (pytest.fail.Exception, pytest.skip.Exception)) and _is_own(error):
            error.msg = printable_lines(str(error.msg))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show the errors below everything else."""
        from pytest_gpuperf.records.change import printable

        for line in self.news.failures.values():
            terminalreporter.write_line(printable(f"gpuperf: {line}"), red=True)


OWN_ERRORS = pytest.StashKey[OwnErrors]()


def guarded(hook: Hook, config: pytest.Config | None = None, name: str = "") -> Hook:
    """Return a hook after whose own errors pytest goes on.

    Args:
        hook: The hook.
        config: pytest's; None for a hook whose first argument is it, or has it.
        name: The name of the hook, if the function has another one.
    """
    name = name or hook.__name__

    def own(args: tuple[Any, ...]) -> OwnErrors:
        return OwnErrors.of(config or getattr(args[0], "config", args[0]))

    @wraps(hook)
    def plain(*args: Any) -> Any:
        try:
            return hook(*args)
        except Exception as error:
            return own(args).settle(name, error)

    @wraps(hook)
    def around(*args: Any) -> Generator[None, Any, Any]:
        inner = hook(*args)
        try:
            next(inner)
        except Exception as error:
            own(args).settle(name, error)
            return (yield)
        try:
            outcome = yield
        except BaseException as raised:
            try:
                inner.throw(raised)
            except StopIteration as end:
                return end.value
            except Exception as error:
                if error is not raised:
                    own(args).note(name, error)
            raise
        try:
            inner.send(outcome)
        except StopIteration as end:
            return end.value
        except Exception as error:
            own(args).settle(name, error)
        return outcome

    return around if isgeneratorfunction(hook) else plain


def register(config: pytest.Config, plugin: object, name: str) -> None:
    """Register an object with hooks, each of them guarded."""
    for hook in dir(plugin):
        if hook.startswith("pytest_"):
            setattr(plugin, hook, guarded(getattr(plugin, hook), config, hook))
    config.pluginmanager.register(plugin, name)


def is_of_measuring(error: Exception) -> bool:
    """Return True for an error of this plugin that ended a measurement of a test."""
    from pytest_gpuperf.plugin.recorder import Recorder

    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if any(str(frame.f_globals.get("__name__")).startswith(OF_THE_USER) for frame in frames):
        return False
    return any(isinstance(frame.f_locals.get("self"), Recorder) for frame in frames)


def _is_own(error: BaseException) -> bool:
    """Return True if this package raised an exception, by itself or by `pytest.fail` and its kind."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    raising = [name for name in modules if name != "_pytest.outcomes"]
    return bool(raising) and raising[-1].startswith("pytest_gpuperf.")


def _line(place: str, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"error in {place}: {of_system(error)}"
    places = [(Path(frame.f_code.co_filename), line) for frame, line in walk_tb(error.__traceback__)]
    own = [
        f"{path.relative_to(_PACKAGE).as_posix()}:{line}"
        for path, line in places
        if _PACKAGE in path.parents and path != Path(__file__)
    ]
    trace = f" ({' > '.join(own[-FRAMES_SHOWN:])})" if own else ""
    return f"internal error in {place}: {show_exception(error)}{trace}; please report this line at {ISSUES}"
