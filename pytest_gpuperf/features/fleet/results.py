"""The results of a fleet: each test once for each model of GPU, and a run for each model."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pytest_gpuperf.features.fleet.messages import Outcome
from pytest_gpuperf.records import RUN_SCHEMA, Environment, Run
from pytest_gpuperf.records.merging import merge_runs
from pytest_gpuperf.records.runs import RUN_FILES, RunStore, encode_run, file_of_run, make_state_folder
from pytest_gpuperf.records.writing import write_files
from pytest_gpuperf.report.rows import Summary
from pytest_gpuperf.session.run_file import now, timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.features.fleet.groups import Group
    from pytest_gpuperf.features.fleet.messages import Answer, Test
    from pytest_gpuperf.judge.result import TestResult

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
        self.outcomes: dict[str, Outcome] = {}
        self.workers: dict[str, str] = {}
        """Worker that answered, by node id."""
        self.notices: list[str] = []
        self._judged: dict[str, TestResult] = {}
        self._environments: dict[str, Environment] = {}
        self._reasons: dict[str, str] = {}
        self._replayed_from: Run | None = None
        self._lines: dict[str, int] = {}
        self._expected_failures: set[str] = set()
        self._files: dict[str, bytes] = {}
        self._started = timestamp(now())

    @property
    def complete(self) -> bool:
        """True if every test has ended."""
        return len(self.outcomes) == len(self.nodeids)

    @property
    def exit_status(self) -> int:
        """Exit status of pytest for these results."""
        if any(outcome.ending in FAILING for outcome in self.outcomes.values()):
            return 1
        return 0 if self.nodeids else 5

    def take(self, group: Group, answer: Answer, worker: str) -> list[str]:
        """Keep the results of a group; a test that has ended before stays as it is.

        Args:
            group: The group.
            answer: The answer of its worker.
            worker: Name of the worker.

        Returns:
            Node ids of the tests that have ended now.
        """
        new = [nodeid for nodeid in group.tests if nodeid not in self.outcomes]
        for nodeid in new:
            outcome = answer.outcomes.get(nodeid)
            if outcome is None:
                why = f"pytest ended with {answer.status} before this test"
                outcome = Outcome("unjudged", 0.0, "\n".join(filter(None, (why, answer.output))))
            self.outcomes[nodeid], self.workers[nodeid] = outcome, worker
        facts = answer.facts
        if facts is None:
            return new
        for result in answer.results:
            nodeid = result.record.nodeid
            if nodeid in new:
                self._judged[nodeid] = result
                self._environments[nodeid] = facts.environment
                self._reasons[nodeid] = answer.news.no_counters
        self._replayed_from = facts.replayed_from or self._replayed_from
        self._lines.update(facts.lines)
        self._expected_failures.update(answer.expected_failures)
        self._files.update(answer.files)
        notices = [one for one in answer.news.notices if not one.startswith("run written")]
        notices += answer.news.failures.values()
        self.notices[:] = dict.fromkeys((*self.notices, *notices))
        return new

    def lose(self, group: Group, why: str) -> None:
        """End the tests of a group that is not tried again."""
        for nodeid in group.tests:
            self.outcomes.setdefault(nodeid, Outcome("lost", 0.0, why))

    @property
    def results(self) -> list[TestResult]:
        """Results of the tests that measure, in pytest's order."""
        return [self._judged[nodeid] for nodeid in self.nodeids if nodeid in self._judged]

    def summary(self) -> Summary | None:
        """Return the summary for reports; None if no test was judged."""
        results = self.results
        if not results:
            return None
        first = results[0].record.nodeid
        return Summary(
            results=results,
            environment=self._environments[first],
            replayed_from=self._replayed_from,
            counters_unavailable=self._reasons[first],
            notices=self.notices,
            expected_failures=self._expected_failures,
            lines=self._lines,
        )

    def runs(self) -> list[Run]:
        """Return the run of this model; several if toolchains or reasons without counters differ."""
        if self._replayed_from is not None:
            return []
        parts: dict[tuple[Environment, str], list[TestResult]] = {}
        for result in self.results:
            nodeid = result.record.nodeid
            parts.setdefault((self._environments[nodeid], self._reasons[nodeid]), []).append(result)
        merged = [
            Run(
                schema=RUN_SCHEMA,
                # Ids tell a time of some microseconds, and these are made at once.
                id=RunStore.new_id(now() + timedelta(milliseconds=number)),
                started_at=self._started,
                environment=environment,
                complete=self.complete,
                counters_unavailable=reason,
                tests=tuple(result.record for result in found),
            )
            for number, ((environment, reason), found) in enumerate(parts.items())
        ]
        return list(merge_runs(merged).runs) if merged else []

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
            measurements = (measured for test in run.tests for measured in test.measurements.values())
            names = [one.trace.file for one in measurements if one.trace is not None]
            traces = {file_of_run(path, name): self._files[name] for name in names if name in self._files}
            write_files({path: encode_run(run), **traces})
        return paths
