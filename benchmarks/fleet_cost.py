"""Measure the CPU time that a fleet's scheduler and command need for each group and each test.

    python -m benchmarks.fleet_cost -o benchmarks/results/fleet_cost.json

The workers answer at once with the records of a recording: only Dask's scheduler and the command work. Both
are one process here, and its CPU time is counted. Groups of two sizes tell the cost of a group from that of a
test.
"""

from __future__ import annotations

import argparse
import functools
import platform
import sys
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from benchmarks import results_file
from benchmarks.fleet_project import MODEL, ROOT, Counting, git, largest_recording, local_cluster
from pytest_gpuperf.features.fleet import groups as sizes
from pytest_gpuperf.features.fleet.dask_cluster import Cluster
from pytest_gpuperf.features.fleet.dispatch import Fleet
from pytest_gpuperf.features.fleet.messages import Answer, EndOfTest, Job, Test, encode
from pytest_gpuperf.judge.result import Status, TestResult

if TYPE_CHECKING:
    from collections.abc import Sequence


SCHEMA = 1
WORKERS, GPUS = 2, 16
GROUPS = 600
SMALL, LARGE = 1, 50
"""Tests of a group."""
_ONE = threading.Lock()


class FleetCost(msgspec.Struct, frozen=True):
    """CPU time of the scheduler and the command together."""

    schema: int
    date: str
    commit: str
    machine: str
    distributed: str
    gpus: int
    groups: int
    tests: tuple[int, int]
    """Tests of a small and of a large group."""
    group_ms: float
    test_ms: float


_recorded = functools.cache(largest_recording)


def answer_at_once(data: bytes, model: str, count: int, nodeids: tuple[str, ...], key: str) -> bytes:
    """Answer as a worker does after the tests, with recorded results."""
    del data, model, count, key
    with _ONE:
        run = _recorded()
    records = [
        msgspec.structs.replace(run.tests[number % len(run.tests)], nodeid=nodeid)
        for number, nodeid in enumerate(nodeids)
    ]
    results = tuple(TestResult(record, Status.PASS) for record in records)
    whole, outcomes = msgspec.structs.replace(run, tests=()), dict.fromkeys(nodeids, EndOfTest("passed", 1.0))
    return encode(Answer(0, outcomes=outcomes, run=whole, results=results))


class _AtOnce(Cluster):
    task = staticmethod(answer_at_once)


def cpu_ms(address: str, groups: int, tests: int) -> float:
    """Return the CPU time of this process for each group, in ms."""
    names = [Test(f"test_{group}.py::test[{number}]") for group in range(groups) for number in range(tests)]
    job = Job("cost", ".", "baselines", git(ROOT, "rev-parse", "HEAD"), (), replay=True)
    connected = _AtOnce(address, job)
    fleet = Fleet(connected, (MODEL,), 10.0, Counting())
    fleet.prepare()
    begin = time.process_time()
    fleet.run({MODEL: names}, {MODEL: {}})
    used = time.process_time() - begin
    connected.close()
    assert fleet.results[MODEL].complete
    return 1000 * used / groups


def measure(groups: int) -> FleetCost:
    """Measure the costs.

    Args:
        groups: Number of groups of each size.
    """
    import distributed

    # A group for each file, whatever its size.
    sizes.LEAST_S = sizes.MOST_S = float("inf")
    with local_cluster(WORKERS, gpus=GPUS) as cluster:
        cpu_ms(cluster.scheduler_address, WORKERS * GPUS, SMALL)  # imports
        small, large = (cpu_ms(cluster.scheduler_address, groups, tests) for tests in (SMALL, LARGE))
    test_ms = (large - small) / (LARGE - SMALL)
    return FleetCost(
        schema=SCHEMA,
        date=datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        commit=git(ROOT, "rev-parse", "HEAD"),
        machine=_machine(),
        distributed=cast("str", distributed.__version__),
        gpus=WORKERS * GPUS,
        groups=groups,
        tests=(SMALL, LARGE),
        group_ms=round(small - SMALL * test_ms, 2),
        test_ms=round(test_ms, 3),
    )


def _machine() -> str:
    """Return the processor and the version of Python."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown CPU")
    return f"{model}, Python {platform.python_version()}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args(arguments)
    found = measure(given.groups)
    print(f"{found.group_ms} ms for each group and {found.test_ms} ms for each test, {found.machine}")
    if given.output is not None:
        given.output.write_bytes(results_file.encode(found))
    return 0


if __name__ == "__main__":
    # Workers import the function by the name of its module.
    from benchmarks import fleet_cost

    sys.exit(fleet_cost.main())
