"""The order in which workers get their tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from xdist.remote import Producer

from pytest_gpuperf.plugin.xdist_scheduler import InOrder


class Worker:
    """A worker of pytest-xdist that has ended, unknown to the scheduler."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw0")

    def send_runtest_some(self, indices: list[int]) -> None:
        raise OSError("cannot send (already closed?)")

    def shutdown(self) -> None:
        """Do nothing, as pytest-xdist."""


def test_tests_sent_to_a_worker_that_has_ended_come_back() -> None:
    config: Any = SimpleNamespace(getvalue=lambda _name: ["popen"], getoption=lambda _name: None)
    some = InOrder(config, Producer("test", enabled=False), (), lambda nodeids: [list(nodeids)], lambda _: 0)
    worker: Any = Worker()
    some.add_node(worker)
    some.add_node_collection(worker, ["a", "b", "c"])
    some.schedule()
    assert some.remove_node(worker) is None
    assert some._parts == [[0, 1, 2]]
