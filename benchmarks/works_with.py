"""Compare the times of the gallery with the true durations of its kernels.

pytest --gpuperf -p benchmarks.works_with suites/test_third_party.py    # on a GPU
python -m benchmarks.works_with                                         # anywhere

As a plugin of pytest this compares, after each timing, blocks of the timer with true durations of the same
calls (see `benchmarks.true_duration`). It writes `benchmarks/results/works_with.json`.
"""

from __future__ import annotations

import datetime
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks import results_file
from benchmarks.markdown import provenance, us
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.files import write_files
from pytest_gpuperf.records.timing import TimingMode

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from pytest_gpuperf.records import Timing

SCHEMA = 1
PROPERTY, ENVIRONMENT = "works_with", "works_with_environment"
"""Names of the properties by which reports carry results."""
FILE = Path(__file__).parent / "results" / "works_with.json"
TOLERATED_PCT, TOLERATED_US = 2.0, 0.1
"""Difference between a time and the true duration that a kernel may have that is not bound by the host."""
PACKAGES = {
    "liger": "liger-kernel",
    "fla": "fla-core",
    "helion": "helion",
    "quack": "quack-kernels",
    "cutile": "cuda-tile",
    "cupy": "cupy-cuda13x",
    "numba": "numba-cuda",
    "jax": "jax",
}
"""Distribution by the first word of a test's name after `test_`; the other tests need only torch."""


class Compared(Record, frozen=True, kw_only=True):
    """Time of one test next to true durations, or the reason for having none.

    The blocks of the timer and the true durations were taken in turn, after the timing, and compared in
    pairs. Without blocks, the true duration is that of CUPTI's records in the timing itself.
    """

    time_us: float = 0.0
    """By the timing, which baselines keep."""
    mode: TimingMode | None = None
    block_us: float = 0.0
    """Median of the blocks."""
    kernels: float = 0.0
    """Kernels, copies on the GPU and fills of one call."""
    kernels_us: float = 0.0
    """Time in which they ran, by torch.profiler."""
    over_kernels_pct: float = 0.0
    """Block over `kernels_us`, less 1: the median of the pairs."""
    span_us: float = 0.0
    """Span of a call by the GPU's clock, without a profiler; 0 if calls wait for the GPU or use streams of
    their own."""
    over_span_pct: float = 0.0
    held_back: bool = False
    """True if the power limit or heat held the clock back during the timing."""
    mhz: tuple[float, ...] = ()
    """Mean SM clock of the timing, the blocks, the profiled calls and, if measured, the spans; 0: unknown."""
    refused: str = ""
    """Message of a test that failed or was skipped."""
    commit: str = ""
    """Commit of an earlier run that compared, if it is not the run of the file."""
    not_compared: str = ""
    """Reason for missing true durations."""

    @property
    def by_span(self) -> bool:
        """True if the span is the true duration: of several kernels, or if the profiler slows the kernel."""
        return bool(self.span_us) and (self.kernels > 1 or self.kernels_us > self.span_us)

    @property
    def true_us(self) -> float:
        """True duration."""
        return self.span_us if self.by_span else self.kernels_us

    @property
    def difference_pct(self) -> float:
        """Block over true duration, less 1, in %."""
        return self.over_span_pct if self.by_span else self.over_kernels_pct

    @property
    def reason(self) -> str:
        """Likely reason of a difference."""
        if self.held_back:
            return "the power limit held the clock back, not equally in both"
        if not self.by_span and self.kernels > 2:
            return f"the time includes the gaps between {self.kernels:.0f} kernels"
        return "CUPTI slows kernels of many short blocks"

    @property
    def agrees(self) -> bool:
        """True if the blocks are as near to the true duration as they should be, or that is not known."""
        if not self.true_us:
            return True
        return abs(self.difference_pct) <= max(TOLERATED_PCT, 100 * TOLERATED_US / self.true_us)


class Results(Record, frozen=True, kw_only=True):
    """Results of one run of the gallery."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    environment: Environment
    packages: dict[str, str]
    """Versions by the name of the distribution."""
    tests: dict[str, Compared]
    """By the test's name."""


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def summary(results: Results) -> str:
    """Return one sentence about all tests, and others about the machine and the packages."""
    known = [test for test in results.tests.values() if test.true_us]
    near = [abs(test.difference_pct) for test in known if test.agrees]
    installed = ", ".join(f"{name} {version}" for name, version in results.packages.items())
    return (
        f"{len(near)} of {len(known)} times differ by at most {max(near):.1f} % from the true durations.\n"
        f"{provenance(results.environment, results.date)}; {installed}.\n"
    )


def times_table(results: Results) -> str:
    """Format a row for each test, without spaces: tables count as words of the documentation."""
    lines = ["|test|time|block|kernels|span|%|", "|---|---:|---:|---:|---:|---:|"]
    for name, test in results.tests.items():
        cells = ("refused", *[""] * 4) if test.refused else _cells(test)
        mark = f" {test.commit[:7]}" if test.commit else ""
        lines.append("|".join(("", f"`{name.removeprefix('test_')}`{mark}", *cells, "")))
    return "".join(f"{line}\n" for line in lines)


def _cells(test: Compared) -> tuple[str, ...]:
    mode = " *k*" if test.mode == "kernels" else ""
    block, kernels, span = (
        us(value) if value else "" for value in (test.block_us, test.kernels_us, test.span_us)
    )
    if test.by_span:
        span = f"**{span}**"
    elif kernels:
        kernels = f"**{kernels}**"
    shown = f"{test.difference_pct:+.1f}" if test.true_us else ""
    return (
        f"{us(test.time_us)}{mode}",
        block,
        kernels,
        span,
        shown.replace("+0.0", "0.0").replace("-0.0", "0.0"),
    )


def exceptions(results: Results) -> str:
    """List larger differences, refused tests with their messages, and the clocks at the power limit."""
    lines = []
    for name, test in results.tests.items():
        shown = f"`{name.removeprefix('test_')}`"
        if test.refused:
            lines.append(f"- {shown}: {test.refused}\n")
        elif test.not_compared:
            lines.append(f"- {shown}: {test.not_compared}\n")
        elif not test.agrees:
            lines.append(f"- {shown}: {test.difference_pct:+.1f} %; {test.reason}\n")
        if test.held_back and test.block_us:
            clocks = ", ".join(
                f"{name} {clock:.0f}"
                for name, clock in zip(("time", "blocks", "kernels", "span"), test.mhz, strict=False)
            )
            lines.append(f"- {shown}, in MHz: {clocks}\n")
    return "".join(lines) or "No test is an exception.\n"


class _Comparison:
    """Hooks that compare; the tests may run in another process, whose reports have the results."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._item: pytest.Item | None = None
        self._tests: dict[str, Compared] = {}
        self._environment: Environment | None = None

    def timed(self, timing: Timing, fn: Callable[[], Any], environment: Environment) -> None:
        """Compare a call that was just timed with its true durations."""
        try:
            compared = compare(fn, timing)
        except Exception as error:  # the timing itself is good
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            compared = Compared(time_us=round(timing.time_us, 3), mode=timing.mode, not_compared=why)
        assert self._item is not None
        self._item.user_properties += [
            (PROPERTY, msgspec.to_builtins(compared)),
            (ENVIRONMENT, msgspec.to_builtins(environment)),
        ]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Note the test."""
        self._item = item

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the result of a test, or the message of one that did not pass."""
        name = report.nodeid.partition("::")[2]
        if not report.passed:
            message = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            self._tests[name] = Compared(refused=message.removeprefix("Skipped: ").strip().splitlines()[0])
        elif report.when == "call":
            for key, value in report.user_properties:
                if key == PROPERTY:
                    self._tests[name] = msgspec.convert(value, Compared)
                elif key == ENVIRONMENT:
                    self._environment = msgspec.convert(value, Environment)

        self._write()

    def _write(self) -> None:
        """Write the results so far, unless another process does, or nothing was measured."""
        if hasattr(self._config, "workerinput") or self._environment is None:
            return
        results = Results(
            schema=SCHEMA,
            date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            environment=self._environment,
            packages=_installed(self._tests),
            tests=self._tests,
        )
        write_files({FILE: results_file.encode(results)})


def compare(fn: Callable[[], Any], timing: Timing) -> Compared:
    """Take blocks and true durations in turn."""
    from benchmarks.true_duration import paired, rounds

    found = rounds(fn, timing)
    blocks = [each.block for each in found]
    clocks = (timing.clock_model.time_us,) if timing.clock_model is not None and timing.held_back else ()
    kernels = paired(blocks, [each.kernels for each in found], *clocks)
    spans = [each.span for each in found if each.span is not None]
    span = paired(blocks, spans, *clocks) if spans else None
    return Compared(
        time_us=round(timing.time_us, 3),
        mode=timing.mode,
        block_us=round(median(block.us for block in blocks), 3),
        kernels=round(median(each.launches for each in found), 2),
        kernels_us=round(kernels.true_us, 3),
        over_kernels_pct=round(100 * (kernels.ratio - 1), 3),
        span_us=round(span.true_us, 3) if span else 0.0,
        over_span_pct=round(100 * (span.ratio - 1), 3) if span else 0.0,
        held_back=bool(timing.held_back),
        mhz=tuple(
            round(clock, 1)
            for clock in (
                timing.sm_clock_mhz,
                kernels.block_mhz,
                kernels.true_mhz,
                *([span.true_mhz] if span else []),
            )
        ),
    )


def _installed(tests: dict[str, Compared]) -> dict[str, str]:
    wanted = {PACKAGES.get(name.removeprefix("test_").partition("_")[0]) for name in tests}
    found = {}
    for package in sorted(filter(None, wanted)):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def pytest_configure(config: pytest.Config) -> None:
    """Read true durations after each timing of a live run."""
    from pytest_gpuperf.plugin.facade import Gpuperf

    comparison = _Comparison(config)
    time = Gpuperf.time

    def timed(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        timing = time(self, fn, *args, **kwargs)
        runner = self._runner
        if runner.on_gpu and runner.report is not None:
            own = ("inputs", "bytes", "flops", "mode", "label")
            options = {name: value for name, value in kwargs.items() if name not in own}
            comparison.timed(timing, lambda: fn(*args, **options), runner.report.judge.environment)
        return timing

    Gpuperf.time = timed  # type: ignore[method-assign]
    config.pluginmanager.register(comparison)


def main() -> None:
    """Print the tables."""
    results = read(FILE)
    print(summary(results), times_table(results), exceptions(results), sep="\n")


if __name__ == "__main__":
    main()
