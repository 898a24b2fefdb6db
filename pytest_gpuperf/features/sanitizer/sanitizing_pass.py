"""Run the selected tests under compute-sanitizer, in one process, or in several if a test ends the first."""

from __future__ import annotations

import os
import re
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_gpuperf.features.sanitizer.hit_assignment import HitsByTest, assign
from pytest_gpuperf.features.sanitizer.log_reader import read_log
from pytest_gpuperf.features.sanitizer.tool import environment
from pytest_gpuperf.processes.children import run_child
from pytest_gpuperf.records import SanitizerResult
from pytest_gpuperf.records.passes import PassFolder, PassPlan
from pytest_gpuperf.records.sanitizer_error_texts import errors_of
from pytest_gpuperf.settings.settings import SANITIZING_PASS_ENV

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytest_gpuperf.features.sanitizer.hit_assignment import Hits
    from pytest_gpuperf.features.sanitizer.tool import Sanitizer
    from pytest_gpuperf.records.passes import Event, Invocation, OpenProgress, SelectedTest

PROCESSES = 10
"""Maximum number of processes: each costs the import of torch and the start of CUDA."""
LOG_BYTES = 16 << 20
"""Maximum log of one process. A kernel with errors in all threads writes some 200 bytes for each of them."""
HITS_KEPT = 5
"""Errors kept for one test."""
LAST_WORDS = 2
"""Messages of the tool that are shown if it has failed."""
_SKIPPED = re.compile(r"its \w+ ended with (?:Skipped|XFailed):")


class _LogFullError(Exception):
    """A test has so many errors that more of them would add nothing."""


@dataclass(frozen=True)
class _Process:
    """Result of one process."""

    folder: PassFolder
    events: Sequence[Event]
    assigned: HitsByTest
    ending: str
    """`ended with exit status 3`."""
    log_full: bool

    @property
    def began(self) -> set[str]:
        """Tests that the process reached."""
        return {event.nodeid for event in self.events if event.range}

    @property
    def ended_in(self) -> str:
        """Test that was unfinished at the end of the process; empty if none was."""
        return next((event.nodeid for event in reversed(self.events) if event.range), "")

    @property
    def failures(self) -> dict[str, str]:
        """First phase that ended early, by node id."""
        return {event.nodeid: event.failure for event in reversed(self.events) if event.failure}

    def why_unchecked(self, nodeid: str) -> tuple[str, bool]:
        """Return the reason that a test was not checked to its end, and True if that is final."""
        if nodeid not in self.began:
            why = self.failures.get(nodeid, f"the process {self.ending} without it")
            return why, not self.ended_in
        if nodeid not in self.assigned.settled:
            return "the log does not tell its errors from those of other tests", False
        if nodeid in self.failures:
            return self.failures[nodeid], True
        if nodeid == self.ended_in:
            # The errors that filled the log may be those of tests before it.
            return f"the process {self.ending} in it", not self.log_full
        return "", True


class SanitizingPass:
    """Runs tests under one of compute-sanitizer's tools.

    Args:
        folder: Folder for the logs.
        sanitizer: The installation.
        tool: `memcheck`, `racecheck`, `initcheck` or `synccheck`.
        log_bytes: Size of a log, in bytes, that ends its process.
    """

    def __init__(self, folder: Path, sanitizer: Sanitizer, tool: str, log_bytes: int = LOG_BYTES) -> None:
        self.notices: list[str] = []
        """The summary."""
        self.results: dict[str, SanitizerResult] = {}
        """Errors of each test, or the reason that it was not checked to its end, by node id."""
        self.skipped: dict[str, SanitizerResult] = {}
        """The same for tests that skip themselves."""
        self.problems: list[str] = []
        """Problems of the run: the reason that not all tests could be checked, and errors outside of all
        tests."""
        self._folder = folder
        self._sanitizer = sanitizer
        self._tool = tool
        self._log_bytes = log_bytes

    @property
    def title(self) -> str:
        """Tool and version of compute-sanitizer."""
        return f"compute-sanitizer {self._sanitizer.version} ({self._tool})"

    @property
    def summary(self) -> str:
        """Number of tests without errors, with errors, unchecked and skipped."""
        hits = sum(result.count > 0 for result in self.results.values())
        unchecked = sum(bool(result.unchecked) for result in self.results.values())
        parts = (
            (len(self.results) - hits - unchecked, "without errors"),
            (hits, "with errors"),
            (unchecked, "not checked"),
            (len(self.skipped), "skipped"),
        )
        shown = ", ".join(f"{count} {what}" for count, what in parts if count)
        return f"{self.title}: {shown or 'nothing was checked'}"

    def run(self, tests: Sequence[SelectedTest], invocation: Invocation, progress: OpenProgress) -> None:
        """Run the tests under the tool.

        Args:
            tests: The tests.
            invocation: The command that started pytest.
            progress: Shows the progress.
        """
        self._tests = len(tests)
        with progress(f"{self.title} runs {len(tests)} {'test' if len(tests) == 1 else 'tests'}") as show:
            self._check([test.nodeid for test in tests], invocation, show)
        self.notices.append(self.summary)

    def _check(self, nodeids: Sequence[str], invocation: Invocation, show: Callable[[str], None]) -> None:
        pending = list(nodeids)
        together = len(pending)
        for number in range(1, PROCESSES + 1):
            if not pending:
                return
            folder = PassFolder(self._folder / str(number))
            process = self._process(folder, pending[:together], invocation, show)
            if not process.began or process.assigned.blind:
                self.problems.append(self._why_nothing(process))
                return
            over = self._take(process, pending[:together])
            pending = [nodeid for nodeid in pending if nodeid not in over]
            # If marks are missing in the log, a process for one test leaves no doubt whose errors these are.
            together = together if over else 1
        why = f"{PROCESSES} processes under compute-sanitizer ended before its turn"
        self.results.update(dict.fromkeys(pending, self._result(unchecked=why)))

    def _process(
        self,
        folder: PassFolder,
        group: Sequence[str],
        invocation: Invocation,
        show: Callable[[str], None],
    ) -> _Process:
        folder.write_plan(PassPlan(list(group)))
        log = folder.path / "sanitizer.log"
        pytest = (sys.executable, "-m", "pytest", *invocation.arguments)
        command = [*self._sanitizer.command(self._tool, log), *pytest]
        env = {**environment(os.environ, self._tool), SANITIZING_PASS_ENV: str(folder.path)}

        def poll() -> None:
            ended = {event.nodeid for event in folder.events() if not (event.range or event.began)}
            show(f"{len(self.results) + len(self.skipped) + len(ended)}/{self._tests}")
            if log.exists() and log.stat().st_size > self._log_bytes:
                raise _LogFullError

        log_full = False
        try:
            status = run_child(command, cwd=invocation.cwd, env=env, log=folder.child_log, poll=poll)
            ending = f"ended with exit status {status}"
            if status < 0:
                ending = f"was ended by signal {-status} ({signal.strsignal(-status)})"
        except _LogFullError:
            ending, log_full = "was ended for its many errors", True
        log.touch()
        events = folder.events()
        with log.open(encoding="utf-8", errors="replace") as lines:
            assigned = assign([event for event in events if event.range], read_log(lines))
        return _Process(folder, events, assigned, ending, log_full)

    def _take(self, process: _Process, group: Sequence[str]) -> set[str]:
        """Keep the results of a process, and return the tests that need no other process."""
        outside = process.assigned.hits.get("")
        if outside is not None:
            texts = "; ".join(errors_of(self._result(outside)))
            self.problems.append(f"outside of all tests: {texts}".replace("\n", ", "))
        over = set()
        for nodeid in group:
            alone = len(group) == 1
            hits = process.assigned.hits.get(nodeid)
            why, for_good = process.why_unchecked(nodeid)
            if hits is not None and (alone or nodeid in process.assigned.settled):
                cut = process.log_full and nodeid == process.ended_in
                self.results[nodeid] = self._result(hits, cut=cut)
            elif not why:
                self.results[nodeid] = self._result()
            elif alone or for_good:
                results = self.skipped if _SKIPPED.match(why) else self.results
                results[nodeid] = self._result(unchecked=f"{why}; see {process.folder.shown_log}")
            else:
                continue
            over.add(nodeid)
        return over

    def _result(self, hits: Hits | None = None, *, cut: bool = False, unchecked: str = "") -> SanitizerResult:
        return SanitizerResult(
            tool=self._tool,
            version=self._sanitizer.version,
            hits=hits.first(HITS_KEPT) if hits else (),
            count=hits.count if hits else 0,
            cut=cut,
            unchecked=unchecked,
        )

    def _why_nothing(self, process: _Process) -> str:
        first = next(iter(process.failures.values()), "")
        if process.assigned.words:
            reason = f"compute-sanitizer says: {' '.join(process.assigned.words[-LAST_WORDS:])}"
        elif process.began:
            reason = "it reported not even the error that was planted before the first test"
        else:
            reason = f"the process {process.ending} before any test{': ' * bool(first)}{first}"
        return f"{reason}; see {process.folder.shown_log}"
