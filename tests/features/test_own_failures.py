"""Errors of the plugin itself: each hook and each step raises in turn, and the run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn

import pytest

# pytester unloads what a run imports: a module is replaced only if it was loaded before.
import pytest_gpuperf.features.export.pytest_benchmark_timer
import pytest_gpuperf.features.export.verdict_json
import pytest_gpuperf.features.github.annotations
import pytest_gpuperf.features.github.step_summary
import pytest_gpuperf.features.page.page
import pytest_gpuperf.features.trace.capture
import pytest_gpuperf.measure.device.conditions
import pytest_gpuperf.plugin.hooks
import pytest_gpuperf.plugin.late_reports
import pytest_gpuperf.plugin.process_isolation  # noqa: F401
from pytest_gpuperf.measure.device.gpu_lock import HELD_ENV
from pytest_gpuperf.plugin.internal_errors import ISSUES
from pytest_gpuperf.records import Correctness, Trace
from run_builders import H200, one_test, profile, timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_gpuperf.records import Conditions, Timing

LIVE = "pytest_gpuperf.session.live_runner"
TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.gpuperf(limits=["memory_throughput >= 60"])
def test_k(gpuperf):
    gpuperf.check(len, "ab", expected=len)
    gpuperf.time(len, "ab")
    gpuperf.profile(len, "ab")
    gpuperf.trace(len, "ab")
"""


def broken(*_: object, **__: object) -> NoReturn:
    raise KeyError("boom")


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
        f"{LIVE}.Against.of": lambda _: None,
        f"{LIVE}.LiveRunner._sanitizing_pass": lambda *_: None,
        "pytest_gpuperf.measure.correctness.check": lambda *_, **__: Correctness(passed=True),
        "pytest_gpuperf.measure.counters.cupti_counters.CuptiCounters.lookup": lambda *_: found,
        "pytest_gpuperf.measure.cupti.range_profiler.why_no_range_profiler": lambda: "",
        "pytest_gpuperf.measure.device.environment.environment": lambda *_: one_test().environment,
        "pytest_gpuperf.measure.device.gpu_identity.gpu_info": lambda: H200,
        "pytest_gpuperf.measure.timing.timer.Timer": FakeTimer,
        "pytest_gpuperf.features.trace.capture.capture": lambda *_: Trace(),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(name, fake)
    monkeypatch.setenv(HELD_ENV, H200.uuid)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "x.md")


class Broken(NamedTuple):
    """A function that raises, and the end of the run."""

    name: str
    place: str
    """The hook in the line."""
    ends: dict[str, int] = {"passed": 2}
    status: int = 0
    arguments: tuple[str, ...] = ()
    has_run: bool = True
    """True if the run file is there."""


COLLECTION, LOOP = "pytest_collection_modifyitems", "pytest_runtestloop"
SETUP, CALL, FINISH = "pytest_runtest_setup", "pytest_runtest_call", "pytest_sessionfinish"
FAILED, ERROR = {"passed": 1, "failed": 1}, {"passed": 1, "errors": 1}
EACH = [
    Broken("pytest_gpuperf.plugin.process_isolation.isolate", "pytest_load_initial_conftests"),
    Broken("pytest_gpuperf.settings.settings.Settings.from_config", "pytest_configure", {}, 4, has_run=False),
    Broken("pytest_gpuperf.plugin.hooks.start_runner", COLLECTION, ERROR, 1, has_run=False),
    Broken("pytest_gpuperf.session.judge.Judge.guards", COLLECTION, ERROR, 1, has_run=False),
    Broken("pytest_gpuperf.session.progress.Display.wait_for", LOOP),
    Broken(f"{LIVE}.LiveRunner._run_all", LOOP),
    Broken(f"{LIVE}.LiveRunner._run_all", LOOP, status=4, arguments=("--gpuperf-sanitize=memcheck",)),
    Broken(f"{LIVE}.Settler", LOOP),
    Broken("pytest_gpuperf.session.seeds.seed_of", SETUP, ERROR, 1, has_run=False),
    Broken("pytest_gpuperf.session.judge.judge", CALL, FAILED, 1),
    Broken("pytest_gpuperf.plugin.hooks.properties", CALL, FAILED, 1),
    *(
        Broken(f"pytest_gpuperf.{name}", "a measurement", FAILED, 1)
        for name in (
            "session.live_source.LiveSource.code",
            "measure.device.conditions.Nvml.conditions",
            "measure.counters.cupti_counters.CuptiCounters.lookup",
            "features.trace.capture.capture",
        )
    ),
    Broken("pytest_gpuperf.session.run_report.RunStore.write", FINISH, has_run=False),
    Broken("pytest_gpuperf.session.run_report.find_old", FINISH),
    Broken("pytest_gpuperf.session.run_report.accept", FINISH, status=4, arguments=("--gpuperf-update=new",)),
    Broken("pytest_gpuperf.features.github.step_summary.write_markdown", FINISH),
    Broken("pytest_gpuperf.features.page.page.page_pieces", FINISH, arguments=("--gpuperf-html=r.html",)),
    Broken(
        "pytest_gpuperf.features.export.verdict_json.write_verdicts",
        FINISH,
        arguments=("--gpuperf-json=v.json",),
    ),
    Broken(f"{LIVE}.LiveRunner.end", FINISH),
    Broken("pytest_gpuperf.report.terminal_summary.publish", "pytest_terminal_summary"),
    Broken("pytest_gpuperf.features.github.annotations.error_annotations", "pytest_terminal_summary"),
]


@pytest.mark.parametrize("each", EACH, ids=lambda each: " ".join((each.name, *each.arguments)))
def test_own_error_is_one_line_and_the_run_goes_on(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, each: Broken
) -> None:
    pytester.makepyfile(test_k=TESTS)
    monkeypatch.setattr(each.name, broken)
    result = pytester.runpytest("--gpuperf", *each.arguments)
    assert result.ret == each.status
    text = result.stdout.str() + result.stderr.str()
    if each.ends:
        result.assert_outcomes(**each.ends)
        assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    told = {line[line.index("gpuperf: ") :] for line in text.splitlines() if line.endswith(ISSUES)}
    (line,) = told
    assert line.startswith(f"gpuperf: internal error in {each.place}: KeyError: 'boom'")
    assert bool(list(pytester.path.glob(".gpuperf/runs/*/run.json"))) == each.has_run


@pytest.mark.parametrize(
    ("call", "error", "shown"),
    [
        ("trace", "CUDA error: an illegal memory access", "E*Error: CUDA error: an illegal*"),
        ("trace", "CUDA out of memory. Tried to allocate 9 GiB", "E*gpuperf: a check holds copies*"),
        ("check", "", "E*Error: *missing 1 required *"),
    ],
)
def test_errors_of_the_user_are_no_fault_of_the_plugin(
    pytester: pytest.Pytester, call: str, error: str, shown: str
) -> None:
    pytester.makepyfile(
        test_k=f"""
        def kernel(): raise RuntimeError({error!r})

        def test_k(gpuperf): gpuperf.{call}(kernel)
        """
    )
    pytester.makeconftest(
        """
        import pytest_gpuperf.features.trace.capture as module
        module.capture = lambda call, path: call()
        """
    )
    result = pytester.runpytest("--gpuperf")
    result.assert_outcomes(failed=1)
    assert ISSUES not in result.stdout.str()
    result.stdout.fnmatch_lines([shown])
