"""Kill workers of a fleet at random moments, and check that every test is judged exactly once.

    python -m benchmarks.fleet_kills --runs 100 --seed 1

The workers replay a recording, so no GPU is needed. In each run workers are killed one to three times, and
then replaced. The verdicts have to be those of a run without kills.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.fleet_project import MODEL, Counting, git, local_cluster, make_project, verdicts
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.features.fleet.dask_cluster import Cluster
from pytest_gpuperf.features.fleet.dispatch import Fleet
from pytest_gpuperf.features.fleet.messages import Job
from pytest_gpuperf.records.run_store import RunStore
from pytest_gpuperf.session.run_report import now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distributed import LocalCluster

WORKERS = 3
MOST_KILLS = 3
WAIT_S = 30
RESTART_S = 8


class KilledRun(NamedTuple):
    """One run with kills."""

    tests: int
    kills: int
    seconds: float
    wrong: tuple[str, ...]
    """Tests that were not judged exactly once; an error of the run."""


def run_once(
    cluster: LocalCluster, folder: Path, seed: int | None = None, within_s: float = 0.0
) -> tuple[KilledRun, dict[str, str]]:
    """Run all tests of a project, and kill workers meanwhile.

    Args:
        cluster: The workers.
        folder: The project, which is the working directory.
        seed: Seed of the moments and of the workers; None for a run without kills.
        within_s: Seconds within which workers are killed.

    Returns:
        The run, and the verdict of each test.
    """
    watch, killed = Counting(), list[int]()
    job = Job(RunStore.new_id(now()), ".", "baselines", git(folder, "rev-parse", "HEAD"), (), replay=True)
    connected = Cluster(cluster.scheduler_address, job)
    fleet = Fleet(connected, (MODEL,), WAIT_S, watch)
    ended = threading.Event()
    chance = random.Random(seed)
    moments = sorted(chance.uniform(0, within_s) for _ in range(chance.randint(1, MOST_KILLS)))
    killer = threading.Thread(target=_kill, args=(cluster, moments, chance, ended, killed))
    begin = time.monotonic()
    try:
        fleet.prepare()
        tests = fleet.collect(MODEL, ())
        begin = time.monotonic()
        if seed is not None:
            killer.start()
        fleet.run({MODEL: tests}, {})
    except GpuperfError as error:
        return KilledRun(0, len(killed), 0.0, (str(error),)), {}
    finally:
        ended.set()
        if killer.is_alive():
            killer.join()
        connected.close()
    results = fleet.results[MODEL]
    wrong = [test.nodeid for test in tests if watch.ends.get((MODEL, test.nodeid)) != 1]
    wrong += [
        f"{nodeid}: {outcome.ending}"
        for nodeid, outcome in results.outcomes.items()
        if outcome.ending in ("lost", "unjudged")
    ]
    seconds = time.monotonic() - begin
    return KilledRun(len(tests), len(killed), seconds, tuple(wrong)), dict(verdicts(results))


def _kill(
    cluster: LocalCluster,
    moments: Sequence[float],
    chance: random.Random,
    ended: threading.Event,
    killed: list[int],
) -> None:
    before = 0.0
    for moment in moments:
        if ended.wait(moment - before):
            return
        before = moment
        victim = chance.choice(list(cluster.workers.values()))
        with suppress(ProcessLookupError, TypeError):  # it starts again just now
            os.kill(victim.pid, signal.SIGKILL)
            killed.append(victim.pid)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status is 1 if a test was not judged exactly once."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=int, default=4, help="test files of the project")
    parser.add_argument("--tests", type=int, default=2, help="measuring tests in each")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_project(folder, files=given.files, tests=given.tests)
        os.chdir(folder)
        return _all_runs(folder, given.runs, given.seed)


def _all_runs(folder: Path, runs: int, first_seed: int) -> int:
    bad = kills = done = 0
    undisturbed, expected = None, dict[str, str]()
    while done < runs:
        with local_cluster(WORKERS) as cluster:
            if undisturbed is None:
                undisturbed, expected = run_once(cluster, folder)
                print(f"without kills: {undisturbed.tests} tests, {undisturbed.seconds:.1f} s")
            while done < runs and _all_alive(cluster):
                seed = first_seed + done
                one, found = run_once(cluster, folder, seed, undisturbed.seconds)
                wrong = [*one.wrong, *(test for test in expected if found.get(test) != expected[test])]
                bad, kills, done = bad + bool(wrong), kills + one.kills, done + 1
                print(f"seed {seed}: {one.kills} kills, {one.seconds:.1f} s, {len(wrong)} wrong", *wrong[:3])
                sys.stdout.flush()
    print(
        f"{runs} runs of {undisturbed.tests if undisturbed else 0} tests with {kills} kills: in {bad} a test "
        "was not judged exactly once, or got another verdict"
    )
    return int(bad > 0)


def _all_alive(cluster: LocalCluster) -> bool:
    """Wait for workers that start again; Dask gives up one that is killed while it starts."""
    with suppress(TimeoutError):
        cluster.wait_for_workers(WORKERS, timeout=RESTART_S)
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
