"""All restarts of a session: who plays in which of them, and what came of it."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from pytest_gpuperf.against.candidate import WHOLE_TEST, Candidate
from pytest_gpuperf.against.launch import Launch
from pytest_gpuperf.against.messages import Collected, Compare, Started
from pytest_gpuperf.against.turns import Turns
from pytest_gpuperf.against.worker import PATIENCE_S, LostError, Worker
from pytest_gpuperf.against.worktree import old_tree
from pytest_gpuperf.processes.signals import ended_in_order, signals_held_off
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.records.json_files import show_path
from pytest_gpuperf.statistics.decision import Thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.against.git import Commit, Repository
    from pytest_gpuperf.against.launch import Invocation
    from pytest_gpuperf.against.series import PairedTime
    from pytest_gpuperf.statistics.sequential import Side

LOGS: Mapping[Side, str] = {"A": "old.log", "B": "new.log"}
ORDERS: tuple[tuple[Side, Side], ...] = (("A", "B"), ("B", "A"))
"""Of the sides in a restart. Which of them allocates first moves a time by tenths of a per cent, so each
order comes as often as the other."""
SHOWN = 3
"""Modules that a notice names before it says how many more there are."""


class PairedPass:
    """Compares tests with the code of a commit.

    Args:
        repository: The checkout of the tests.
        commit: The old code.
        logs: Folder for what the workers print.
        budget_s: Seconds for the blocks of one call in one restart.
        thresholds: What counts as a change, and after how many restarts to look.
        patience_s: How long a worker may say nothing, in seconds.
    """

    def __init__(
        self,
        repository: Repository,
        commit: Commit,
        logs: Path,
        budget_s: float,
        thresholds: Thresholds | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.commit = commit
        self.notices: list[str] = []
        """What a reader of the results should know."""
        self._repository = repository
        self._logs = logs
        self._budget_s = budget_s
        self._thresholds = thresholds or Thresholds()
        self._patience_s = patience_s
        self._rng = Random(secrets.randbits(64))  # noqa: S311
        self._tests: dict[str, Candidate] = {}
        self._shared: set[str] = set()

    def run(self, tests: Sequence[Candidate], invocation: Invocation, say: Callable[[str], None]) -> None:
        """Run both sides of the tests, with the session's own arguments, until all is decided.

        Args:
            tests: In the session's order.
            invocation: How the session was started.
            say: Told, many times a second, what is going on.

        Raises:
            GpuperfError: There can be no worktree, or the session was started outside the checkout.
        """
        self._tests = {test.nodeid: test for test in tests}
        self._logs.mkdir(parents=True, exist_ok=True)
        last = self._thresholds.looks[-1]
        orders = self._rng.sample(ORDERS, len(ORDERS))
        say("git worktree")
        with ended_in_order(), old_tree(self._repository, self.commit) as old:
            launch = Launch(self._repository.root, old, invocation)
            for restart in range(1, last + 1):
                undecided = [test for test in tests if not test.is_settled]
                if not undecided:
                    break
                tick = partial(say, f"restart {restart} of at most {last}")
                self._restart(launch, undecided, orders[restart % 2], tick)
                for test in tests:
                    for series in test.series.values():
                        series.judge(
                            self._thresholds, self._comparisons, test.tolerance_pct, final=restart == last
                        )
        for test in tests:
            test.conclude(self.commit)
        if self._shared:
            self.notices.append(_of_the_checkout(sorted(self._shared)))

    def lookup(self, nodeid: str, label: str) -> PairedTime | None:
        """What came of one call; None where its test was not among those compared."""
        test = self._tests.get(nodeid)
        if test is None:
            return None
        series = test.series.get(label) or test.series.get(WHOLE_TEST)
        return series.result(self.commit, self._comparisons) if series is not None else None

    @property
    def _comparisons(self) -> int:
        return sum(
            bool(series.log_ratios) for test in self._tests.values() for series in test.series.values()
        )

    def _restart(
        self,
        launch: Launch,
        undecided: list[Candidate],
        order: tuple[Side, Side],
        tick: Callable[[], None],
    ) -> None:
        """Both sides afresh; once more, for the tests that are left, after a worker has been lost."""
        seed = self._rng.getrandbits(32)
        while undecided:
            with self._workers(launch, undecided, order, seed, tick) as workers:
                try:
                    playing = self._agree(launch, workers, undecided)
                except LostError as lost:
                    self._mourn(lost, undecided)
                    return
                turns = Turns(workers, self._rng, self._budget_s)
                undecided = []
                for at, test in enumerate(playing):
                    try:
                        taken = turns.play()
                    except LostError as lost:
                        self._mourn(lost, [test], f" in {test.nodeid}")
                        undecided = playing[at + 1 :]
                        break
                    self._shared |= taken.shared
                    taken.failures = {side: launch.plain(text) for side, text in taken.failures.items()}
                    test.take(taken, self.commit)

    @contextmanager
    def _workers(
        self,
        launch: Launch,
        tests: Sequence[Candidate],
        order: tuple[Side, Side],
        seed: int,
        tick: Callable[[], None],
    ) -> Iterator[dict[Side, Worker]]:
        workers: dict[Side, Worker] = {}
        try:
            for side in order:
                plan = launch.plan(side, tests, seed)
                log = self._logs / LOGS[side]
                workers[side] = Worker(side, launch, plan, log, tick, self._patience_s)
            yield workers
            for worker in workers.values():
                worker.let_go()
            for worker in workers.values():
                worker.stop()
        except BaseException:
            with signals_held_off():
                for worker in workers.values():
                    worker.stop(grace_s=0)
            raise

    def _agree(
        self, launch: Launch, workers: Mapping[Side, Worker], tests: Sequence[Candidate]
    ) -> list[Candidate]:
        """The tests that both sides have; the others are given up."""
        collected: dict[Side, Collected] = {}
        for side, worker in workers.items():
            answer = worker.answer()
            assert isinstance(answer, Collected)
            if answer.misplaced:
                raise LostError(side, f"cannot be used: {answer.misplaced}")
            collected[side] = answer
        both = set(collected["A"].nodeids) & set(collected["B"].nodeids)
        for test in tests:
            if test.nodeid not in both:
                test.give_up(launch.plain(self._missing(test.nodeid, collected)))
        playing = [test for test in tests if test.nodeid in both]
        for worker in workers.values():
            assert isinstance(worker.ask(Compare([test.nodeid for test in playing])), Started)
        return playing

    def _missing(self, nodeid: str, collected: Mapping[Side, Collected]) -> str:
        wheres: dict[Side, str] = {"A": f"on {self.commit}", "B": "when it was to be compared"}
        for side, where in wheres.items():
            for collector, why in collected[side].broken.items():
                if nodeid.startswith((f"{collector}::", f"{collector}/")):
                    return f"{collector} cannot be collected {where}: {why}"
        gone = "A" if nodeid not in collected["A"].nodeids else "B"
        return f"not on {self.commit}" if gone == "A" else "it was not found again when it was to be compared"

    def _mourn(self, lost: LostError, tests: Sequence[Candidate], where: str = "") -> None:
        whose = f"code of {self.commit}" if lost.side == "A" else "present code"
        for test in tests:
            test.give_up(f"the worker with the {whose} {lost.how}", broken=True)
        log = show_path(self._logs / LOGS[lost.side])
        said = [f"error: the worker with the {whose} {lost.how}{where}; see {log}", *lost.output]
        self.notices.append("\n    ".join(map(printable, said)))


def _of_the_checkout(modules: Sequence[str]) -> str:
    more = f" and {len(modules) - SHOWN} more" if len(modules) > SHOWN else ""
    return (
        f"both sides ran these modules of the checkout, as git ignores them and nothing is built again: "
        f"{', '.join(modules[:SHOWN])}{more}"
    )
