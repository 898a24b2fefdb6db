"""The sanitizing pass with a fake compute-sanitizer and no GPU."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest

import fake_sanitizer
from forked import fork_children
from pass_progress import no_progress
from pytest_gpuperf.features.sanitizer import sanitizing_pass
from pytest_gpuperf.features.sanitizer.sanitizing_pass import LOG_BYTES, SanitizingPass
from pytest_gpuperf.features.sanitizer.tool import Sanitizer
from pytest_gpuperf.processes import children
from pytest_gpuperf.records.passes import Invocation, PassFolder, SelectedTest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_gpuperf.records import SanitizerHit

IMPORTS = "import os, pytest\nfrom functools import partial\nfrom kernels import *\n"


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    fork_children(monkeypatch.setattr)


def run(
    pytester: pytest.Pytester,
    source: str,
    *tests: str,
    tool: str = "memcheck",
    behaviour: fake_sanitizer.Behaviour = "reports",
    log_bytes: int = LOG_BYTES,
) -> SanitizingPass:
    project = pytester.path
    fake_sanitizer.make_project(project)
    (project / "test_k.py").write_text(IMPORTS + textwrap.dedent(source))
    sanitizer = Sanitizer(fake_sanitizer.install(project, behaviour), "2025.3.1.0")
    done = SanitizingPass(folder(project), sanitizer, tool, log_bytes)
    selected = [SelectedTest(f"test_k.py::{test}") for test in tests]
    arguments = ["--gpuperf", f"--gpuperf-sanitize={tool}"]
    done.run(selected, Invocation(arguments, project, project), no_progress)
    return done


def folder(project: Path) -> Path:
    return project / ".gpuperf" / "runs" / "1" / "sanitizer"


def processes(project: Path) -> int:
    return len(list(folder(project).iterdir()))


def hits(done: SanitizingPass, test: str) -> tuple[SanitizerHit, ...]:
    return done.results[f"test_k.py::{test}"].hits


def counts(done: SanitizingPass) -> dict[str, int]:
    checked = {nodeid: result for nodeid, result in done.results.items() if not result.unchecked}
    return {nodeid.partition("::")[2]: result.count for nodeid, result in checked.items()}


def unchecked(done: SanitizingPass, test: str) -> str:
    return done.results[f"test_k.py::{test}"].unchecked


THREE = """
def test_before(gpuperf):
    gpuperf.time(print)

def test_wrong(gpuperf):
    gpuperf.check(print, expected=print)
    gpuperf.time(partial(report, "scale", threads=2), label="scaled")

def test_after(gpuperf):
    gpuperf.profile(print)
"""
NAMES = ("test_before", "test_wrong", "test_after")


def test_error_belongs_to_the_launching_call(pytester: pytest.Pytester) -> None:
    done = run(pytester, THREE, *NAMES)
    assert counts(done) == {"test_before": 0, "test_wrong": 2, "test_after": 0}
    (hit,) = hits(done, "test_wrong")
    assert (hit.kernel, hit.places, hit.label, hit.count) == ("scale", ("k.py:12",), "scaled", 2)
    assert (hit.block, hit.threads, hit.address) == ((3, 0, 0), ((0, 0, 0),), "0x7f8c2a000190")
    assert (done.skipped, done.problems) == ({}, [])
    assert done.summary == "compute-sanitizer 2025.3.1.0 (memcheck): 2 without errors, 1 with errors"
    assert processes(pytester.path) == 1


def test_every_call_runs_its_callable_once(pytester: pytest.Pytester) -> None:
    calls = {"check": "(f, expected=f)", "warm_up": "(f)", "time": "(f)", "profile": "(f)"}
    source = [f"def test_{name}(gpuperf): gpuperf.{name}{given}\n" for name, given in calls.items()]
    tests = [f"test_{name}" for name in calls]
    done = run(pytester, "f = partial(report, 'scale')\n" + "".join(source), *tests)
    assert counts(done) == dict.fromkeys(tests, 1)


def test_launches_of_fixtures_belong_to_the_test(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
        @pytest.fixture
        def data():
            report("fill")
            yield
            report("free")

        def test_wrong(gpuperf, data):
            gpuperf.time(print)
            report("own")

        def test_after(gpuperf):
            gpuperf.time(print)
        """,
        "test_wrong",
        "test_after",
    )
    kernels = [(hit.kernel, hit.label) for hit in hits(done, "test_wrong")]
    assert kernels == [("fill", ""), ("own", ""), ("free", "")]
    assert counts(done)["test_after"] == 0


def test_crash_belongs_to_its_test_and_others_run(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        THREE + "\ndef test_crash(gpuperf):\n    gpuperf.time(lambda: os.kill(os.getpid(), 11))\n"
        "\ndef test_last(gpuperf):\n    gpuperf.time(partial(report, 'late'))\n",
        *NAMES,
        "test_crash",
        "test_last",
    )
    assert counts(done) == {"test_before": 0, "test_wrong": 2, "test_after": 0, "test_last": 1}
    assert unchecked(done, "test_crash") == (
        "the process ended with exit status 255 in it; see .gpuperf/runs/1/sanitizer/1/pytest.log"
    )
    assert processes(pytester.path) == 2


def test_kernel_that_ends_the_context_is_reported_once(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
        def wrong():
            report("scale")
            end_context()

        def test_wrong(gpuperf):
            gpuperf.time(wrong)

        def test_wrong_at_its_end(gpuperf):
            wrong()

        def test_ends_silently(gpuperf):
            gpuperf.time(end_context)

        def test_last(gpuperf):
            gpuperf.time(print)
        """,
        *("test_wrong", "test_wrong_at_its_end", "test_ends_silently", "test_last"),
    )
    assert counts(done) == {"test_wrong": 1, "test_wrong_at_its_end": 1, "test_last": 0}
    assert unchecked(done, "test_ends_silently").startswith(
        "it ended the CUDA context: CUDA error: an illegal memory access was encountered; see"
    )
    assert processes(pytester.path) == 4


def test_test_with_endless_errors_is_ended(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
        import time

        def test_wrong(gpuperf):
            def f():
                while True:
                    report("scale", threads=100)
                    time.sleep(0.01)
            gpuperf.time(f)

        def test_after(gpuperf):
            gpuperf.time(print)
        """,
        *("test_wrong", "test_after"),
        log_bytes=100_000,
    )
    assert done.results["test_k.py::test_wrong"].cut
    assert hits(done, "test_wrong")[0].count > 300
    assert counts(done)["test_after"] == 0


def test_full_log_blames_no_later_test(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    first = PassFolder(folder(pytester.path) / "1")

    def run_child(*command: Any, poll: Callable[[], None], **given: Any) -> int:
        def poll_in_the_later_test() -> None:
            if any("test_slow" in event.nodeid and event.range for event in first.events()):
                poll()

        return children.run_child(*command, poll=poll_in_the_later_test, **given)

    monkeypatch.setattr(sanitizing_pass, "run_child", run_child)
    done = run(
        pytester,
        """
        import time

        def test_wrong(gpuperf):
            gpuperf.time(partial(report, "scale", threads=1000))

        def test_slow(gpuperf):
            with open(os.environ["GPUPERF_SANITIZING_PASS"] + "/plan.json") as plan:
                gpuperf.time(partial(time.sleep, 60 if "test_wrong" in plan.read() else 0))
        """,
        *("test_wrong", "test_slow"),
        log_bytes=100_000,
    )
    assert counts(done) == {"test_wrong": 1000, "test_slow": 0}
    assert not done.results["test_k.py::test_wrong"].cut


@pytest.mark.parametrize("behaviour", ["loses marks", "loses all but the first mark"])
def test_lost_marks_make_tests_run_one_by_one(
    pytester: pytest.Pytester, behaviour: fake_sanitizer.Behaviour
) -> None:
    done = run(pytester, THREE, *NAMES, behaviour=behaviour)
    assert counts(done)["test_wrong"] == 2
    assert not any(counts(done).get(test) for test in ("test_before", "test_after"))
    assert processes(pytester.path) > 1


def test_blind_tool_finds_no_test_clean(pytester: pytest.Pytester) -> None:
    done = run(pytester, THREE, *NAMES, behaviour="sees nothing")
    assert done.results == {}
    assert done.problems == [
        "it reported not even the error that was planted before the first test; see "
        ".gpuperf/runs/1/sanitizer/1/pytest.log"
    ]


def test_a_process_that_ends_before_any_test_says_why(pytester: pytest.Pytester) -> None:
    done = run(pytester, "os._exit(3)\n", "test_k")
    assert done.problems == [
        "the process ended with exit status 3 before any test; see .gpuperf/runs/1/sanitizer/1/pytest.log"
    ]


def test_test_that_ends_early_is_not_checked(pytester: pytest.Pytester) -> None:
    done = run(
        pytester,
        """
        def test_fails(gpuperf):
            assert len(gpuperf.profile(print).kernels) == 7

        def test_skips(gpuperf):
            pytest.skip("no time")

        @pytest.mark.skip("not today")
        def test_skipped(gpuperf): pass
        """,
        *("test_fails", "test_skips", "test_skipped", "test_of_another_file"),
    )
    assert unchecked(done, "test_fails").startswith("its call ended with AssertionError: assert 1 == 7; see")
    skipped = {nodeid.partition("::")[2]: result.unchecked for nodeid, result in done.skipped.items()}
    assert skipped["test_skips"].startswith("its call ended with Skipped: no time; see")
    assert skipped["test_skipped"].startswith("its setup ended with Skipped: not today; see")
    assert done.summary == "compute-sanitizer 2025.3.1.0 (memcheck): 2 not checked, 2 skipped"
    assert unchecked(done, "test_of_another_file").startswith("the process ended with exit status 1 without")
    assert processes(pytester.path) == 1


def test_errors_before_the_first_test_belong_to_the_run(pytester: pytest.Pytester) -> None:
    done = run(pytester, "report('scale')\ndef test_k(gpuperf): pass\n", "test_k")
    assert counts(done) == {"test_k": 0}
    (problem,) = done.problems
    assert problem.startswith(
        "outside of all tests: memcheck: Invalid __global__ write of size 4 bytes in scale"
    )


def test_number_of_processes_is_limited(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizing_pass, "PROCESSES", 2)
    source = "@pytest.mark.parametrize('n', range(3))\ndef test_k(gpuperf, n):\n    os._exit(3)\n"
    done = run(pytester, source, "test_k[0]", "test_k[1]", "test_k[2]")
    assert unchecked(done, "test_k[1]").startswith("the process ended with exit status 3 in it; see")
    assert unchecked(done, "test_k[2]") == "2 processes under compute-sanitizer ended before its turn"
