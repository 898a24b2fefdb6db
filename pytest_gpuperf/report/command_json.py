"""The JSON that commands print, as types: `gpuperf schema` makes their schemas."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

from pytest_gpuperf.measure.ncu.rules import Rule
from pytest_gpuperf.metrics.metric import Better
from pytest_gpuperf.records import MetricValue, Trace
from pytest_gpuperf.records.quantities import Count


class ComparedCell(TypedDict):
    """One value of a line."""

    value: MetricValue | None
    """None if it was not measured."""
    change_pct: float | None
    """Change since the first column."""
    effect: Literal["worse", "better", ""]
    compared: bool
    """False if it is another quantity than the value in the first column."""


class _Subject(TypedDict):
    subject: str
    """The test, parameters or launch; empty if all lines are about the same."""
    metric: str
    unit: str
    cells: list[ComparedCell]
    """One for each column."""


class ComparedLine(_Subject, total=False):
    """One metric in all columns; the optional keys are those of launches."""

    kernel: str
    old_launch: Count | None
    new_launch: Count | None
    old_launches: Count
    new_launches: Count
    only_in: Literal["", "old", "new"]


class Written(TypedDict):
    """Files and messages of a command that writes files."""

    files: list[str]
    """Paths of the files that it has written."""
    lines: list[str]
    """Its messages."""


class Comparison(TypedDict):
    """Values side by side: `gpuperf compare`, `gpuperf ncu --compare` and `gpuperf trace --compare`."""

    sources: list[str]
    """Ids of the runs, or names of the files."""
    columns: list[str]
    notes: list[str]
    """Facts to know before drawing conclusions."""
    lines: list[ComparedLine]


class BreakEvenSize(TypedDict):
    """Savings and costs of a change at one size."""

    series: str
    size: float
    launches_without: float
    launches_with: float
    gpu_us_without: float
    gpu_us_with: float
    saved_us: float
    cost_us: float
    net_us: float
    affordable_launches: float | None
    """Launches that the saved time pays for; None for any number."""
    mode: str
    time_us_without: float | None
    time_us_with: float | None
    measured_us: float | None


class BreakEvenSeries(TypedDict):
    """Sizes of one family of tests."""

    name: str
    pays_above: float | None
    """Size from which the change pays, as calculated."""
    measured_pays_above: float | None
    sizes: list[BreakEvenSize]


class BreakEven(TypedDict):
    """The size at which a change breaks even."""

    size: str
    """Name of the size."""
    launch_us: float
    """Cost of a launch, in microseconds."""
    launch: Literal["host", "graph", "given"]
    source: str
    left_out: list[str]
    series: list[BreakEvenSeries]


class Diagnosed(TypedDict):
    """One rule that applies."""

    rule: str
    text: str
    next_step: str


class ExplainedKernel(TypedDict):
    """A call, or the identical launches of a kernel."""

    kernel: str
    """Empty for the call."""
    launches: Count
    time_us: float | None
    """Median duration of a launch."""
    share_pct: float | None
    diagnoses: list[Diagnosed]


class Explained(TypedDict):
    """A measurement of a test, or a file."""

    gpu: str
    """Empty for a file."""
    test: str
    """Empty for a file."""
    label: str
    explained: list[ExplainedKernel]
    since_the_baseline: list[str]
    left_out: Count
    """Launches that are not shown."""


class _Metric(TypedDict):
    name: str
    unit: str
    better: Better
    tier: Literal["exact", "near-exact", "state"]
    combining: Literal["sum", "max", "min", "mean", "same"]
    weight: list[str]
    section: str
    explanation: str
    ncu: list[str]
    """Names that are requested from ncu."""
    chips: list[str]
    presets: list[str]


class Metric(_Metric, total=False):
    """A metric of the catalogue; the optional keys need `--chip`."""

    available: bool
    passes: Count | None


class _Value(TypedDict):
    value: MetricValue
    unit: str


class LaunchMetric(_Value, total=False):
    """Value of a metric; with its extremes if ncu printed a mean."""

    minimum: float
    maximum: float


class Launch(TypedDict):
    """A launch in a file from ncu."""

    launch: Count
    name: str
    demangled: str
    grid: list[int] | None
    block: list[int] | None
    ranges: list[str]
    gpu: str
    compute_capability: str
    device: Count | None
    ncu_version: str
    failed: bool
    invocations: Count
    notes: list[str]
    metrics: dict[str, LaunchMetric]
    rules: list[Rule]


class TracedCall(TypedDict):
    """A trace of a run or of a file."""

    nodeid: str
    """Empty for a file."""
    label: str
    file: str
    rank: Count | None
    world_size: Count | None
    device: Count
    gpu: str
    trace: Trace
    steps: list[Trace]
    """Steps of a file, without their kernels."""
    outside_steps: Count
    not_shown: dict[str, Any] | None
    left_out: list[str]


class Recording(TypedDict):
    """A recording."""

    gpu: str
    file: str
    date: str
    commit: str
    tests: Count


class SuiteStatus(TypedDict):
    """The baseline of a suite on a GPU, next to a run."""

    gpu: str
    suite: str
    run: str
    """Id of the run that it is compared with; empty for none."""
    tests: Count
    fewest_sessions: Count
    most_sessions: Count
    cards: Count
    newest: str
    oldest: str
    pins: list[str]
    not_in_run: list[str]
    without_baseline: list[str]


class PlannedTest(TypedDict):
    """Effect of accepting a run on one measurement."""

    test: str
    label: str
    effect: Literal["new", "changed", "refreshed", "refused"]
    details: list[str]


class Plan(TypedDict):
    """The changes that `gpuperf baseline accept` makes."""

    runs: list[str]
    gpu: str
    tests: list[PlannedTest]


Plans: TypeAlias = Plan | list[Plan]
"""One for each GPU model if the runs are of several."""


class Removed(TypedDict):
    """A folder with files that are not needed any more."""

    folder: str
    run: bool
    """True for a whole run; False for reports of a run, and for a cache."""
    files: Count
    size_bytes: Count


class Cleaning(TypedDict):
    """What `gpuperf clean` removes."""

    dry_run: bool
    removed: list[Removed]
    size_bytes: Count


class ComparedKernel(TypedDict):
    """A compiled kernel in the old and the new code, or a test without one."""

    test: str
    label: str
    """Label with the architecture; empty if the test compiled nothing."""
    kernel: str
    state: Literal["changed", "unchanged", "added", "removed", "unknown"]
    differs: list[str]
    """The differences, or the reason why they are unknown."""
    old_code: str
    """SHA-256 of the machine code; empty if unknown."""
    new_code: str


class CodeDifferences(TypedDict):
    """Kernels of two commits: `gpuperf diff-code`."""

    commit: str
    kernels: list[ComparedKernel]
    shared: list[str]
    """Modules that git ignores, which both sides ran from the checkout."""


class ExportedRow(TypedDict):
    """One value of a run."""

    nodeid: str
    label: str
    kernel: str
    """Empty for all kernels as one, and for values without a kernel."""
    launch: Count | None
    metric: str
    mode: str
    value: float | None
    unit: str
    text: str
    failed: bool
    run: str
    date: str | None
    gpu: str
    commit: str
    dirty: bool | None


class FleetTest(TypedDict):
    """The end of a test on one model of GPU."""

    test: str
    gpu: str
    ending: Literal["passed", "failed", "skipped", "lost", "unjudged"]
    """`lost`: the workers that ran it were lost; `unjudged`: pytest ended before it."""
    verdict: str
    """Empty if it was not judged."""
    seconds: float
    message: str
    worker: str
    """Host and address; empty if the test is lost."""


class FleetModel(TypedDict):
    """Numbers of tests on one model of GPU."""

    gpu: str
    passed: Count
    skipped: Count
    failed: Count
    lost: Count
    unjudged: Count
    missing: Count
    """Tests that did not end because the command was ended."""
    runs: list[str]
    """Run files; none if recorded runs were judged again."""


class FleetRun(TypedDict):
    """The results of a fleet."""

    exit_status: Count
    models: list[FleetModel]
    tests: list[FleetTest]


class FleetPlan(TypedDict):
    """A simulated fleet."""

    gpu: str
    gpus: Count
    tests: Count
    groups: Count
    test_seconds: float
    """Sum of the durations of the tests."""
    seconds: float
    utilisation_pct: float
    """Share of the time of the GPUs in which tests run."""
    limited_by: Literal["tests", "starts", "longest group", "scheduler"]
