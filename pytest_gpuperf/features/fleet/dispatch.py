"""Run tests on a fleet: hand out groups, take their results, and try those of lost workers again."""

from __future__ import annotations

import queue
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import click

from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fleet.dask_cluster import models_of
from pytest_gpuperf.features.fleet.groups import LOST_TESTS, GroupQueue, make_groups
from pytest_gpuperf.features.fleet.messages import Answer, decode
from pytest_gpuperf.features.fleet.results import FAILING, ModelResults
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.number_format import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from distributed import Future

    from pytest_gpuperf.features.fleet.dask_cluster import Cluster
    from pytest_gpuperf.features.fleet.groups import TestGroup
    from pytest_gpuperf.features.fleet.messages import Test

LOOK_S = 1.0
"""Seconds between two looks at the workers."""
FETCHED_S = 30.0
"""Seconds in which a worker has to send its results."""


class FleetDisplay:
    """Shows each failure, and how many other tests have ended, on standard error."""

    def note(self, line: str) -> None:
        """Show a line about the fleet."""
        click.echo(printable(f"gpuperf: {line}"), err=True)

    def ended(self, results: ModelResults, nodeids: Sequence[str], worker: str) -> None:
        """Show the failed tests that have ended on a worker, with their reasons, and how many others did."""
        outcomes = [(nodeid, results.outcomes[nodeid]) for nodeid in nodeids]
        failed = [(nodeid, outcome) for nodeid, outcome in outcomes if outcome.ending in FAILING]
        for nodeid, outcome in failed:
            click.echo(printable(f"{outcome.ending} on {results.model}: {nodeid}"), err=True)
            for line in outcome.message.splitlines():
                click.echo(printable(f"    {line}"), err=True)
        if len(failed) < len(outcomes):
            done = f"{len(results.outcomes)}/{len(results.nodeids)}"
            ended = count(len(outcomes) - len(failed), "test")
            click.echo(printable(f"{results.model}: {ended} ended on {worker}, {done} in all"), err=True)


class _Running(NamedTuple):
    future: Future
    group: TestGroup
    worker: str


class Fleet:
    """Runs tests on the workers of a cluster.

    Args:
        cluster: The connection.
        models: Models of GPU to run on; empty for all that the workers have.
        wait_s: Seconds to wait for a worker of each model.
        display: Shows the tests that have ended.
    """

    def __init__(self, cluster: Cluster, models: Sequence[str], wait_s: float, display: FleetDisplay) -> None:
        self._cluster = cluster
        self._asked = list(dict.fromkeys(models))
        self._wait_s = wait_s
        self._display = display
        self._alive: set[str] = set()
        self._running: dict[str, _Running] = {}
        self._done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._noted: set[str] = set()
        self.results: dict[str, ModelResults] = {}
        """The results by model."""

    def prepare(self) -> list[str]:
        """Wait for the workers, and return the models of GPU.

        Raises:
            GpuperfError: A model has no worker, or a worker has other code.
        """
        end = time.monotonic() + self._wait_s
        while True:
            self._alive = self._cluster.look(self._asked)
            if self._cluster.refused:
                first, *others = self._cluster.refused.values()
                raise GpuperfError(first + (f" (and {len(others)} other workers)" if others else ""))
            announced = {model for one in self._alive for model in models_of(self._cluster.hosts[one])}
            missing = [model for model in self._asked if model not in announced]
            if announced and not missing:
                return self._asked or sorted(announced)
            if time.monotonic() >= end:
                raise self._nobody(missing)
            time.sleep(LOOK_S)

    def _nobody(self, missing: Sequence[str]) -> GpuperfError:
        found = sorted({model for host in self._cluster.seen.values() for model in models_of(host)})
        has = f"its workers have {', '.join(found)}" if found else "no worker announces a GPU"
        what = " and ".join(missing) or "any GPU"
        return GpuperfError(
            f"no worker of {self._cluster.address} has {what}: {has}",
            expected="a worker for each model",
            next_step=f"type `gpuperf fleet worker {self._cluster.address}` on its host, in the project",
        )

    def collect(self, model: str, names: Sequence[str]) -> list[Test]:
        """Collect the tests on a worker of a model, which may collect others than another model.

        Raises:
            GpuperfError: pytest cannot collect them, or the worker is lost.
        """
        for worker in self._free(model):
            answer = self._collect_on(worker, model, names)
            if answer is None:
                continue
            if answer.status not in (0, 5):
                for line in answer.output.splitlines():
                    self._display.note(line)
                raise GpuperfError(
                    f"pytest ended with {answer.status} on {self._name(worker)} when it collected the tests",
                    next_step="see its last lines above",
                )
            return list(answer.collected)
        raise GpuperfError(f"every worker with {model} was lost while it collected the tests")

    def _collect_on(self, worker: str, model: str, names: Sequence[str]) -> Answer | None:
        future = self._submit(("--collect-only", "-q", *names), model, 1, worker)
        try:
            while worker in self._alive:
                with suppress(queue.Empty):
                    return self._answer(self._done.get(timeout=LOOK_S))
                self._alive = self._cluster.look(self._asked)
            return None
        finally:
            self._cluster.cancel([future])

    def run(self, tests: Mapping[str, Sequence[Test]], durations: Mapping[str, Mapping[str, float]]) -> None:
        """Run the tests.

        Args:
            tests: The tests by model.
            durations: Expected duration of tests by model and node id, in seconds.

        Raises:
            GpuperfError: The scheduler or the last worker of a model has gone. The results so far stay.
        """
        waiting = GroupQueue(())
        for model, own in tests.items():
            self.results[model] = ModelResults(model, own)
            counts = [models_of(self._cluster.hosts[one]).get(model, 0) for one in self._alive]
            waiting.add(make_groups(model, own, durations.get(model, {}), sum(counts), max(counts)))
        looked = alone = time.monotonic()
        try:
            while waiting or self._running:
                while (chosen := waiting.take(self._free_gpus())) is not None:
                    group, worker = chosen
                    future = self._submit(group.tests, group.model, group.gpus, worker)
                    self._running[future.key] = _Running(future, group, worker)
                self._wait_for_one(waiting)
                if time.monotonic() - looked >= LOOK_S:
                    self._look(waiting)
                    looked = time.monotonic()
                if self._running or not waiting:
                    alone = looked
                elif looked - alone > self._wait_s:
                    raise self._deserted(waiting)
        finally:
            self._cluster.cancel([running.future for running in self._running.values()])

    def _deserted(self, waiting: GroupQueue) -> GpuperfError:
        models = sorted({group.model for group in waiting})
        tests = sum(len(group.tests) for group in waiting)
        return GpuperfError(
            f"no worker with {' or '.join(models)} is left, and {tests} tests have not run",
            expected="a worker for each model",
            next_step=f"start workers, and run again; --wait waits longer than {self._wait_s:g} s for them",
        )

    def _free_gpus(self) -> dict[str, dict[str, int]]:
        free = {one: models_of(self._cluster.hosts[one]) for one in sorted(self._alive)}
        for running in self._running.values():
            if running.worker in free:
                free[running.worker][running.group.model] -= running.group.gpus
        return free

    def _free(self, model: str) -> list[str]:
        return [worker for worker, free in self._free_gpus().items() if free.get(model, 0) > 0]

    def _submit(self, arguments: Sequence[str], model: str, count: int, worker: str) -> Future:
        return self._cluster.submit(model, count, arguments, worker, self._done.put)

    def _wait_for_one(self, waiting: GroupQueue) -> None:
        """Take the results of the groups that have ended, and wait a second for the first."""
        wait_s: float = LOOK_S
        while True:
            try:
                future = self._done.get(timeout=wait_s)
            except queue.Empty:
                return
            wait_s = 0.0
            running = self._running.pop(future.key, None)
            if running is None:  # its worker was lost meanwhile
                continue
            answer = self._answer(future)
            if answer is None or (answer.status < 0 and not answer.outcomes):
                self._try_again(running, waiting, answer.output if answer is not None else "")
                continue
            name = self._name(running.worker)
            results = self.results[running.group.model]
            self._display.ended(results, results.take(running.group, answer, name), name)

    def _answer(self, future: Future) -> Answer | None:
        """Return the results of a task; None if its worker was lost."""
        try:
            return decode(future.result(timeout=FETCHED_S), Answer)
        except Exception as error:  # Dask raises many kinds, and those of the worker's own code
            self._note(f"a task ended with {type(error).__name__}: {error}".partition("\n")[0])
            return None
        finally:
            future.release()

    def _look(self, waiting: GroupQueue) -> None:
        """Notice lost workers and new ones."""
        before, self._alive = self._alive, self._cluster.look(list(self.results))
        for why in self._cluster.refused.values():
            self._note(why)
        for worker in sorted(self._alive - before):
            self._display.note(f"{self._name(worker)} has joined")
        for worker in sorted(before - self._alive):
            self._display.note(f"{self._name(worker)} was lost")
        lost = [running for running in self._running.values() if running.worker not in self._alive]
        for running in lost:
            del self._running[running.future.key]
            self._cluster.cancel([running.future])
            self._try_again(running, waiting, "")

    def _try_again(self, running: _Running, waiting: GroupQueue, output: str) -> None:
        group = running.group
        if waiting.put_back(group, running.worker):
            return
        where = ", ".join(map(self._name, (*group.lost_on, running.worker)))
        why = f"gpuperf: {LOST_TESTS} workers were lost while they ran this test: {where}"
        results = self.results[group.model]
        results.lose(group, "\n".join(filter(None, (why, output))))
        self._display.ended(results, group.tests, self._name(running.worker))

    def _note(self, line: str) -> None:
        if line not in self._noted:
            self._noted.add(line)
            self._display.note(line)

    def _name(self, worker: str) -> str:
        return f"{self._cluster.hosts[worker].name} ({worker})"
