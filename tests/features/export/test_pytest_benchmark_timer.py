"""pytest-benchmark with GPU times."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from pytest_gpuperf.features.export import pytest_benchmark_timer
from pytest_gpuperf.features.export.pytest_benchmark_timer import gpu_clock
from pytest_gpuperf.measure.device import originals
from pytest_gpuperf.measure.timing.graph import SLEEP_CYCLES_PER_US
from run_results import expect

EVENT_US = 1.0


@dataclass
class FakeGpu:
    """Timeline of one stream; each event takes a microsecond."""

    now_us: float = 0.0
    device: int = 0

    def work(self, microseconds: float) -> None:
        self.now_us += microseconds


class FakeEvent:
    def __init__(self, gpu: FakeGpu) -> None:
        self._gpu = gpu
        self.device = gpu.device

    def record(self) -> None:
        self._gpu.work(EVENT_US)
        self.at_us = self._gpu.now_us

    def elapsed_us(self, end: FakeEvent) -> float:
        assert self.device == end.device
        milliseconds = struct.pack("f", (end.at_us - self.at_us) / 1e3)
        return 1e3 * float(struct.unpack("f", milliseconds)[0])


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    fake = FakeGpu()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(originals, "synchronize", lambda: None)
    monkeypatch.setattr(originals, "event", lambda: FakeEvent(fake))
    monkeypatch.setattr(originals, "record", lambda event: event.record())
    monkeypatch.setattr(originals, "elapsed_us", lambda start, end: start.elapsed_us(end))
    for owner, name in ((originals, "sleep_on_gpu"), (torch.cuda, "_sleep")):
        monkeypatch.setattr(owner, name, lambda cycles: fake.work(cycles / SLEEP_CYCLES_PER_US))
    monkeypatch.setattr(pytest_benchmark_timer, "_CLOCK", pytest_benchmark_timer._Clock())
    return fake


def test_clock_counts_gpu_work_between_readings(gpu: FakeGpu) -> None:
    start = gpu_clock()
    gpu.work(250)
    assert gpu_clock() - start == pytest.approx((250 + EVENT_US) * 1e-6)


def test_short_times_stay_exact_after_hours(gpu: FakeGpu) -> None:
    gpu_clock()
    gpu.work(1e10)
    start = gpu_clock()
    gpu.work(5)
    assert gpu_clock() - start == pytest.approx((5 + EVENT_US) * 1e-6, rel=1e-3)


def test_clock_survives_a_change_of_device(gpu: FakeGpu) -> None:
    gpu_clock()
    gpu.device = 1
    start = gpu_clock()
    gpu.work(250)
    assert gpu_clock() - start == pytest.approx((250 + EVENT_US) * 1e-6)


def test_importing_the_timer_loads_no_torch() -> None:
    code = "import sys, pytest_gpuperf.features.export.pytest_benchmark_timer; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


MARKED = """
    import pytest, torch

    @pytest.mark.gpuperf(benchmark=True)
    def test_k(benchmark):
        benchmark(torch.cuda._sleep, 10_000)
"""


class Suite:
    """Return a function that runs tests with pytest-benchmark and the marker."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester

    def run(self, test: str, *args: str) -> pytest.RunResult:
        self._pytester.makepyfile(test)
        return self._pytester.runpytest("-p", "benchmark", "--benchmark-json=out.json", "-rs", *args)

    def benchmark(self, test: str) -> dict[str, Any]:
        result = self.run(test, "--gpuperf")
        result.assert_outcomes(passed=1)
        assert result.ret == pytest.ExitCode.OK
        (one,) = json.loads((self._pytester.path / "out.json").read_text())["benchmarks"]
        return dict(one)


@pytest.fixture
def suite(pytester: pytest.Pytester, replay: None, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> Suite:
    pytest.importorskip("pytest_benchmark")
    # In the inner run of a pytest-xdist worker, pytest-benchmark would disable itself.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setattr("pytest_gpuperf.session.live_runner.why_not_live", lambda: "")
    return Suite(pytester)


def test_a_marked_test_is_timed_by_the_gpu(suite: Suite) -> None:
    one = suite.benchmark(MARKED)
    assert one["options"]["timer"] == "gpu_clock"
    # 10,000 cycles are 5 µs; a round of 0.1 ms shares one event.
    assert one["stats"]["median"] == pytest.approx(5e-6, rel=0.02)


def test_own_options_are_kept_except_for_the_timer(suite: Suite) -> None:
    one = suite.benchmark(
        """
        import time

        import pytest, torch

        pytestmark = pytest.mark.gpuperf(benchmark=True)

        @pytest.mark.benchmark(group="mine", max_time=0.01, timer=time.process_time)
        def test_k(benchmark):
            benchmark(torch.cuda._sleep, 10_000)
        """
    )
    assert (one["group"], one["options"]["max_time"]) == ("mine", 0.01)
    assert (one["options"]["timer"], one["options"]["min_time"]) == ("gpu_clock", 1e-4)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [([], "; run pytest with --gpuperf"), (["--gpuperf"], ", and torch sees no CUDA GPU")],
)
def test_without_flag_or_gpu_a_marked_test_is_skipped(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, arguments: list[str], why: str
) -> None:
    monkeypatch.setattr("pytest_gpuperf.session.live_runner.why_not_live", lambda: "torch sees no CUDA GPU")
    expect(suite.run(MARKED, *arguments), f"SKIPPED*is timed by the GPU{why}", skipped=1)


def test_a_replay_skips_a_marked_test(suite: Suite) -> None:
    recorded = "\n    def test_recorded(gpuperf): gpuperf._keep('main')\n"
    result = suite.run(
        MARKED + recorded,
        "--gpuperf",
        "--gpuperf-replay=baselines/nvidia-h200/recordings/20261120-173012-3f9a.json",
    )
    expect(result, "SKIPPED*a replay launches nothing", passed=1, skipped=1)


def test_marker_of_a_benchmark_is_no_warning(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def benchmark(): pass

        @pytest.mark.gpuperf(benchmark=True)
        def test_func(benchmark): pass
        """
    )
    assert "has no effect" not in pytester.runpytest("--gpuperf").stdout.str()
