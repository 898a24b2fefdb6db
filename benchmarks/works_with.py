"""Compare the times of the gallery with the true durations of its kernels.

pytest --gpuperf -p benchmarks.works_with suites/test_third_party.py    # on a GPU
python -m benchmarks.works_with                                         # anywhere

As a plugin of pytest this reads, after each timing, the durations of the same call's kernels from
torch.profiler, in the same process. It writes `benchmarks/results/works_with.json`. True is the sum of the
kernels, copies and fills of one call, on all streams.
"""

from __future__ import annotations

import datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from benchmarks import results_file
from benchmarks.markdown import provenance, table, us
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.json_files import write_files
from pytest_gpuperf.records.timing import TimingMode, TimingSource

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = 1
FILE = Path(__file__).parent / "results" / "works_with.json"
TOLERATED_PCT, TOLERATED_US = 2.0, 0.1
"""Difference between a time and the true duration that a kernel may have that is not bound by the host."""
WARM_UP_S = 0.2
WINDOW_US = 20_000
LEAST_CALLS, MOST_CALLS = 20, 200
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
    """Time of one test next to the true duration, or the reason for having none."""

    time_us: float = 0.0
    true_us: float = 0.0
    kernels: int = 0
    """Kernels, copies and fills of one call."""
    mode: TimingMode | None = None
    source: TimingSource | None = None
    refused: str = ""
    """Message of a test that failed or was skipped."""

    @property
    def difference_pct(self) -> float:
        """Time over true duration, less 1, in %."""
        return 100 * (self.time_us / self.true_us - 1)

    @property
    def agrees(self) -> bool:
        """True if the time is as near to the true duration as it should be."""
        return abs(self.time_us - self.true_us) <= max(TOLERATED_US, TOLERATED_PCT / 100 * self.true_us)


class Results(Record, frozen=True, kw_only=True):
    """Results of one run of the gallery."""

    schema: int
    date: str
    """UTC, ISO 8601."""
    run: str
    """Id of the run that has the same times."""
    environment: Environment
    packages: dict[str, str]
    """Versions by the name of the distribution."""
    tests: dict[str, Compared]
    """By the test's name."""


def read(path: Path) -> Results:
    """Read the file; see `benchmarks.results_file.read`."""
    return results_file.read(path, Results, schema=SCHEMA)


def summary(results: Results) -> str:
    """Return one sentence about all tests, and one about the machine."""
    timed = [test for test in results.tests.values() if not test.refused]
    near = [abs(test.difference_pct) for test in timed if test.agrees]
    return (
        f"{len(near)} of {len(timed)} times differ by at most {max(near):.1f} % from the true durations. "
        f"{provenance(results.environment, results.date)}.\n"
    )


def times_table(results: Results) -> str:
    """Format a row for each kernel, with its forward and backward pass if it has both."""
    rows: dict[str, list[str]] = {}
    for name, test in results.tests.items():
        shown = name.removeprefix("test_").replace("_forward", "").replace("_backward", "")
        cells = rows.setdefault(_named(shown, results.packages), [])
        cells += ["refused", ""] if test.refused else [us(test.time_us), us(test.true_us)]
    titles = ("kernel", "time, µs", "true, µs", "with backward, µs", "true, µs")
    return table(titles, [(f"`{name}`", *cells, *[""] * (4 - len(cells))) for name, cells in rows.items()])


def refusals(results: Results) -> str:
    """List the refused tests with their messages; empty without any."""
    refused = {name: test.refused for name, test in results.tests.items() if test.refused}
    return "".join(f"- `{name}`: {message}\n" for name, message in refused.items())


def versions(results: Results) -> str:
    """Return the versions of the packages as one sentence."""
    return f"{', '.join(f'{name} {version}' for name, version in results.packages.items())}.\n"


def _named(shown: str, packages: dict[str, str]) -> str:
    return shown.replace("[", " ").rstrip("]").replace("_", " ", 1 if shown.partition("_")[0] in PACKAGES else 0)


class _Comparison:
    """Times of the tests as they come."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tests: dict[str, Compared] = {}

    def timed(self, nodeid: str, timing: Any, fn: Callable[[], Any]) -> None:
        true_us, kernels = true_duration(fn)
        self._tests[_name(nodeid)] = Compared(
            time_us=round(timing.time_us, 3),
            true_us=round(true_us, 3),
            kernels=kernels,
            mode=timing.mode,
            source=timing.source,
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the message of a test that did not pass."""
        if not report.passed:
            message = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            first = message.removeprefix("Skipped: ").strip().splitlines()
            self._tests[_name(report.nodeid)] = Compared(refused=first[-1] if report.failed else first[0])

    def pytest_sessionfinish(self) -> None:
        """Write the results."""
        from pytest_gpuperf.session.base import RUNNER

        runner = self._config.stash[RUNNER]
        results = Results(
            schema=SCHEMA,
            date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            run=getattr(runner, "run_id", ""),
            environment=runner.environment,
            packages=_installed(self._tests),
            tests=self._tests,
        )
        write_files({FILE: results_file.encode(results)})


def true_duration(fn: Callable[[], Any]) -> tuple[float, int]:
    """Return the microseconds of a call by torch.profiler, and the number of its kernels, copies and fills."""
    from scipy.stats import trim_mean

    from benchmarks.timing_accuracy import truth

    truth.warm_up(fn, WARM_UP_S)
    calls = round(min(max(WINDOW_US / truth.roughly_us(fn), LEAST_CALLS), MOST_CALLS))
    records = [record for record in truth.profiled(fn, truth.nothing, calls) if "spin_kernel" not in record[0]]
    each = truth.by_call(records, calls)
    return float(trim_mean(each, 0.2)), len(records) // calls


def _name(nodeid: str) -> str:
    return nodeid.partition("::")[2]


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
        if runner.on_gpu and runner.judges:
            own = ("bytes", "flops", "mode", "label")
            options = {name: value for name, value in kwargs.items() if name not in own}
            comparison.timed(self._state.nodeid, timing, lambda: fn(*args, **options))
        return timing

    Gpuperf.time = timed  # type: ignore[method-assign]
    config.pluginmanager.register(comparison)


def main() -> None:
    """Print the tables."""
    results = read(FILE)
    print(summary(results), versions(results), times_table(results), refusals(results), sep="\n")


if __name__ == "__main__":
    main()
