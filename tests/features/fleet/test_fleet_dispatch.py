"""The loop of a fleet, with workers that are only names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.fleet_project import Counting
from command_line import gpuperf
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fleet import dask_cluster, dispatch, groups
from pytest_gpuperf.features.fleet.command import dask_worker
from pytest_gpuperf.features.fleet.dispatch import Fleet
from pytest_gpuperf.features.fleet.messages import Answer, EndOfTest, WorkerState, encode
from pytest_gpuperf.features.fleet.messages import Test as Collected
from pytest_gpuperf.features.fleet.results import ModelResults
from pytest_gpuperf.judge.result import Status, TestResult
from run_builders import measured, record, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MODEL = "nvidia-h200"
TESTS = [Collected(f"test_{number}.py::test_a") for number in range(4)]


class FakeFuture:
    def __init__(self, key: str, answer: bytes) -> None:
        self.key = key
        self._answer = answer

    def result(self, timeout: float) -> bytes:
        return self._answer

    def release(self) -> None:
        pass


class FakeCluster:
    """Workers that answer at once, except those that a test kills.

    Args:
        killers: Node ids of tests that end their worker.
        workers: Number of workers; each lost one is replaced as long as there are more.
    """

    address = "tcp://scheduler"

    def __init__(self, *killers: str, workers: int = 9) -> None:
        self._killers = killers
        self._left = workers - 2
        self._alive = {"w0", "w1"}
        self._count = 2
        self.refused: dict[str, str] = {}
        self.hosts = {name: WorkerState(name, gpus={MODEL: 1, "GPU-1": 1, "MEM": 3}) for name in self._alive}
        self.seen = self.hosts
        self.ran: list[str] = []

    def look(self, models: Sequence[str] = ()) -> set[str]:
        return set(self._alive)

    def submit(
        self, model: str, count: int, arguments: Sequence[str], worker: str, done: Callable[[Any], None]
    ) -> FakeFuture:
        self.ran += arguments
        outcomes = {nodeid: EndOfTest("passed", 1.0) for nodeid in arguments}
        future = FakeFuture(f"{worker}-{len(self.ran)}", encode(Answer(0, outcomes=outcomes)))
        if not set(arguments) & set(self._killers):
            done(future)
            return future
        self._alive.discard(worker)
        if self._left:
            self._left -= 1
            self._count += 1
            name = f"w{self._count}"
            self.hosts[name] = WorkerState(name, gpus={MODEL: 1})
            self._alive.add(name)
        return future

    def cancel(self, futures: Sequence[FakeFuture]) -> None:
        pass


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LOOK_S", 0.001)


def ran(workers: FakeCluster) -> tuple[dict[str, EndOfTest], Counting]:
    watch = Counting()
    own = Fleet(workers, (MODEL,), 0.05, watch)  # type: ignore[arg-type]
    assert own.prepare() == [MODEL]
    try:
        own.run({MODEL: TESTS}, {})
    finally:
        outcomes = own.results[MODEL].outcomes
        assert watch.ends == {(MODEL, nodeid): 1 for nodeid in outcomes}
    return outcomes, watch


def test_test_that_kills_workers_ends_with_an_error_of_its_own() -> None:
    outcomes, watch = ran(FakeCluster(TESTS[1].nodeid))
    lost = outcomes.pop(TESTS[1].nodeid)
    assert {outcome.ending for outcome in outcomes.values()} == {"passed"}
    assert lost.ending == "lost"
    assert lost.message.startswith("gpuperf: 3 workers were lost while they ran this test: w")
    assert sum(note.endswith("was lost") for note in watch.notes) == 3


def test_run_ends_if_no_worker_is_left() -> None:
    with pytest.raises(GpuperfError, match=f"no worker with {MODEL} is left, and . tests have not run"):
        ran(FakeCluster(*(test.nodeid for test in TESTS), workers=2))


@pytest.mark.parametrize(("status", "measured_us", "expected"), [(0, 5.3, 0), (4, 5.3, 1), (4, None, 4)])
def test_exit_status_is_that_of_the_groups(status: int, measured_us: float | None, expected: int) -> None:
    (nodeid,) = names = (TESTS[0].nodeid,)
    judged = [TestResult(record(nodeid, main=measured(measured_us)), Status.NEW)] if measured_us else []
    answer = Answer(status, outcomes={nodeid: EndOfTest("passed")}, run=run(), results=tuple(judged))
    results = ModelResults(MODEL, TESTS[:1])
    results.take(groups.TestGroup(MODEL, names, 1, 1.0), answer, "w0")
    assert results.exit_status == expected


@pytest.mark.parametrize(
    ("scheduler", "options", "host"),
    [
        ("tcp://127.0.0.1:8786", (), ["127.0.0.1"]),
        ("localhost:8786", (), ["127.0.0.1"]),
        ("tls://[::1]:8786", (), ["::1"]),
        ("tcp://10.0.0.1:8786", (), []),
        ("tcp://127.0.0.1:8786", ("--host", "10.0.0.2"), ["10.0.0.2"]),
        ("tcp://127.0.0.1:8786", ("--interface=eth0",), []),
    ],
)
def test_worker_of_a_loopback_scheduler_listens_on_loopback(
    scheduler: str, options: tuple[str, ...], host: list[str]
) -> None:
    command = dask_worker(scheduler, {MODEL: 1}, options)
    assert [command[at + 1] for at, part in enumerate(command) if part == "--host"] == host


@pytest.mark.parametrize("arguments", [("run", "--scheduler", "tcp://s"), ("worker", "tcp://s")])
def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    monkeypatch.setattr(dask_cluster, "find_spec", lambda _: None)
    result = gpuperf("fleet", *arguments, status=2)
    assert "expected the extra `fleet`; type `pip install 'pytest-gpuperf[fleet]" in result.output


def test_worker_without_a_gpu_is_an_error() -> None:
    result = gpuperf("fleet", "worker", "tcp://s")
    assert "no GPU is visible here" in result.output
    wrong = gpuperf("fleet", "worker", "tcp://s", "--gpu", "nvidia-h200")
    assert "expected a model and a number: --gpu nvidia-h200=1" in wrong.output
