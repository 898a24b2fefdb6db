"""The child pytest under a fake ncu, with a fake torch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import fake_ncu
from pass_progress import no_progress
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.ncu.tool import find_ncu
from pytest_gpuperf.records.call import Call, Selection
from pytest_gpuperf.records.passes import Invocation, PassFolder, SelectedTest

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """
class cuda:
    class nvtx:
        range_start = range_end = staticmethod(lambda _: 0)
    class cudart:
        cudaProfilerStart = cudaProfilerStop = staticmethod(lambda: None)
    error = ""

    @classmethod
    def synchronize(cls):
        if cls.error:
            raise RuntimeError(cls.error)

    is_initialized = staticmethod(lambda: True)
"""


def folder(project: Path) -> PassFolder:
    return PassFolder(project / ".gpuperf" / "runs" / "1" / "ncu")


def run(project: Path, *arguments: str, tests: tuple[str, ...] = ("test_k",)) -> ProfilingPass:
    (project / "torch.py").write_text(TORCH)
    done = ProfilingPass(folder(project), find_ncu(str(fake_ncu.install(project, "runs the program"))))
    selected = [SelectedTest(f"test_k.py::{test}") for test in tests]
    done.run(selected, Invocation(["--gpuperf", *arguments], project, project), no_progress)
    return done


def profiled(project: Path) -> list[str]:
    return [f"{event.nodeid} {event.label}" for event in folder(project).events() if event.range]


def why_not(done: ProfilingPass, test: str, label: str) -> str:
    with pytest.raises(GpuperfError) as raised:
        done.lookup(Call(f"test_k.py::{test}", label, print), Selection(), ())
    return str(raised.value)


def test_no_plugin_is_asked_for_a_header(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_report_header():\n    open('header', 'w')")
    pytester.makepyfile(test_k="def test_k(gpuperf): gpuperf.profile(print)")
    run(pytester.path)
    assert profiled(pytester.path) == ["test_k.py::test_k main"]
    assert not (pytester.path / "header").exists()


def test_values_read_between_calls_do_not_end_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="""
        def test_k(gpuperf):
            timing = gpuperf.time(print, bytes=8)
            assert timing.time_us < 100 and 2 * timing.gb_per_s >= 1e9
            assert gpuperf.warm_up(print).steady
            a = gpuperf.profile(print, label="a")
            assert not a.unavailable
            b = gpuperf.profile(print, label="b")
            assert a.combined["duration_us"] < b.combined["duration_us"]
            assert a.combined["duration_us"] / b.combined["duration_us"] > 5
            assert a.kernels[0].metrics["dram__bytes.sum"] == 4096
            assert a.combined["occupancy_limiter"] == "warps", f"{a.combined['waves']:.1f}"
            gpuperf.profile(print, label="c")
        """
    )
    run(pytester.path)
    assert profiled(pytester.path) == [f"test_k.py::test_k {label}" for label in "abc"]


def test_unreached_call_explains_why(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="""
        import os
        import unittest
        import pytest

        @pytest.fixture
        def broken():
            raise ValueError("no weights\\nat all")

        def test_broken(gpuperf, broken): pass

        @pytest.mark.skip("not today")
        def test_skipped(gpuperf): pass

        def test_skips(gpuperf): pytest.skip("no time")

        def test_fails(gpuperf): assert len(gpuperf.profile(print).kernels) == 7

        @pytest.mark.usefixtures("gpuperf")
        class TestK(unittest.TestCase):
            def test_k(self): self.fail("on purpose")

        def test_passes(gpuperf): pass

        def test_exits(gpuperf): os._exit(3)
        """
    )
    reasons = {
        "test_broken": "its setup ended with ValueError: no weights; expected",
        "test_skipped": "its setup ended with Skipped: not today; expected",
        "test_skips": "its call ended with Skipped: no time; expected",
        "test_fails": "its call ended with AssertionError: assert 1 == 7; expected",
        "TestK::test_k": "its call ended with AssertionError: on purpose; expected",
        "test_passes": "the test ended without this call; expected",
        "test_exits": "the process ended with exit status 3 in it; expected",
    }
    done = run(pytester.path, tests=tuple(reasons))
    for test, reason in reasons.items():
        message = why_not(done, test, "later")
        assert f"the run under ncu did not profile print (later): {reason}" in message
        assert re.search(r"see \.gpuperf/runs/1/ncu/(\d/)?pytest\.log$", message)


def test_run_without_tests_makes_all_counters_unavailable(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf): pass")
    pytester.makeconftest("import os\n\ndef pytest_sessionstart():\n    os._exit(3)\n")
    assert run(pytester.path).unavailable == (
        "the run under ncu ended with exit status 3 before any test had run; see "
        ".gpuperf/runs/1/ncu/pytest.log"
    )


def test_run_without_profiles_is_not_unavailable(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k="def test_k(gpu_timer):\n    gpu_timer(print)\n")
    assert run(pytester.path).unavailable == ""


def test_options_that_stop_or_write_have_no_effect(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="""
        def test_fails(gpuperf):
            assert False

        def test_k(gpuperf):
            gpuperf.profile(print)
        """
    )
    run(
        pytester.path,
        *("-x", "--pdb", "--trace", "--stepwise", "--junitxml=out/x.xml", "--log-file=out/x.log"),
        *("--gpuperf-update=all", "--color=yes"),
        tests=("test_fails", "test_k"),
    )
    assert profiled(pytester.path) == ["test_k.py::test_k main"]
    assert not (pytester.path / "out").exists()
    assert not (pytester.path / "baselines").exists()
    assert "\x1b[" not in folder(pytester.path).child_log.read_text()


def test_range_names_are_plain_and_unique(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="""
        def test_k(gpuperf):
            for label in ("größe", "grüße", 'a"b', "a\\nb"):
                gpuperf.profile(print, label=label)
        """
    )
    run(pytester.path)
    assert [event.range for event in folder(pytester.path).events() if event.range] == [
        "gpuperf:1:test_k.py::test_k#gr??e",
        "gpuperf:2:test_k.py::test_k#gr??e",
        "gpuperf:3:test_k.py::test_k#a?b",
        "gpuperf:4:test_k.py::test_k#a?b",
    ]


def test_tests_after_a_crash_are_profiled(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_k="""
        import os, time
        import torch

        def test_before(gpuperf): gpuperf.profile(print)

        def test_exits(gpuperf): os._exit(3)

        def test_breaks(gpuperf):
            torch.cuda.error = "CUDA error: an illegal memory access was encountered"

        def test_hangs(gpuperf): time.sleep(60)

        def test_after(gpuperf): gpuperf.profile(print)
        """
    )
    tests = ("test_before", "test_exits", "test_breaks", "test_hangs", "test_after")
    done = run(pytester.path, "--gpuperf-timeout=0.1", tests=tests)
    assert "the process ended with exit status 3 in it" in why_not(done, "test_exits", "main")
    assert "its call ended with Failed: gpuperf: a kernel broke the GPU: CUDA error: an illegal" in why_not(
        done, "test_breaks", "main"
    )
    assert "it took too long (--gpuperf-timeout)" in why_not(done, "test_hangs", "main")
    assert not done.unavailable
    for test in ("test_before", "test_after"):
        assert "did not profile" not in why_not(done, test, "main")
