"""The pass of `--gpuperf-against`: restarts of both sides until every comparison is decided."""

from __future__ import annotations

import secrets
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from pytest_gpuperf.against.candidate import WHOLE_TEST, Candidate
from pytest_gpuperf.against.launching import Launcher
from pytest_gpuperf.against.messages import Collected, Compare, Started
from pytest_gpuperf.against.side_process import PATIENCE_S, LostError, SideProcess
from pytest_gpuperf.against.sides import Sides
from pytest_gpuperf.against.turns import Turns
from pytest_gpuperf.against.worktree import old_tree
from pytest_gpuperf.processes.signals import ended_in_order, signals_held_off
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.statistics import sequential

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.against.git import Commit, Repository
    from pytest_gpuperf.against.launching import ForkServer
    from pytest_gpuperf.against.series import AgainstTime
    from pytest_gpuperf.records import AgainstTiming
    from pytest_gpuperf.records.passes import Invocation, OpenProgress, SelectedTest
    from pytest_gpuperf.statistics.sequential import Side

LOGS: Mapping[Side, str] = {"A": "old.log", "B": "new.log"}
ORDERS: tuple[tuple[Side, Side], ...] = (("A", "B"), ("B", "A"))
"""Orders of the sides in a restart. The side that allocates first changes a time by tenths of a percent, so
both orders come equally often."""
SHOWN = 3
"""Modules that a notice names; it counts the others."""


class AgainstPass:
    """Compares tests with the code of a commit.

    Args:
        repository: The checkout of the tests.
        commit: The old code.
        logs: Folder for the output of the side processes.
        budget_s: Seconds for the blocks of one call in one restart.
        patience_s: Seconds that a side process may be silent.
        server: A fork server that was started before the runner; None for none.
    """

    def __init__(
        self,
        repository: Repository,
        commit: Commit,
        logs: Path,
        budget_s: float,
        patience_s: float = PATIENCE_S,
        server: ForkServer | None = None,
    ) -> None:
        self.commit = commit
        self.notices: list[str] = []
        """Facts that a reader of the results should know."""
        self._repository = repository
        self._logs = logs
        self._budget_s = budget_s
        self._patience_s = patience_s
        self._rng = Random(secrets.randbits(64))  # noqa: S311
        self._tests: dict[str, Candidate] = {}
        self._shared: set[str] = set()
        self._server = server

    def close(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.close()

    def run(self, tests: Sequence[SelectedTest], invocation: Invocation, progress: OpenProgress) -> None:
        """Run both sides of the tests until every comparison is decided.

        Args:
            tests: In the order of the run.
            invocation: The command that started pytest.
            progress: Shows the progress, many times a second.

        Raises:
            GpuperfError: git makes no worktree, or pytest was started outside the checkout.
        """
        candidates = [Candidate(test.nodeid, test.path, test.tolerance_pct) for test in tests]
        count = f"{len(tests)} {'test' if len(tests) == 1 else 'tests'}"
        with progress(f"{count} against {self.commit}") as show:
            self._compare(candidates, invocation, show)

    def _compare(
        self, tests: Sequence[Candidate], invocation: Invocation, say: Callable[[str], None]
    ) -> None:
        self._tests = {test.nodeid: test for test in tests}
        self._logs.mkdir(parents=True, exist_ok=True)
        last = sequential.LOOKS[-1]
        orders = self._rng.sample(ORDERS, len(ORDERS))
        say("git worktree")
        with ExitStack() as stack:
            stack.callback(self.close)
            stack.enter_context(ended_in_order())
            old = stack.enter_context(old_tree(self._repository, self.commit))
            sides = Sides(self._repository.root, old, invocation)
            launcher = stack.enter_context(closing(Launcher(sides, partial(say, "imports"), self._server)))
            for restart in range(1, last + 1):
                undecided = [test for test in tests if not test.is_settled]
                if not undecided:
                    break
                tick = partial(say, f"restart {restart} of at most {last}")
                self._restart(sides, launcher, undecided, orders[restart % 2], tick)
                for test in tests:
                    for series in test.series.values():
                        series.judge(test.tolerance_pct, final=restart == last)
        if launcher.why_not:
            self.notices.append(
                f"no process could be forked, so each one imports by itself: {launcher.why_not}"
            )
        for test in tests:
            test.conclude(self.commit)
        if self._shared:
            self.notices.append(_of_the_checkout(sorted(self._shared)))

    def lookup(self, nodeid: str, label: str) -> AgainstTime | None:
        """Return the result of one call; None if its test was not compared."""
        test = self._tests.get(nodeid)
        if test is None:
            return None
        series = test.series.get(label) or test.series.get(WHOLE_TEST)
        return series.result(self.commit) if series is not None else None

    @property
    def records(self) -> dict[str, dict[str, AgainstTiming]]:
        """The results as records, by test and label; `WHOLE_TEST` stands for all other labels."""
        return {
            nodeid: {label: series.result(self.commit).record for label, series in test.series.items()}
            for nodeid, test in self._tests.items()
        }

    def _restart(
        self,
        sides: Sides,
        launcher: Launcher,
        undecided: list[Candidate],
        order: tuple[Side, Side],
        tick: Callable[[], None],
    ) -> None:
        """Run both sides in new processes; after a lost process, once more for the remaining tests."""
        while undecided:
            with self._processes(sides, launcher, undecided, order, tick) as processes:
                try:
                    playing = self._agree(sides, processes, undecided)
                except LostError as lost:
                    self._give_up(lost, undecided)
                    return
                turns = Turns(processes, self._rng, self._budget_s)
                undecided = []
                for at, test in enumerate(playing):
                    try:
                        taken = turns.play(test.recorded)
                    except LostError as lost:
                        self._give_up(lost, [test], f" in {test.nodeid}")
                        undecided = playing[at + 1 :]
                        break
                    self._shared |= taken.shared
                    taken.failures = {side: sides.plain(text) for side, text in taken.failures.items()}
                    test.take(taken, self.commit)

    @contextmanager
    def _processes(
        self,
        sides: Sides,
        launcher: Launcher,
        tests: Sequence[Candidate],
        order: tuple[Side, Side],
        tick: Callable[[], None],
    ) -> Iterator[dict[Side, SideProcess]]:
        processes: dict[Side, SideProcess] = {}
        try:
            for side in order:
                plan = sides.plan(side, tests)
                log = self._logs / LOGS[side]
                processes[side] = SideProcess(
                    side, launcher, sides.plan_file(side), plan, log, tick, self._patience_s
                )
            yield processes
            for process in processes.values():
                process.let_go()
            for process in processes.values():
                process.stop()
        except BaseException:
            with signals_held_off():
                for process in processes.values():
                    process.stop(grace_s=0)
            raise

    def _agree(
        self, sides: Sides, processes: Mapping[Side, SideProcess], tests: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return the tests that both sides have; give up the others."""
        collected: dict[Side, Collected] = {}
        for side, process in processes.items():
            answer = process.answer()
            assert isinstance(answer, Collected)
            if answer.misplaced:
                raise LostError(side, f"cannot be used: {answer.misplaced}")
            collected[side] = answer
        both = set(collected["A"].nodeids) & set(collected["B"].nodeids)
        for test in tests:
            if test.nodeid not in both:
                test.give_up(sides.plain(self._missing(test.nodeid, collected)))
        playing = [test for test in tests if test.nodeid in both]
        for process in processes.values():
            assert isinstance(process.ask(Compare([test.nodeid for test in playing])), Started)
        return playing

    def _missing(self, nodeid: str, collected: Mapping[Side, Collected]) -> str:
        wheres: dict[Side, str] = {"A": f"on {self.commit}", "B": "when it was to be compared"}
        for side, where in wheres.items():
            for collector, why in collected[side].broken.items():
                if nodeid.startswith((f"{collector}::", f"{collector}/")):
                    return f"{collector} cannot be collected {where}: {why}"
        gone = "A" if nodeid not in collected["A"].nodeids else "B"
        return f"not on {self.commit}" if gone == "A" else "it was not found again when it was to be compared"

    def _give_up(self, lost: LostError, tests: Sequence[Candidate], where: str = "") -> None:
        whose = f"code of {self.commit}" if lost.side == "A" else "present code"
        for test in tests:
            test.give_up(f"the process with the {whose} {lost.how}", broken=True)
        log = show_path(self._logs / LOGS[lost.side])
        said = [f"error: the process with the {whose} {lost.how}{where}; see {log}", *lost.output]
        self.notices.append("\n    ".join(map(printable, said)))


def _of_the_checkout(modules: Sequence[str]) -> str:
    more = f" and {len(modules) - SHOWN} more" if len(modules) > SHOWN else ""
    return (
        f"both sides ran these modules of the checkout, as git ignores them and nothing is built again: "
        f"{', '.join(modules[:SHOWN])}{more}"
    )
