"""Compare the times of the gallery with the true durations of its kernels.

pytest --gpuperf -p benchmarks.works_with suites/test_third_party.py    # on a GPU
python -m benchmarks.works_with                                         # anywhere

As a plugin of pytest this reads, after each timing, the durations of the same call's kernels from
torch.profiler, in the same process. It writes `benchmarks/results/works_with.json`. True is the sum of the
kernels, copies on the GPU and fills of one call, on all streams, while calls follow each other.

The committed file has the times of a recorded run. Its true durations are CUPTI's records of that run if the
timer has them (`cupti_us`, of calls launched one by one; the time is of CUDA graphs), and ncu's for one
kernel; the other tests have none yet.
"""

from __future__ import annotations

import datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks import results_file
from benchmarks.markdown import provenance, us
from pytest_gpuperf.records import Environment, Record
from pytest_gpuperf.records.timing import TimingMode
from pytest_gpuperf.records.writing import write_files

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
WARM_UP_S = 0.2
WINDOW_US = 20_000
LEAST_CALLS, MOST_CALLS = 20, 200
MARKS = {"cupti": "", "torch.profiler": "†", "ncu": "‡"}
"""Mark of a true duration by its source."""
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
    """0 if it was not measured."""
    true_source: str = "torch.profiler"
    """`cupti`, `ncu` or `torch.profiler`."""
    kernels: int = 0
    """Kernels, copies on the GPU and fills of one call."""
    mode: TimingMode | None = None
    held_back: bool = False
    """True if the power limit or heat held the clock back during the timing."""
    refused: str = ""
    """Message of a test that failed or was skipped."""

    @property
    def difference_pct(self) -> float:
        """Time over true duration, less 1, in %."""
        return 100 * (self.time_us / self.true_us - 1)

    @property
    def agrees(self) -> bool:
        """True if the time is as near to the true duration as it should be, or that is not known."""
        tolerated_us = max(TOLERATED_US, TOLERATED_PCT / 100 * self.true_us)
        return not self.true_us or abs(self.time_us - self.true_us) <= tolerated_us

    @property
    def reason(self) -> str:
        """Likely reason of a difference."""
        if self.held_back:
            return "the power limit held the clock back, not equally in both"
        if self.kernels > 2:
            return f"the time includes the gaps between {self.kernels} kernels"
        return "kernels of many short blocks take longer under CUPTI"


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
    known = [test for test in timed if test.true_us]
    near = [abs(test.difference_pct) for test in known if test.agrees]
    installed = ", ".join(f"{name} {version}" for name, version in results.packages.items())
    return (
        f"{len(near)} of {len(known)} times differ by at most {max(near):.1f} % from the true durations.\n"
        f"{provenance(results.environment, results.date)}; {installed}.\n"
    )


def times_table(results: Results) -> str:
    """Format a row for each test, without spaces: tables count as words of the documentation."""
    lines = ["|test|µs|true|%|", "|---|---:|---:|---:|"]
    for name, test in results.tests.items():
        mode = " *k*" if test.mode == "kernels" else ""
        true = ("", "")
        if test.true_us:
            true = (f"{us(test.true_us)}{MARKS[test.true_source]}", _signed(test.difference_pct))
        cells = ("refused", "", "") if test.refused else (f"{us(test.time_us)}{mode}", *true)
        lines.append("|".join(("", f"`{name.removeprefix('test_')}`", *cells, "")))
    return "".join(f"{line}\n" for line in lines)


def _signed(pct: float) -> str:
    shown = f"{pct:+.1f}"
    return shown if float(shown) else "0.0"


def exceptions(results: Results) -> str:
    """List the reasons of larger differences with their tests, and the refused tests with their messages."""
    of_reason: dict[str, list[str]] = {}
    for name, test in results.tests.items():
        if test.refused or not test.agrees:
            of_reason.setdefault(test.refused or test.reason, []).append(f"`{name.removeprefix('test_')}`")
    lines = [f"- {', '.join(names)}: {reason}\n" for reason, names in of_reason.items()]
    return "".join(lines) or "No test is an exception.\n"


class _Comparison:
    """Hooks that compare; the tests may run in another process, whose reports have the results."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._item: pytest.Item | None = None
        self._tests: dict[str, Compared] = {}
        self._environment: Environment | None = None

    def timed(self, timing: Timing, fn: Callable[[], Any], environment: Environment) -> None:
        """Read the true duration of a call that was just timed."""
        true_us, kernels = true_duration(fn)
        compared = Compared(
            time_us=round(timing.time_us, 3),
            true_us=round(true_us, 3),
            kernels=kernels,
            mode=timing.mode,
            held_back=bool(timing.held_back),
        )
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

    def pytest_sessionfinish(self) -> None:
        """Write the results, unless another process does, or nothing was measured."""
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
            comparison.timed(timing, lambda: fn(*args, **options), runner.environment)
        return timing

    Gpuperf.time = timed  # type: ignore[method-assign]
    config.pluginmanager.register(comparison)


def main() -> None:
    """Print the tables."""
    results = read(FILE)
    print(summary(results), times_table(results), exceptions(results), sep="\n")


if __name__ == "__main__":
    main()
