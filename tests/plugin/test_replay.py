"""`pytest --gpuperf` without a GPU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from present import present
from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.records import AgainstTiming, Correctness, GpuInfo, Measurement, Profile, Settlement
from pytest_gpuperf.records.run_store import encode_run
from pytest_gpuperf.session.replay_runner import LONGEST_REASON
from pytest_gpuperf.session.runner import RUNNER
from run_builders import H200, in_turn, measured, profile, record, run, timing
from run_results import expect, expect_usage_error

if TYPE_CHECKING:
    from pytest_gpuperf.records import Run, TestRecord
    from runs_of_pytest import AddRecording

SQUARE = """
import torch

def test_k(gpuperf):
    x = torch.ones(1000, 3, device=gpuperf.device)
    assert x.device.type == "meta"
    got = gpuperf(boom, x, expected=boom, bytes=2 * x.nbytes)
    assert got.timing.time_us == 5.3

def boom(x):
    raise AssertionError("nothing is launched in a replay")
"""


@pytest.fixture(autouse=True)
def _square(pytester: pytest.Pytester) -> None:
    """Make a suite, which a test may replace."""
    pytester.makepyfile(test_k=SQUARE)


def of_square(time_us: float = 5.3, day: int = 20, **given: Any) -> Run:
    """Return a run of SQUARE on a day of November."""
    main = measured(time_us, {"memory_throughput": 77.0})
    name, started_at = f"202611{day}-120000-aaaa", f"2026-11-{day}T12:00:00Z"
    return run(record("test_k.py::test_k", main=main), id=name, started_at=started_at, **given)


def of_driver(driver: str, test: TestRecord, day: int) -> Run:
    made = replace(of_square(day=day), tests=(test,))
    toolchain = replace(made.environment.toolchain, driver=driver)
    return replace(made, environment=replace(made.environment, toolchain=toolchain))


def test_newest_recording_is_judged_and_marked_as_replayed(pytester: pytest.Pytester, replay: None) -> None:
    result = pytester.runpytest("--gpuperf", "-v")
    expect(result, "*replayed from NVIDIA H200*c0ffee1*2026-11-20*", passed=1)
    words = " ".join(result.stdout.str().split())
    assert "gpuperf baseline accept baselines/nvidia-h200/recordings/20261120-173012-3f9a.json" in words
    # The rate is that of the current test: 2 * 12,000 bytes in 5.3 µs.
    result.stdout.fnmatch_lines(["test_k*5.30 µs*4.53 GB/s*new"])


def test_time_is_compared_with_its_own_card(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    on_first = of_square()
    other = record("test_other.py::test_k", main=measured(5.3))
    on_second = run(other, id="20261121-120000-aaaa", gpu=replace(H200, uuid="GPU-2"))
    for recorded in (on_first, replace(on_second, started_at="2026-11-21T12:00:00Z")):
        add_recording(recorded)
    accept(on_first, BaselineStore(pytester.path / "baselines"), "all", 0.0)
    *_, called, _ = pytester.inline_run("--gpuperf").getreports("pytest_runtest_logreport")
    # A new card has 1.0 %.
    assert float(str(dict(called.user_properties)["gpuperf.main.change_high_pct"])) < 0.8


def test_time_is_compared_by_the_versions_of_its_own_recording(
    pytester: pytest.Pytester, add_recording: AddRecording
) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf): gpuperf.time(print)")
    stored = of_driver("580", record("test_k.py::test_k", main=measured(5.3)), day=18)
    accept(stored, BaselineStore(pytester.path / "baselines"), "all", 0.0)
    alike = in_turn(measured(5.4), 0.0, 1e-4, sessions=(stored.id,))
    add_recording(of_driver("580", record("test_k.py::test_k", main=alike), day=19))
    add_recording(of_driver("590", record("test_other.py::test_k", main=measured(5.3)), day=20))
    result = pytester.runpytest("--gpuperf", "--gpuperf-strict")
    expect(result, "*nothing that is known differs from the baseline*", failed=1)


def test_model_to_replay_can_be_chosen(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    other = replace(H200, name="NVIDIA H100", slug="nvidia-h100")
    add_recording(of_square())
    add_recording(of_square(9.9, 21, gpu=other))
    pytester.runpytest("--gpuperf").assert_outcomes(failed=1)
    pytester.runpytest("--gpuperf", "-ogpuperf_replay_gpu=nvidia-h200").assert_outcomes(passed=1)
    result = pytester.runpytest("--gpuperf", "-ogpuperf_replay_gpu=nvidia-t4")
    assert "there is no recording of 'nvidia-t4'; expected one of nvidia-h100, nvidia-h200" in (
        result.stdout.str() + result.stderr.str()
    )


def test_failure_and_header_name_the_recording_of_their_test(
    pytester: pytest.Pytester, add_recording: AddRecording
) -> None:
    for name, day, test in (("old", "20", "test_k"), ("new", "21", "test_other")):
        kept = record(f"test_k.py::{test}", main=measured(9.0, {"memory_throughput": 77.0}))
        add_recording(run(kept, id=name, started_at=f"2026-11-{day}"))
    before = run(record("test_k.py::test_k", main=measured(9.0, {"memory_throughput": 97.0})))
    accept(before, BaselineStore(pytester.path / "baselines"), "all", 0.0)
    pytester.makepyfile(test_k="def test_k(gpuperf): gpuperf.profile(print)")
    result = pytester.runpytest("--gpuperf", "-v")
    step = "*gpuperf baseline accept baselines/nvidia-h200/recordings/old.json"
    result.stdout.fnmatch_lines([step, "replayed from NVIDIA H200, *, 2026-11-20"])
    result.stdout.no_fnmatch_line("*the newest of 2*")
    pytester.makepyfile(
        test_k="def test_k(gpuperf): gpuperf.profile(print)\ndef test_other(gpuperf): gpuperf.profile(print)"
    )
    both = pytester.runpytest("--gpuperf").stdout
    both.fnmatch_lines(["replayed from NVIDIA H200, *, 2026-11-21", "*each test is of the newest of 2*"])


def test_missing_counters_fail_no_test(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    why = ".gpuperf/runs/a/ncu/{}/pytest.log has the reason"
    kept = replace(measured(None), profile=Profile(unavailable=why.format(1)))
    recorded = run(record("test_k.py::test_k", main=kept))
    add_recording(replace(recorded, counters_unavailable=why.format(0)))
    pytester.makepyfile(test_k="def test_k(gpuperf): gpuperf.profile(print)")
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


def test_test_without_recording_is_skipped_with_a_next_step(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_other=SQUARE)
    result = pytester.runpytest("--gpuperf", "-rs", "test_other.py")
    result.assert_outcomes(skipped=1)
    reason = "not recorded on NVIDIA H200; `gpuperf record` adds it after a run on that GPU"
    assert len(reason) <= LONGEST_REASON
    result.stdout.fnmatch_lines([f"SKIPPED*: {reason}"])


@pytest.mark.parametrize(
    ("call", "arguments", "said"),
    [
        ("time(print)", [], "*there is no recording below /*/baselines/ to replay instead*gpuperf record*"),
        (
            "profile(print)",
            ["--gpuperf-replay=never"],
            "*--gpuperf-replay=never forbids a replay*expected a CUDA GPU*",
        ),
        ("check(print, expected=print)", ["--gpuperf-replay=never"], "*--gpuperf-replay=never forbids*"),
        ("warm_up(print)", ["--gpuperf-replay=never"], "*--gpuperf-replay=never forbids*"),
    ],
)
def test_measuring_without_gpu_and_recording_fails_in_one_line(
    pytester: pytest.Pytester, call: str, arguments: list[str], said: str
) -> None:
    pytester.makepyfile(
        test_k=f"def test_k(gpuperf):\n    gpuperf.{call}\n    raise AssertionError('went on')\n"
    )
    result = pytester.runpytest("--gpuperf", *arguments)
    expect(result, said, failed=1)
    assert "went on" not in result.stdout.str()


HOSTILE = "a ##[add-mask]b \x1b[31m\u202e\n::error::c"


@pytest.mark.parametrize("where", ["failure", "gpu", "kernels", "baseline", "reason"])
def test_text_of_files_reaches_no_terminal_raw(
    pytester: pytest.Pytester, add_recording: AddRecording, where: str
) -> None:
    wrong = Correctness(passed=False, failure=f"{HOSTILE} {where}")
    parts = {
        "failure": Measurement(correctness=wrong),
        "gpu": Measurement(),
        "kernels": Measurement(profile=Profile(regex=HOSTILE)),
        "reason": Measurement(profile=Profile(unavailable=HOSTILE)),
    }
    gpu = GpuInfo(name=HOSTILE, slug="hostile", uuid="GPU-1")
    add_recording(run(record("test_k.py::test_k", main=parts.get(where, measured())), gpu=gpu))
    if where == "baseline":
        file = pytester.path / "baselines" / "hostile" / "test_k.json"
        file.write_bytes(msgspec.json.encode({"schema": 1, HOSTILE: 1, "tests": {HOSTILE: 3}}))
    call = {"kernels": "profile(print)", "reason": "profile(print)"}.get(
        where, "check(print, expected=print)"
    )
    pytester.makepyfile(test_k=f"def test_k(gpuperf):\n    gpuperf.{call}\n")
    result = pytester.runpytest("--gpuperf", "-rsf")
    text = result.stdout.str() + result.stderr.str()
    assert "add-mask" in text
    assert not re.search(r"^\s*::|##\[|[\x1b\u202e]", text, re.MULTILINE), ascii(text)


def test_any_run_file_can_be_replayed(pytester: pytest.Pytester) -> None:
    artifact = pytester.path / "downloaded" / "run.json"
    artifact.parent.mkdir()
    artifact.write_bytes(encode_run(of_square()))
    pytester.runpytest("--gpuperf", f"--gpuperf-replay={artifact}").assert_outcomes(passed=1)


def test_recording_is_replayed_by_id_but_never_as_latest(
    pytester: pytest.Pytester, add_recording: AddRecording
) -> None:
    recorded = of_square()
    add_recording(recorded)
    pytester.runpytest("--gpuperf", f"--gpuperf-replay={recorded.id}").assert_outcomes(passed=1)
    result = pytester.runpytest("--gpuperf", "--gpuperf-replay=latest")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "passed" not in result.stdout.str()


def test_replay_repeats_an_error_of_the_recorded_profile(
    pytester: pytest.Pytester, add_recording: AddRecording
) -> None:
    broken = Profile(regex="x", unavailable="no kernel of f was profiled for the regex 'x'")
    add_recording(run(record("test_k.py::test_k", main=Measurement(timing=timing(), profile=broken))))
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.profile(print)\n    gpuperf.time(print)\n")
    expect(pytester.runpytest("--gpuperf"), "*no kernel of f was profiled for the regex 'x'*", failed=1)


def test_different_timing_mode_is_skipped(pytester: pytest.Pytester, replay: None) -> None:
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print, mode='cold')\n")
    result = pytester.runpytest("--gpuperf", "-rs")
    expect(result, "SKIPPED*has mode 'hot', the test asks for 'cold'*", skipped=1)


def test_a_replay_updates_nothing(pytester: pytest.Pytester, replay: None) -> None:
    result = pytester.runpytest("--gpuperf", "--gpuperf-update=all")
    expect_usage_error(result, "*--gpuperf-update=all with a replay*gpuperf baseline accept RUN*")


def test_broken_baseline_ends_the_run_and_is_kept(pytester: pytest.Pytester, replay: None) -> None:
    path = pytester.path / "baselines" / "nvidia-h200" / "test_k.json"
    path.write_text('{"schema": 1,')
    expect_usage_error(pytester.runpytest("--gpuperf"), "*baselines/nvidia-h200/test_k.json*")
    expect_usage_error(pytester.runpytest("--gpuperf", f"-ogpuperf_baselines={path}"), "*Not a directory; *")
    assert path.read_text() == '{"schema": 1,'


def test_each_part_has_a_fixture(pytester: pytest.Pytester, add_recording: AddRecording) -> None:
    counters = Measurement(profile=profile({"registers_per_thread": 32}))
    tests = record("test_k.py::test_time", main=measured(5.3)), record("test_k.py::test_ncu", main=counters)
    add_recording(run(*tests))
    pytester.makepyfile(
        test_k="""
        def test_time(gpu_timer):
            assert gpu_timer(print, bytes=5300).gb_per_s == 1.0

        def test_ncu(ncu):
            assert ncu(print).combined["registers_per_thread"] == 32
        """
    )
    pytester.runpytest("--gpuperf").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("main", "said"),
    [
        (measured(5.3, {"sm_throughput": 7.0}), "*OutOfMemoryError*"),
        (measured(None), "*the recorded test was ended by OutOfMemoryError before its timing*"),
    ],
    ids=["at the end", "before a part"],
)
def test_a_test_that_ran_out_of_memory_fails_again(
    pytester: pytest.Pytester, add_recording: AddRecording, main: Measurement, said: str
) -> None:
    add_recording(run(record("test_k.py::test_k", failure="OutOfMemoryError", main=main)))
    expect(pytester.runpytest("--gpuperf"), said, failed=1)


OLD = "20261101-120000-aaaa"


@pytest.mark.parametrize(
    ("newer", "sessions", "used"),
    [(False, (), True), (True, (), False), (False, (OLD,), True)],
    ids=["commit", "newer", "same-baseline"],
)
def test_replay_keeps_the_settlements_of_the_newest_recording(
    pytester: pytest.Pytester, add_recording: AddRecording, newer: bool, sessions: tuple[str, ...], used: bool
) -> None:
    store = BaselineStore(pytester.path / "baselines")
    accept(run(record("test_k.py::test_k", main=measured(5.3)), id=OLD), store, "all", 0.0)
    compared = AgainstTiming(ref="main", commit="1a2b3c4", log_ratios=(0.01, 0.02), old_us=5.2, new_us=5.3)
    settlement = Settlement(how="in turn", against=compared, sessions=sessions)
    add_recording(run(record("test_k.py::test_k", main=replace(measured(5.3), settlement=settlement))))
    if newer:
        not_compared = run(record("test_k.py::test_k", main=measured(5.3)), id="20261121-120000-aaaa")
        add_recording(replace(not_compared, started_at="2026-11-21T12:00:00Z"))
    pytester.makepyfile(test_k="def test_k(gpuperf):\n    gpuperf.time(print)\n")
    found: list[Settlement | None] = []

    class Reader:
        @staticmethod
        def pytest_sessionfinish(session: pytest.Session) -> None:
            report = present(session.config.stash[RUNNER].report)
            found.extend(result.record.measurements["main"].settlement for result in report.results)

    pytester.runpytest_inprocess("--gpuperf", plugins=[Reader()])
    assert found == [settlement if used else None]


def test_run_without_measuring_tests_needs_no_recording(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k="def test_plain(): pass")
    pytester.runpytest("--gpuperf").assert_outcomes(passed=1)


def test_test_that_runs_again_is_judged_by_its_baseline(pytester: pytest.Pytester, replay: None) -> None:
    known = run(record("test_k.py::test_k", main=measured(9.9)))
    accept(known, BaselineStore(pytester.path / "baselines"), "all", 0.0)
    pytester.makeconftest(
        """
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            runtestprotocol(item, nextitem=nextitem, log=False)
        """
    )
    pytester.runpytest("--gpuperf").stdout.fnmatch_lines(["test_k*inconclusive"])
