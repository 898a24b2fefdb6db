"""Errors of the plugin itself: each part raises in turn, and the run goes on."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, get_args

import pytest

import pytest_gpuperf.measure.cupti.range_profiler

# pytester unloads what a run imports: a module is replaced only if it was loaded before.
import pytest_gpuperf.measure.device.conditions
import pytest_gpuperf.measure.trace.capture
import pytest_gpuperf.plugin.benchmark_timer
import pytest_gpuperf.plugin.hooks
import pytest_gpuperf.plugin.isolation
import pytest_gpuperf.report.junit  # noqa: F401
from pytest_gpuperf.errors import ISSUES, PluginPart
from pytest_gpuperf.measure.device.lock import HELD_ENV
from pytest_gpuperf.records import Correctness, Timing, Trace
from pytest_gpuperf.session.live import LiveRunner
from run_builders import H200, one_test, profile, timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.records import Conditions

LIVE = "pytest_gpuperf.session.live"
TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.gpuperf(limits=["memory_throughput >= 60"])
def test_k(gpuperf):
    gpuperf.check(len, "ab", expected=2)
    gpuperf.time(len, "ab")
    gpuperf.profile(len, "ab")
    gpuperf.trace(len, "ab")
"""


def broken(*_: object, **__: object) -> NoReturn:
    raise KeyError("boom")


class BrokenPass:
    title = "a pass"
    notices = problems = ()
    results: dict[str, object] = {}
    skipped: dict[str, object] = {}
    run = staticmethod(broken)

    def lookup(self, *_: object) -> None: ...


class FakeTimer:
    def __init__(
        self, _: int, __: float, conditions: Callable[[], Conditions | None], *___: object, **____: object
    ) -> None:
        self._conditions = conditions

    def time(self, *_: object, progress: Callable[[str], None], **__: object) -> Timing:
        progress("timed")
        self._conditions()
        return timing()


@pytest.fixture(autouse=True)
def _fake_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure everything on a GPU that is not there, in this process."""
    found = profile({"memory_throughput": 77.0})
    fakes: dict[str, object] = {
        f"{LIVE}.why_not_live": lambda: "",
        f"{LIVE}.find_ncu": lambda _: None,
        "pytest_gpuperf.measure.correctness.check": lambda *_, **__: Correctness(passed=True),
        "pytest_gpuperf.measure.counters.cupti_counters.CuptiCounters.lookup": lambda *_: found,
        "pytest_gpuperf.measure.cupti.range_profiler.why_no_range_profiler": lambda: "",
        "pytest_gpuperf.measure.device.environment.environment": lambda *_: one_test().environment,
        "pytest_gpuperf.measure.device.gpu.gpu_info": lambda: H200,
        "pytest_gpuperf.measure.timing.timer.Timer": FakeTimer,
        "pytest_gpuperf.measure.trace.capture.capture": lambda *_: Trace(),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(name, fake)
    monkeypatch.setenv(HELD_ENV, H200.uuid)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")


class Broken(NamedTuple):
    """A part that raises, and the end of the run."""

    name: str
    """The function."""
    status: int = 0
    outcomes: dict[str, int] = {"passed": 2}
    arguments: tuple[str, ...] = ()
    fake: Any = broken


FAILED = {"passed": 1, "failed": 1}
PARTS: dict[PluginPart, Broken] = {
    "annotations": Broken("pytest_gpuperf.report.publish.error_annotations"),
    "baseline": Broken("pytest_gpuperf.baseline.expectations.Expectations.add"),
    "clock reading": Broken("pytest_gpuperf.measure.device.conditions.Nvml.conditions"),
    "code identity": Broken("pytest_gpuperf.session.live_source.LiveSource.code"),
    "comparison with old code": Broken(
        f"{LIVE}.LiveRunner._against_pass",
        4,
        arguments=("--gpuperf-against=HEAD",),
        fake=lambda *_: BrokenPass(),
    ),
    "counters": Broken("pytest_gpuperf.measure.counters.cupti_counters.CuptiCounters.lookup"),
    "diagnosis": Broken("pytest_gpuperf.judge.verdict.explain_lines", 1, FAILED),
    "HTML report": Broken(
        "pytest_gpuperf.report.html.page.page_pieces", arguments=("--gpuperf-html=report.html",)
    ),
    "isolation": Broken("pytest_gpuperf.plugin.isolation.isolate"),
    "judging": Broken("pytest_gpuperf.session.base.judge", 1, FAILED),
    "JUnit properties": Broken("pytest_gpuperf.report.junit.properties"),
    "lock": Broken(f"{LIVE}.LiveRunner.begin"),
    "marker": Broken("pytest_gpuperf.session.marker.Marker.of", 1, FAILED),
    "Markdown summary": Broken("pytest_gpuperf.report.publish.write_markdown"),
    "notices": Broken("pytest_gpuperf.report.terminal.notices"),
    "options": Broken("pytest_gpuperf.settings.settings.Settings.from_config", 4, {}),
    "passes": Broken(f"{LIVE}.LiveRunner.run_passes"),
    "progress": Broken(f"{LIVE}.StatusLine.show"),
    "pruning": Broken("pytest_gpuperf.session.keeping.find_old"),
    "pytest-benchmark timer": Broken(
        "pytest_gpuperf.plugin.benchmark_timer.apply", 1, {"passed": 1, "errors": 1}
    ),
    "report": Broken("pytest_gpuperf.report.publish.publish"),
    "run file": Broken("pytest_gpuperf.records.runs.RunStore.write"),
    "sanitizer": Broken(
        f"{LIVE}.LiveRunner._sanitizing_pass",
        4,
        arguments=("--gpuperf-sanitize=memcheck",),
        fake=lambda *_: BrokenPass(),
    ),
    "seeding": Broken("pytest_gpuperf.session.seeds.seed_of"),
    "start": Broken("pytest_gpuperf.plugin.hooks.start", 1, {"passed": 1, "errors": 1}),
    "trace": Broken("pytest_gpuperf.measure.trace.capture.capture"),
    "verdicts": Broken(f"{LIVE}.LiveRunner.write_json", arguments=("--gpuperf-json=v.json",)),
}


def test_every_part_has_a_test() -> None:
    assert PARTS.keys() == set(get_args(PluginPart))


@pytest.mark.parametrize("part", PARTS)
def test_failed_part_is_one_line_and_the_tests_go_on(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, part: PluginPart
) -> None:
    name, status, outcomes, arguments, fake = PARTS[part]
    strict = part == "diagnosis"
    pytester.makepyfile(test_k=TESTS.replace(">= 60", ">= 99") if strict else TESTS)
    monkeypatch.setattr(name, fake)
    result = pytester.runpytest("--gpuperf", "-ogpuperf_markdown=x.md", *arguments)
    assert result.ret == status
    if part != "options":
        result.assert_outcomes(**outcomes)
    text = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in text
    assert "Traceback" not in text
    (line,) = {
        line[line.index("error in the") :]
        for line in text.splitlines()
        if f"error in the {part}: KeyError: 'boom'" in line and line.endswith(ISSUES)
    }
    assert f"; a fault of pytest-gpuperf: please report this line at {ISSUES}" in line


METHODS = {
    name: kind
    for kind in reversed(LiveRunner.__mro__)
    for name, value in vars(kind).items()
    if kind.__module__.startswith("pytest_gpuperf")
    and (inspect.isfunction(value) or isinstance(value, property))
    and name not in ("__init__", "guarded")
}


@pytest.mark.parametrize("name", METHODS)
def test_no_method_of_a_run_ends_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind = METHODS[name]
    monkeypatch.setattr(kind, name, property(broken) if isinstance(vars(kind)[name], property) else broken)
    pytester.makepyfile(test_k=TESTS)
    result = pytester.runpytest("--gpuperf")
    text = result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in text
    assert result.parseoutcomes()["passed"] >= 1
    assert ISSUES in text or result.ret or result.parseoutcomes() == {"passed": 2}


def test_errors_of_the_callable_are_no_fault_of_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.trace(int, 'x')\n")
    pytester.makeconftest(
        """
        import pytest_gpuperf.measure.trace.capture as module
        module.capture = lambda call, path: call()
        """
    )
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(failed=1)
    assert ISSUES not in result.stdout.str()
    result.stdout.fnmatch_lines(["E*ValueError: invalid literal for int() with base 10: 'x'"])


def test_trace_that_failed_fails_the_test_that_reads_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_gpuperf.measure.trace.capture.capture", broken)
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    assert gpuperf.trace(len, 'x').copies == 0\n")
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*Failed: gpuperf: error in the trace: KeyError*"])


@pytest.mark.parametrize("insists", [True, False])
def test_failed_counters_fail_a_test_only_if_they_were_asked_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, insists: bool
) -> None:
    monkeypatch.setattr(PARTS["counters"].name, broken)
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.profile(len, 'x')\n")
    result = pytester.runpytest("--gpuperf", *["--gpuperf-counters=cupti"] * insists)
    result.assert_outcomes(failed=insists, passed=not insists)
