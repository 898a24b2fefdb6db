"""The order in which workers get their tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from xdist.remote import Producer

from pytest_gpuperf.plugin.xdist_scheduler import OrderedScheduler


class Worker:
    """A worker of pytest-xdist.

    Args:
        place: Its number.
        has_ended: True if it has ended, unknown to the scheduler.
    """

    def __init__(self, place: int, has_ended: bool = False) -> None:
        self.place = place
        self.gateway = SimpleNamespace(id=f"gw{place}")
        self.shutting_down = False
        self.tests: list[int] = []
        self._has_ended = has_ended

    def send_runtest_some(self, indices: list[int]) -> None:
        if self._has_ended:
            raise OSError("cannot send (already closed?)")
        self.tests += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduler(workers: list[Any], *parts: str, shares: bool = True) -> OrderedScheduler:
    config: Any = SimpleNamespace(getvalue=lambda _name: ["popen"] * len(workers), getoption=lambda _: None)
    log = Producer("test", enabled=False)
    some = OrderedScheduler(
        config, log, (), lambda _: list(map(list, parts)), lambda worker: worker.place, shares=shares
    )
    for worker in workers:
        some.add_node(worker)
        some.add_node_collection(worker, sorted("".join(parts)))
    some.schedule()
    return some


def test_tests_sent_to_a_worker_that_has_ended_come_back() -> None:
    workers: list[Any] = [Worker(0, has_ended=True)]
    some = scheduler(workers, "abc")
    assert some.remove_node(workers[0]) is None
    assert some._parts == [[0, 1, 2]]


def test_a_worker_leaves_the_first_tests_of_others() -> None:
    workers: list[Any] = [Worker(0), Worker(1)]
    scheduler(workers, "a", "b")
    assert [worker.tests for worker in workers] == [[0], [1]]


def test_a_worker_without_tests_takes_the_last_of_another() -> None:
    workers: list[Any] = [Worker(0), Worker(1)]
    some = scheduler(workers, "a", "bcdef")
    for finished in (0, 5, 4):
        some.mark_test_complete(workers[0], finished)
    assert [worker.tests for worker in workers] == [[0, 5, 4, 3], [1, 2]]
    assert all(worker.shutting_down for worker in workers) is False
    some.mark_test_complete(workers[1], 1)
    assert workers[1].shutting_down
    assert not some.pending


def test_a_test_with_a_pass_stays_with_its_worker() -> None:
    workers: list[Any] = [Worker(0), Worker(1)]
    some = scheduler(workers, "a", "bcdef", shares=False)
    some.mark_test_complete(workers[0], 0)
    assert [worker.tests for worker in workers] == [[0], [1, 2]]
    assert [worker.shutting_down for worker in workers] == [True, False]
