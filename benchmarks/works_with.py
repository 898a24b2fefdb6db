"""Compare the times of the gallery with the true durations of its kernels.

pytest --gpuperf -p benchmarks.works_with suites/test_third_party.py    # on a GPU
python -m benchmarks.works_with                                         # anywhere

As a plugin of pytest this reads, after each timing, the durations of the same call's kernels from
torch.profiler, in the same process. It writes `benchmarks/results/works_with.json`. True is the sum of the
kernels, copies on the GPU and fills of one call, on all streams, while calls follow each other.
"""

from __future__ import annotations

import datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks import results_file
from benchmarks.markdown import provenance, table, us
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.timing import TimingMode, TimingSource
from pytest_gpuperf.records.writing import write_files
from pytest_gpuperf.session.base import RUNNER

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from pytest_gpuperf.records import Timing

SCHEMA = 1
PROPERTY = "works_with"
FILE = Path(__file__).parent / "results" / "works_with.json"
TOLERATED_PCT, TOLERATED_US = 2.0, 0.1
"""Difference between a time and the true duration that a kernel may have that is not bound by the host."""
WARM_UP_S = 0.2
WINDOW_US = 20_000
LEAST_CALLS, MOST_CALLS = 20, 200
NOT_OF_A_CALL = ("spin_kernel", "Memcpy HtoD", "Memcpy DtoH")
"""The kernel that blocks the GPU, and copies that depend on the host, in torch.profiler's names."""
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
    """Kernels, copies on the GPU and fills of one call."""
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
    timed = [test for test in results.tests.values() if not test.refused]
    near = [abs(test.difference_pct) for test in timed if test.agrees]
    installed = ", ".join(f"{name} {version}" for name, version in results.packages.items())
    return (
        f"{len(near)} of {len(timed)} times differ by at most {max(near):.1f} % from the true durations.\n"
        f"{provenance(results.environment, results.date)}; {installed}.\n"
    )


def times_table(results: Results) -> str:
    """Format a row for each kernel, with its forward and backward pass if it has both."""
    rows: dict[str, list[str]] = {}
    for name, test in results.tests.items():
        shown = name.removeprefix("test_").replace("_forward", "").replace("_backward", "")
        mark = " *k*" if test.mode == "kernels" else ""
        cells = ("refused", "—") if test.refused else (f"{us(test.time_us)}{mark}", us(test.true_us))
        rows.setdefault(_named(shown), []).extend(cells)
    titles = ("kernel", "time, µs", "true, µs", "with backward, µs", "true, µs")
    return table(titles, [(f"`{name}`", *cells, *[""] * (4 - len(cells))) for name, cells in rows.items()])


def refusals(results: Results) -> str:
    """List the refused tests with their messages; say so if there are none."""
    refused = {name: test.refused for name, test in results.tests.items() if test.refused}
    if not refused:
        return "No test was refused.\n"
    return "".join(f"- `{name}`: {message}\n" for name, message in refused.items())


def _named(shown: str) -> str:
    """Return `liger rms_norm` for `liger[rms_norm]`, and `cupy own_stream` for `cupy_own_stream`."""
    words = shown.replace("[", " ").rstrip("]")
    return words.replace("_", " ", 1) if words.partition("_")[0] in PACKAGES else words


class _Comparison:
    """Hooks that compare; the tests may run in another process, whose reports have the results."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._item: pytest.Item | None = None
        self._tests: dict[str, Compared] = {}

    def timed(self, timing: Timing, fn: Callable[[], Any]) -> None:
        """Read the true duration of a call that was just timed."""
        true_us, kernels = true_duration(fn)
        compared = Compared(
            time_us=round(timing.time_us, 3),
            true_us=round(true_us, 3),
            kernels=kernels,
            mode=timing.mode,
            source=timing.source,
        )
        assert self._item is not None
        self._item.user_properties.append((PROPERTY, msgspec.to_builtins(compared)))

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

    def pytest_sessionfinish(self) -> None:
        """Write the results, unless another process does, or nothing was measured."""
        if hasattr(self._config, "workerinput") or not any(test.true_us for test in self._tests.values()):
            return
        runner = self._config.stash[RUNNER]
        results = Results(
            schema=SCHEMA,
            date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            environment=runner.environment,
            packages=_installed(self._tests),
            tests=self._tests,
        )
        write_files({FILE: results_file.encode(results)})


def true_duration(fn: Callable[[], Any]) -> tuple[float, int]:
    """Return the microseconds of a call by torch.profiler, and how many kernels, copies and fills it has."""
    from scipy.stats import trim_mean

    from benchmarks.timing_accuracy import truth

    truth.warm_up(fn, WARM_UP_S)
    calls = round(min(max(WINDOW_US / truth.roughly_us(fn), LEAST_CALLS), MOST_CALLS))
    profiled = truth.profiled(fn, truth.nothing, calls)
    records = [record for record in profiled if not any(name in record[0] for name in NOT_OF_A_CALL)]
    if len(records) % calls:  # a call now and then launches more
        return sum(us for _, us in records) / calls, len(records) // calls
    return float(trim_mean(truth.by_call(records, calls), 0.2)), len(records) // calls


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
            comparison.timed(timing, lambda: fn(*args, **options))
        return timing

    Gpuperf.time = timed  # type: ignore[method-assign]
    config.pluginmanager.register(comparison)


def main() -> None:
    """Print the tables."""
    results = read(FILE)
    print(summary(results), times_table(results), refusals(results), sep="\n")


if __name__ == "__main__":
    main()
