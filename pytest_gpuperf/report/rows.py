"""The summary of a run: one row of short texts for each measurement of a test."""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.judge.result import Status
from pytest_gpuperf.records.change import printable
from pytest_gpuperf.report.number_format import (
    show_accuracy,
    show_change,
    show_compiled,
    show_occupancy,
    show_rate,
    show_sol,
    show_stall,
    show_timing,
)
from pytest_gpuperf.report.table import Column

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytest_gpuperf.judge.result import TestResult
    from pytest_gpuperf.records import Environment, Measurement, Run
    from pytest_gpuperf.report.table import Tone

SEVERITY = {status: rank for rank, status in enumerate(Status)}
"""Rank of a verdict, 0 for the worst."""
TONES: dict[Status, Tone] = {
    Status.INVALID: "bad",
    Status.WRONG: "bad",
    Status.REGRESSED: "bad",
    Status.LIMIT: "bad",
    Status.INCONCLUSIVE: "unsure",
    Status.NEW: "new",
    Status.IMPROVED: "good",
    Status.PASS: "pass",
}
TOOLS = ("driver", "torch", "triton", "ncu")
"""Parts of the toolchain whose versions stand above the results."""


@dataclass(frozen=True)
class Summary:
    """The results of a run, and further facts for its reports."""

    results: Sequence[TestResult]
    environment: Environment
    """The machine that measured the results."""
    replayed_from: Run | None
    """The recorded run that was judged again; None if the results were measured now."""
    counters_unavailable: str = ""
    """The reason why the session has no counters; empty if it has them."""
    updated: bool = False
    """True if this run has become the baseline: then no test lacks one."""
    notices: Sequence[str] = ()
    expected_failures: Collection[str] = ()
    """Node ids of tests that failed as expected."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each test in its file, by node id."""
    root: Path = Path()
    """pytest's rootdir."""
    recorded: Mapping[str, Run] = field(default_factory=dict)
    """The run that has each test, by node id, if recorded runs were judged again."""
    folder: Path | None = None
    """Folder of the run, with its traces; None if it has none."""


@dataclass(frozen=True)
class Row:
    """One measurement of one test; a text is empty if there is nothing to show."""

    test: str
    """Node id without the part that all tests of the report share, then the label unless it is `main`."""
    time: str
    """`5.30 µs ±0.2 %`: half the interquartile range of the blocks on either side; `5.30 µs cold ±0.2 %`."""
    rate: str
    """`3.20 TB/s`, `412 GB/s` or `640 TFLOP/s`, with its share of the GPU's peak: `3.20 TB/s 66 %`."""
    sol: str
    """Speed of light, the nearer roof: `mem 78 %` or `sm 90 %`."""
    occupancy: str
    """Achieved and theoretical: `77/100 %`; `≤13 %` if the kernel was compiled and did not run."""
    stall: str
    """The reason for which most warp cycles waited: `long_scoreboard 62 %`."""
    change: str
    """Time against the baseline with its interval: `+0.3 ±0.5 %`, or `new`."""
    verdict: str
    """The status, then `(drifted)` if the machine moved the time, or `(failed)` by `--gpuperf-strict`."""
    status: Status
    fails: bool
    """True if the test fails by this verdict."""
    compiled: str = ""
    """Facts about a compiled kernel: `208 regs, 144 KiB shared, wgmma, 128-bit loads`."""
    error: str = ""
    """Root mean square error of the output, and how many times that of the reference: `0.29 ULP, 1.0x`."""

    @property
    def tone(self) -> Tone:
        """Tone of the verdict."""
        return "bad" if self.fails else TONES[self.status]


def columns_of(rows: Sequence[Row]) -> list[Column]:
    """Return the table of the rows."""
    tones = [row.tone for row in rows]
    directions: dict[Tone, Tone] = {"bad": "worse", "good": "better"}
    moved = [directions.get(tone, "") for tone in tones]
    return [
        Column("test", [row.test for row in rows], "name", code=True),
        Column("time", [row.time for row in rows]),
        Column("rate", [row.rate for row in rows]),
        Column("SOL", [row.sol for row in rows]),
        Column("occupancy", [row.occupancy for row in rows], spare=2),
        Column("top stall", [row.stall for row in rows], left=True, spare=4),
        Column("compiled", [row.compiled for row in rows], left=True),
        Column("error", [row.error for row in rows], wide=True, spare=1),
        Column("change", [row.change for row in rows], "outcome", tones=moved),
        Column("verdict", [row.verdict for row in rows], "outcome", left=True, tones=tones),
    ]


def build_rows(results: Sequence[TestResult]) -> list[list[Row]]:
    """Return the rows of each result; a test that measured nothing has one row, which shows its verdict."""
    _, names = split_names([result.record.nodeid for result in results])
    return [_rows_of(result, name) for result, name in zip(results, names, strict=True)]


def split_names(nodeids: Sequence[str]) -> tuple[str, list[str]]:
    """Split node ids into their common file, otherwise folder, and the rest of each."""
    files = {nodeid.partition("::")[0] for nodeid in nodeids}
    if len(files) == 1:
        # No colon in front: GitHub reads a line that starts with two of them as a command.
        return printable(files.pop()), [
            printable(name.partition("::")[2].lstrip(":") or name) for name in nodeids
        ]
    common = posixpath.commonprefix(list(files))
    folder = common[: common.rfind("/") + 1]
    return printable(folder), [printable(name[len(folder) :]) for name in nodeids]


def counts_by_status(results: Sequence[TestResult]) -> dict[Status, int]:
    """Count the tests of each verdict, the worst first."""
    counts = Counter(result.status for result in results)
    return {status: counts[status] for status in Status if counts[status]}


def failures(results: Sequence[TestResult]) -> list[TestResult]:
    """Return the failed tests, the worst first, of one verdict the largest loss first."""
    failed = [result for result in results if result.fails]
    return sorted(failed, key=lambda result: (SEVERITY[result.status], -result.loss_pct))


def label_status(result: TestResult, label: str) -> Status:
    """Return the verdict on one label of a test, which may be better than the test's own."""
    status = result.status
    findings = result.findings
    blamed = {finding.label for finding in findings if finding.status is status}
    if len(result.record.measurements) <= 1 or not blamed or blamed & {"", label}:
        return status
    own = [finding.status for finding in findings if finding.label == label]
    return min(own, key=SEVERITY.__getitem__, default=Status.PASS)


def header_lines(environment: Environment, replayed_from: Run | None) -> list[str]:
    """Name the GPU, tools and commit of the results, or of the recording if they were replayed.

    `NVIDIA H200, driver 580.95, torch 2.11, triton 3.6, ncu 2025.3.1, commit abc1234`; the commit has a `+`
    if files differed from it.
    """
    source = replayed_from.environment if replayed_from else environment
    gpu = source.gpu.name or "unnamed GPU"
    commit = f"commit {source.commit[:7]}{'+' if source.dirty else ''}" if source.commit else ""
    versions = {name: getattr(source.toolchain, name) for name in TOOLS}
    tools = [f"{name} {version}" for name, version in versions.items() if version]
    if replayed_from:
        lines = [[f"replayed from {gpu}", commit, replayed_from.started_at[:10]], tools]
    else:
        lines = [[gpu, *tools, commit]]
    return [printable(", ".join(filter(None, parts))) for parts in lines if any(parts)]


def _rows_of(result: TestResult, name: str) -> list[Row]:
    rows = [
        _row(result, label, name if label == "main" else f"{name} ({printable(label)})", measurement)
        for label, measurement in result.record.measurements.items()
    ]
    return rows or [_row(result, "main", name, None)]


def _row(result: TestResult, label: str, name: str, measurement: Measurement | None) -> Row:
    timing = measurement.timing if measurement else None
    profile = measurement.profile if measurement else None
    metrics = profile.combined if profile else {}
    accuracy = measurement.accuracy if measurement is not None else None
    status = label_status(result, label)
    time = result.times.get(label)
    shown_change = "new" if timing and status is Status.NEW else ""
    if time is not None:
        shown_change = show_change(time.decision)
    drifted = " (drifted)" if result.drift and status is Status.PASS else ""
    return Row(
        test=name,
        time=show_timing(timing) if timing else "",
        rate=show_rate(timing) if timing else "",
        sol=show_sol(metrics),
        occupancy=show_occupancy(metrics),
        stall=show_stall(metrics),
        change=shown_change,
        verdict=f"{result.show(status)}{drifted}",
        status=status,
        fails=result.fails_by(status),
        compiled=show_compiled(metrics) if measurement and measurement.is_static else "",
        error=show_accuracy(accuracy) if accuracy else "",
    )
