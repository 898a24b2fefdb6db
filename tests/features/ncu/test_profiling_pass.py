"""The profiling pass, with a report recorded on an H200."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

import fake_ncu
from fake_cupti import activity
from pass_progress import no_progress
from process_end import has_gone
from pytest_gpuperf.errors import GpuperfError
from pytest_gpuperf.measure.counters.profiling_pass import ProfilingPass
from pytest_gpuperf.measure.ncu.tool import find_ncu
from pytest_gpuperf.metrics.presets import PRESETS
from pytest_gpuperf.records.call import Call, Selection
from pytest_gpuperf.records.passes import Invocation, PassFolder, SelectedTest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_gpuperf.measure.cupti.activity import Activity
    from pytest_gpuperf.records import Profile
    from pytest_gpuperf.records.call import Launches

SQUARE = "suites/test_square.py::test_square_triton[1823x781]"
GEMM = "suites/test_gemm.py::test_odd_triton[128x128x64]"
CHAIN = "suites/test_chain.py::test_chain"


def run(
    tmp_path: Path,
    behaviour: fake_ncu.Behaviour = "records",
    wanted: Sequence[SelectedTest] = (),
    chip: str = "",
) -> ProfilingPass:
    ncu = find_ncu(str(fake_ncu.install(tmp_path, behaviour)))
    done = ProfilingPass(PassFolder(tmp_path / "pass"), ncu, launched=launched, chip=chip)
    tests = wanted or [SelectedTest(SQUARE, None, PRESETS["default"])]
    done.run(tests, Invocation(["suites"], tmp_path, tmp_path), no_progress)
    return done


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> ProfilingPass:
    """Run the pass once for the tests that only read it."""
    return run(tmp_path_factory.mktemp("recorded"))


def lookup(
    done: ProfilingPass,
    nodeid: str,
    regex: str | None = None,
    *metrics: str,
    label: str = "main",
    launches: Launches = "all",
) -> Profile:
    names = metrics or PRESETS["default"]
    return done.lookup(Call(nodeid, label, print), Selection(regex, launches), names)


def launched(_call: Call) -> list[Activity]:
    return [activity("a_kernel"), activity("b_kernel")]


def arguments(tmp_path: Path) -> list[str]:
    return (tmp_path / "pass" / "arguments").read_text().split("\n")


def requested(tmp_path: Path) -> list[str]:
    found = arguments(tmp_path)
    return found[found.index("--metrics") + 1].split(",")


def test_call_has_the_counters_of_its_range(recorded: ProfilingPass) -> None:
    profile = lookup(recorded, GEMM)
    assert [kernel.name for kernel in profile.kernels] == ["matmul_kernel"]
    assert profile.combined["registers_per_thread"] == 238
    assert profile.combined["occupancy_limiter"] == "shared_mem"
    assert (profile.cache_control, profile.clock_control) == ("all", "none")


def test_two_launches_of_one_call_are_kept_and_combined(recorded: ProfilingPass) -> None:
    profile = lookup(recorded, CHAIN, "square", label="both")
    durations = [kernel.metrics["duration_us"] for kernel in profile.kernels]
    assert durations == [4.896, 4.96]
    assert profile.combined["duration_us"] == pytest.approx(4.896 + 4.96)
    assert profile.combined["kernels"] == 2


def test_regex_without_a_match_names_the_kernels(recorded: ProfilingPass) -> None:
    with pytest.raises(GpuperfError, match=r"no kernel .* regex 'softmax'; these ran: a_kernel, b_kernel"):
        lookup(recorded, SQUARE, "softmax")


def test_metric_without_a_value_is_named(recorded: ProfilingPass) -> None:
    with pytest.raises(GpuperfError, match=r"no value for the metric 'dram__bytes_raed\.sum'"):
        lookup(recorded, SQUARE, None, "dram__bytes_raed.sum")


@pytest.mark.parametrize("name", ["dram_throughput", "stall.barrier"])
def test_short_and_raw_names_can_be_mixed(tmp_path: Path, name: str) -> None:
    profile = lookup(run(tmp_path, wanted=[SelectedTest(SQUARE, None, (name,))]), SQUARE, None, name)
    assert name in profile.combined
    assert name not in requested(tmp_path)


def test_only_wanted_metrics_are_requested_from_ncu(tmp_path: Path) -> None:
    square = SelectedTest(SQUARE, None, ("waves", "l2_hit_rate"))
    run(tmp_path, wanted=[square, SelectedTest(GEMM, None, ("waves",))])
    values = ["launch__waves_per_multiprocessor", "lts__t_sector_hit_rate.pct"]
    assert requested(tmp_path) == [*values, "gpu__time_duration.sum", "lts__t_sectors.sum"]


def test_each_test_keeps_only_its_own_metrics(tmp_path: Path) -> None:
    square = SelectedTest(SQUARE, None, PRESETS["sol"], "sol")
    done = run(tmp_path, wanted=[square, SelectedTest(GEMM, None, PRESETS["stalls"], "stalls")])
    profile = lookup(done, SQUARE, None, *PRESETS["sol"])
    assert profile.preset == "sol"
    assert "sm_throughput" in profile.combined
    assert not any(name.startswith("stall.") for name in profile.combined)
    assert lookup(done, GEMM, None, *PRESETS["stalls"]).preset == "stalls"


def test_names_of_the_chip_are_requested_and_recorded(tmp_path: Path) -> None:
    wanted = SelectedTest(SQUARE, None, ("dram_read_bytes", "stall.gmma", "waves"))
    done = run(tmp_path, wanted=[wanted], chip="gb202")
    assert requested(tmp_path) == ["dram__bytes_op_read.sum", "launch__waves_per_multiprocessor"]
    assert lookup(done, SQUARE).chip == "gb202"


def test_call_that_was_not_reached_says_so(recorded: ProfilingPass) -> None:
    with pytest.raises(GpuperfError, match="did not profile print: it ended with exit status 0 before; see"):
        lookup(recorded, "test_other.py::test_other")


def test_crash_names_the_signal_and_the_log(tmp_path: Path) -> None:
    unavailable = run(tmp_path, "crashes").unavailable
    assert "was ended by signal 11 (Segmentation fault) before any test had run" in unavailable
    assert unavailable.endswith("see pass/pytest.log")


def test_call_chooses_among_the_kernels_of_its_marker(tmp_path: Path) -> None:
    # The report holds the kernel, as if the marker of another test had widened the filter.
    done = run(tmp_path, wanted=[SelectedTest(SQUARE, "gemm", ()), SelectedTest(GEMM)])
    why = "'square' of print finds square_kernel, which kernels='gemm' of the marker leaves"
    with pytest.raises(GpuperfError, match=why):
        lookup(done, SQUARE, "square")


def test_denied_counters_say_what_to_do(tmp_path: Path) -> None:
    profile = lookup(run(tmp_path, "is denied"), SQUARE)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in profile.unavailable
    assert profile.kernels == ()


def test_missing_report_means_no_kernel_matched(tmp_path: Path) -> None:
    with pytest.raises(GpuperfError, match="these ran: a_kernel"):
        lookup(run(tmp_path, "matches nothing"), SQUARE, "softmax")


def test_report_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "writes no report it can read")
    assert "report.ncu-rep holds no kernel" in lookup(done, SQUARE).unavailable


def test_plain_patterns_are_joined_into_one_filter(tmp_path: Path) -> None:
    run(tmp_path, wanted=[SelectedTest(SQUARE, "square_kernel", ()), SelectedTest(GEMM, "matmul|gemm", ())])
    assert "regex:(square_kernel)|(matmul|gemm)" in arguments(tmp_path)


@pytest.mark.parametrize("regex", [None, r"\bsquare"])
def test_special_pattern_removes_the_filter(tmp_path: Path, regex: str | None) -> None:
    run(tmp_path, wanted=[SelectedTest(SQUARE, "square_kernel", ()), SelectedTest(GEMM, regex, ())])
    assert "--kernel-name" not in arguments(tmp_path)


def test_ctrl_c_leaves_no_ncu_behind(tmp_path: Path) -> None:
    ncu = find_ncu(str(fake_ncu.install(tmp_path, "hangs")))
    pid_file = tmp_path / "pass" / "pid"

    def interrupt(_where: str) -> None:
        if pid_file.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ProfilingPass(PassFolder(tmp_path / "pass"), ncu).run(
            [SelectedTest(SQUARE)],
            Invocation(["suites"], tmp_path, tmp_path),
            lambda _title: nullcontext(interrupt),
        )
    assert has_gone(int(pid_file.read_text()), within_s=5)


@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\nsleep 60\n",
        "#!/nowhere/python\n",
        "not a program",
        "#!/bin/sh\nprintf '\\377\\376'\n",
        "#!/bin/sh\necho hello\n",
    ],
    ids=["hangs", "no-interpreter", "not-executable-format", "not-utf-8", "another program"],
)
def test_broken_ncu_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr("pytest_gpuperf.processes.children.VERSION_S", 0.3)
    (tmp_path / "ncu").write_text(script)
    (tmp_path / "ncu").chmod(0o755)
    with pytest.raises(GpuperfError, match="does not answer --version like ncu"):
        find_ncu(str(tmp_path / "ncu"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ncu() is None


def test_path_without_a_program_is_named() -> None:
    with pytest.raises(GpuperfError, match="gpuperf_ncu names '/nowhere/ncu', which cannot be run"):
        find_ncu("/nowhere/ncu")
