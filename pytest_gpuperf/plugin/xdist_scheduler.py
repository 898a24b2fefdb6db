"""The scheduler of pytest-xdist: it sends each worker its own tests, in order, and then those of others."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScheduling

from pytest_gpuperf.compat.xdist_names import have_same_tests

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

AHEAD = 2
"""Tests that a worker knows: it runs one when it knows the next."""


class OrderedScheduler(LoadScheduling):  # type: ignore[misc]
    """Sends the tests in order, and blames a lost worker only on a test that it had begun.

    A worker that has run all of its tests takes one of the worker that has most left: durations are guesses,
    and a suspect takes longer, so at the end none waits for more than one test.

    Args:
        config: pytest's.
        log: xdist's.
        begun: Node ids of tests that have begun.
        spread: Returns the tests of each worker.
        place: Returns the place of a worker, which the one that replaces it takes over.
        shares: False if only a test's own worker can run it, as its pass has been made there.
    """

    def __init__(
        self,
        config: pytest.Config,
        log: Producer,
        begun: Container[str],
        spread: Callable[[Sequence[str]], list[list[str]]],
        place: Callable[[WorkerController], int],
        *,
        shares: bool = True,
    ) -> None:
        super().__init__(config, log)
        self.collection: list[str] | None = None
        self._begun = begun
        self._spread = spread
        self._place = place
        self._shares = shares
        self._parts: list[list[int]] = []
        """Tests that have not been sent, of each worker."""

    def schedule(self) -> None:
        """Spread the tests if that is not done, and send each worker its next ones."""
        if self.collection is None:
            if not have_same_tests(self):
                self.log("**Different tests collected, aborting run**")
                return
            nodeids: list[str] = next(iter(self.node2collection.values()))
            self.collection = nodeids
            places = {nodeid: index for index, nodeid in enumerate(nodeids)}
            self._parts = [[places[nodeid] for nodeid in part] for part in self._spread(nodeids)]
            self._count_waiting()
        for node in self.nodes:
            # Before another one may take them.
            self._send_own(node)
        for node in self.nodes:
            self.check_schedule(node)

    def check_schedule(self, node: WorkerController, duration: float = 0) -> None:  # noqa: ARG002 - xdist's
        """Send a worker its next tests; let it end if there are none."""
        if node.shutting_down:
            return
        self._send_own(node)
        while self._shares and len(self.node2pending[node]) < AHEAD and any(self._parts):
            # Another's last tests are those that it would reach last.
            self._send(node, max(self._parts, key=len).pop())
        self._count_waiting()
        if not any(self._parts if self._shares else self._parts[self._place(node)]):
            node.shutdown()

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test that ended the worker; the tests after it come next."""
        sent = self.node2pending.pop(node)
        broke = None
        if self.collection is not None:
            if sent and self.collection[sent[0]] in self._begun:
                broke = self.collection[sent.pop(0)]
            self._parts[self._place(node)][:0] = sent
            self._count_waiting()
        return broke

    def _send_own(self, node: WorkerController) -> None:
        own = self._parts[self._place(node)]
        while own and len(self.node2pending[node]) < AHEAD:
            self._send(node, own.pop(0))

    def _send(self, node: WorkerController, test: int) -> None:
        self.node2pending[node].append(test)
        with suppress(OSError):
            # If the worker has ended, it is removed next, and the tests come back.
            node.send_runtest_some([test])

    def _count_waiting(self) -> None:
        # The run has not ended while there are some.
        self.pending[:] = [index for part in self._parts for index in part]
