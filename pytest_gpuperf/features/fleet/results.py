"""The results of a fleet: each test once for each model of GPU, and a run for each model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_gpuperf.features.fleet.messages import EndOfTest
from pytest_gpuperf.features.github.merging import merge_runs
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.run_store import RUN_FILES, encode_run, file_of_run, make_state_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.features.fleet.groups import TestGroup
    from pytest_gpuperf.features.fleet.messages import Answer, Test
    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Run
    from pytest_gpuperf.records.run_store import RunStore

FAILING = ("failed", "lost", "unjudged")
"""Ends of a test that fail the run."""


class ModelResults:
    """The results of the tests on one model of GPU.

    Args:
        model: The model.
        tests: The tests in pytest's order.
    """

    def __init__(self, model: str, tests: Sequence[Test]) -> None:
        self.model = model
        self.nodeids = [test.nodeid for test in tests]
        self.outcomes: dict[str, EndOfTest] = {}
        self.workers: dict[str, str] = {}
        """Worker that answered, by node id."""
        self._statuses: set[int] = set()
        """Exit statuses of the groups."""
        self._judged: dict[str, TestResult] = {}
        """Results of the tests that measure, by node id."""
        self._runs: dict[str, Run] = {}
        """Runs of the workers, by id; a replay has one."""
        self._files: dict[str, bytes] = {}

    @property
    def complete(self) -> bool:
        """True if every test has ended."""
        return len(self.outcomes) == len(self.nodeids)

    @property
    def exit_status(self) -> int:
        """Exit status of pytest for these results."""
        if any(outcome.ending in FAILING for outcome in self.outcomes.values()):
            return 1
        return min(self._statuses, default=5)

    def take(self, group: TestGroup, answer: Answer, worker: str) -> list[str]:
        """Keep the results of a group; a test that has ended before stays as it is.

        Args:
            group: The group.
            answer: The answer of its worker.
            worker: Name of the worker.

        Returns:
            Node ids of the tests that have ended now.
        """
        new = [nodeid for nodeid in group.tests if nodeid not in self.outcomes]
        self._statuses.add(answer.status)
        # A GPU without any baseline, say, ends the run with an error; a group may have nothing to judge.
        whole = answer.status > 1 and any(one.record.measurements for one in answer.results)
        for nodeid in new:
            outcome = answer.outcomes.get(nodeid)
            if outcome is None or (whole and outcome.ending == "passed"):
                why = f"pytest ended with {answer.status}{' before this test' * (outcome is None)}"
                outcome = EndOfTest("unjudged", 0.0, "\n".join(filter(None, (why, answer.output))))
            self.outcomes[nodeid], self.workers[nodeid] = outcome, worker
        if answer.run is not None:
            judged = {one.record.nodeid: one for one in answer.results if one.record.nodeid in new}
            run = self._runs.get(answer.run.id, answer.run)
            records = (one.record for one in judged.values())
            self._runs[run.id] = replace(run, tests=(*run.tests, *records))
            self._judged |= judged
            self._files |= answer.files
        return new

    def lose(self, group: TestGroup, why: str) -> None:
        """End the tests of a group that is not tried again."""
        for nodeid in group.tests:
            self.outcomes.setdefault(nodeid, EndOfTest("lost", 0.0, why))

    @property
    def results(self) -> list[TestResult]:
        """Results of the tests that measure, in pytest's order."""
        return [self._judged[nodeid] for nodeid in self.nodeids if nodeid in self._judged]

    def runs(self) -> Sequence[Run]:
        """Return the run of this model; several if toolchains or reasons without counters differ."""
        parts = [replace(run, complete=self.complete) for run in self._runs.values() if run.tests]
        return merge_runs(parts).runs if parts else ()

    def write(self, store: RunStore) -> list[Path]:
        """Write the runs of this model, with their traces.

        Returns:
            The run files.

        Raises:
            OSError: A file cannot be written.
        """
        make_state_folder(store.folder.parent)
        paths: list[Path] = []
        for run in self.runs():
            path = store.folder / run.id / RUN_FILES[0]
            paths.append(path)
            names = [name for test in run.tests for name in test.trace_files if name in self._files]
            traces = {file_of_run(path, name): self._files[name] for name in names}
            write_files({path: encode_run(run), **traces})
        return paths
