"""Time a test in turn: restarts of old and new code until each label is decided; or new code by itself."""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from pytest_gpuperf.against.build import build
from pytest_gpuperf.against.messages import Ended
from pytest_gpuperf.against.process_launcher import Launcher
from pytest_gpuperf.against.restart_series import Series
from pytest_gpuperf.against.side_process import CRASH, GOING_S, LostError, SideProcess
from pytest_gpuperf.against.sides import Sides
from pytest_gpuperf.against.turns import RestartResult, Turns
from pytest_gpuperf.against.worktree import link_ignored, old_tree
from pytest_gpuperf.processes.signals import signals_held_off
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.files import show_path
from pytest_gpuperf.statistics.thresholds import FRESH, LOOKS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pytest_gpuperf.against.blocks import SideBlock
    from pytest_gpuperf.against.git import Commit, Repository
    from pytest_gpuperf.records import Fingerprint, LaunchedCode
    from pytest_gpuperf.records.passes import Invocation, OpenProgress
    from pytest_gpuperf.statistics.sequential import Side

NAMES: Mapping[Side, str] = {"A": "old", "B": "new"}
"""The logs of the sides: `old_1.log` is that of old code in the first restart."""
ORDERS: tuple[tuple[Side, ...], ...] = (("A", "B"), ("B", "A"))
"""Orders of the sides in a restart. The side that allocates first changes a time by tenths of a percent, so
both orders come equally often."""
Tick: TypeAlias = "Callable[[str], None]"
"""Takes the text of the progress; raises `OutOfTimeError` to end it."""
MOST_TREES = 3
"""Number of worktrees at once; the entries of a baseline have commits of their own."""


@dataclass(frozen=True)
class TimedTest:
    """A test whose calls are timed in turn."""

    nodeid: str
    path: Path
    """Its file."""
    calls: Mapping[str, Fingerprint]
    """The call of the run by label: those to time."""
    recorded: Mapping[str, bool] = field(default_factory=dict)
    """By label, True if CUPTI timed it in the run; for processes of new code by itself."""
    imports: Sequence[str] = ()
    """Slow modules that it imports when it runs."""
    tolerance_pct: float = 0.0
    """Accepted slowdown, in percent; 0 leaves it to statistics."""
    driver: str | None = None
    """Version of the driver, for the hashes of both sides' code; None if nobody asks for them."""
    code_differs: Callable[[str, LaunchedCode], str] = lambda _label, _code: ""
    """Returns how the code of a label in old code differs from the baseline's; empty if it does not."""


class OutOfTimeError(Exception):
    """The time for settling is spent; its text says how much that was."""


class Engine:
    """Holds worktrees and the server of the side processes between two tests.

    Args:
        root: Top folder of the checkout.
        invocation: The command that started pytest.
        logs: Folder for the output of the side processes.
        budget_s: Seconds for the blocks of one call in one restart.
        command: `gpuperf_build`; empty for none.
        capability: Compute capability of the GPU.
        progress: Begins a line about a build.
    """

    def __init__(
        self,
        root: Path,
        invocation: Invocation,
        logs: Path,
        budget_s: float,
        command: str,
        capability: str,
        progress: OpenProgress,
    ) -> None:
        self.notices: list[str] = []
        """Facts that a reader of the results should know."""
        self.built_s = 0.0
        """Seconds of builds: the limit of time for settling leaves them out, as the next run has them."""
        self.setups_s: list[float] = []
        """Seconds of a side in each restart, without those of the blocks."""
        self._root = root
        # A side that compiles would start a pool of processes, which import torch, and wait for its end.
        variables = {"TORCHINDUCTOR_COMPILE_THREADS": "1", **invocation.environment}
        self._invocation = with_fields(invocation, environment=variables)
        self._logs = logs
        self._budget_s = budget_s
        self._command = command
        self._capability = capability
        self._progress = progress
        self._rng = Random(secrets.randbits(64))  # noqa: S311
        self._stack = ExitStack()
        self._trees: dict[str, tuple[ExitStack, Sides]] = {}
        self._launcher: Launcher | None = None
        self._folder: Path | None = None
        self._going: dict[Side, SideProcess] = {}
        """Processes of the restart that runs, or has ended."""
        self._ahead: dict[Side, SideProcess] = {}
        """Processes of the next one, which import meanwhile."""

    def close(self) -> None:
        """End all processes and the server, and remove the worktrees."""
        with signals_held_off():
            self._end(grace_s=0)
            for tree, _ in self._trees.values():
                tree.close()
            self._trees.clear()
            self._stack.close()
            self._launcher = self._folder = None

    def compare(
        self, test: TimedTest, repository: Repository | None, commit: Commit, tick: Tick
    ) -> dict[str, Series]:
        """Time a test on both sides until each label is decided, or cannot be.

        Args:
            test: The test.
            repository: The repository of the checkout; None if old code is the checkout.
            commit: The old code.
            tick: Called many times a second.

        Raises:
            GpuperfError: git makes no worktree, or old code cannot be built.
            OutOfTimeError: No label was decided before.
        """
        series = {label: Series() for label in test.calls}
        tick(f"old code {commit}")
        self._launch(commit.python, tick)
        sides = self._sides(repository, commit)
        orders = self._rng.sample(ORDERS, len(ORDERS))
        for restart in range(1, LOOKS[-1] + 1):
            labels = [label for label, one in series.items() if not one.is_settled]
            if not labels:
                break
            recorded = {label: one.recorded for label, one in series.items() if one.recorded is not None}
            start = partial(self._start, sides, test, labels, orders, tick)
            # Most end at the first look: a third pair would start, and end, for nothing.
            follows = restart not in (LOOKS[0], LOOKS[-1])
            try:
                # Processes that are ready before they are waited for do not look at the time.
                tick(f"restart {restart}")
                taken = self._restart(start, restart, labels, recorded, follows=follows)
            except LostError as lost:
                whose = f"code of {commit}" if lost.side == "A" else "present code"
                taken = RestartResult(void=self._lost(lost, whose, test, sides))
            except OutOfTimeError as spent:
                # What is decided stays.
                if len(labels) == len(series):
                    raise
                taken = RestartResult(void=str(spent))
            for label in labels:
                series[label].take(taken, label, commit)
                why = series[label].reason or self._why_not_same(test, taken, label, commit)
                series[label].reason = why and sides.plain(why) + sides.lacks
                series[label].judge(test.tolerance_pct, final=restart == LOOKS[-1])
        self._end()
        return series

    def fresh(
        self, test: TimedTest, tick: Tick, count: int = FRESH
    ) -> tuple[dict[str, list[tuple[SideBlock, ...]]], str]:
        """Time a test by fresh processes of new code; return their blocks by label, or why there are none.

        Args:
            test: The test.
            tick: Called many times a second.
            count: Number of processes.

        Raises:
            OutOfTimeError: The time was not enough.
        """
        blocks: dict[str, list[tuple[SideBlock, ...]]] = {label: [] for label in test.calls}
        why = ""
        self._launch(Path(sys.executable), tick)
        sides = Sides(self._root, Path(sys.executable), None, None, self._invocation, self._working_folder())
        start = partial(self._start, sides, test, [*test.calls], (("B",),), tick)
        for number in range(1, count + 1):
            try:
                taken = self._restart(start, number, blocks, test.recorded, follows=number < count)
            except LostError as lost:
                return {}, self._lost(lost, "present code", test, sides)
            for label in list(blocks):
                ready = taken.ready["B"].get(label)
                if label not in taken.blocks or ready is None or ready.call != test.calls[label]:
                    failure = taken.failures.get("B", f"the test does not make the call {label!r} again")
                    why = sides.plain(f"in a fresh process {failure}")
                    del blocks[label]
                else:
                    blocks[label].append(taken.blocks[label])
            if not blocks:
                break
        self._end()
        return blocks, why

    def _working_folder(self) -> Path:
        if self._folder is None:
            made = tempfile.TemporaryDirectory(prefix="gpuperf-sides-")
            self._folder = Path(self._stack.enter_context(made)).resolve()
            self._logs.mkdir(parents=True, exist_ok=True)
        return self._folder

    def _sides(self, repository: Repository | None, commit: Commit) -> Sides:
        if commit.id not in self._trees:
            folder = self._working_folder()
            while len(self._trees) >= MOST_TREES:
                oldest, _ = self._trees.pop(next(iter(self._trees)))
                oldest.close()
            with ExitStack() as stack:
                old = built = None
                if commit.id:
                    assert repository is not None
                    old = stack.enter_context(old_tree(repository, commit))
                    if self._command:
                        begin = time.monotonic()
                        try:
                            with self._progress(f"gpuperf_build of {commit}") as show:
                                environment, told = self._invocation.environment, partial(show, "builds")
                                built = build(old, commit, self._command, self._capability, environment, told)
                        finally:
                            self.built_s += time.monotonic() - begin
                    link_ignored(repository, old)
                sides = Sides(self._root, commit.python, old, built, self._invocation, folder)
                self._trees[commit.id] = stack.pop_all(), sides
        return self._trees[commit.id][1]

    def _start(
        self,
        sides: Sides,
        test: TimedTest,
        labels: Sequence[str],
        orders: Sequence[tuple[Side, ...]],
        tick: Tick,
        restart: int,
    ) -> None:
        """Start the processes of the next restart; the side that goes first comes first."""
        assert self._launcher is not None
        for side in orders[restart % len(orders)]:
            driver = test.driver if restart == 1 else None
            plan = sides.plan(side, test.nodeid, test.path, labels, test.imports, driver)
            log = self._logs / f"{NAMES[side]}_{restart}.log"
            each = partial(tick, f"restart {restart}")
            self._ahead[side] = SideProcess(side, self._launcher, sides, plan, log, each)
        if self._launcher.why_not:
            why = f"no process could be forked, so each one imports by itself: {self._launcher.why_not}"
            self.notices += [why] if why not in self.notices else []

    def _restart(
        self,
        start: Callable[[int], None],
        restart: int,
        labels: Collection[str],
        recorded: Mapping[str, bool],
        *,
        follows: bool,
    ) -> RestartResult:
        """Run the test in new processes.

        Args:
            start: Starts the processes of a restart.
            restart: The number of this one.
            labels: As in `Turns.play`, and `recorded`.
            recorded: The same.
            follows: True if another one may follow: its processes import while these are timed.
        """
        try:
            if not self._ahead:
                start(restart)
            # While these import, those of the last restart end.
            _stop(self._going)
            self._going, self._ahead = self._ahead, {}
            begin, turns = time.monotonic(), Turns(self._going, self._rng, self._budget_s)
            try:
                taken = self._not_collected()
                if taken is None:
                    if follows:
                        start(restart + 1)
                    taken = turns.play(labels, recorded)
            finally:
                seconds = time.monotonic() - begin - turns.blocks_s
                self.setups_s.append(seconds / len(self._going))
            for process in self._going.values():
                process.let_go()
            return taken
        except BaseException:
            with signals_held_off():
                self._end(grace_s=0)
            raise

    def _launch(self, python: Path, tick: Tick) -> None:
        """Start the servers, which import while git makes the old code."""
        if self._launcher is None:
            programs, each = {str(python), sys.executable}, partial(tick, "imports")
            launcher = Launcher(programs, self._root, self._invocation.environment, each)
            self._launcher = self._stack.enter_context(closing(launcher))

    def _end(self, grace_s: float = GOING_S) -> None:
        """Wait for the end of the processes; those of a restart that is not needed end at once."""
        _stop(self._going, grace_s)
        _stop(self._ahead, grace_s=0)

    def _not_collected(self) -> RestartResult | None:
        """Return what stops a side before its test, which it may lack; None if both can run it."""
        for side, process in self._going.items():
            answer = process.answer()
            if isinstance(answer, Ended):
                return RestartResult(failures={side: answer.failure}, void=answer.misplaced)
        return None

    def _why_not_same(self, test: TimedTest, taken: RestartResult, label: str, commit: Commit) -> str:
        """Return why a time in turn is not that of the run's call, by the code of the baseline."""
        new, old = taken.ready["B"][label], taken.ready["A"][label]
        if difference := new.call.difference(test.calls[label]):
            return f"another call in a fresh process: {difference}"
        differs = test.code_differs(label, old.code) if old.code is not None else ""
        return f"{commit} does not launch the code of the baseline: {differs}" if differs else ""

    def _lost(self, lost: LostError, whose: str, test: TimedTest, sides: Sides) -> str:
        """Note a process that was lost, and return the reason, with the line that tells most."""
        how = f"the process with the {whose} {lost.how}"
        if not lost.output:
            return how
        said = [f"{how} in {test.nodeid}; see {show_path(lost.log)}", *lost.output]
        self.notices.append("\n    ".join(map(printable, said)))
        line = lost.output[0] if CRASH in lost.output[0] else lost.output[-1]
        return sides.plain(f"{how}: {printable(line)}")


def _stop(processes: dict[Side, SideProcess], grace_s: float = GOING_S) -> None:
    for process in processes.values():
        process.stop(grace_s)
    processes.clear()
