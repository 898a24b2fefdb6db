"""Time of a test compared with its sessions: from the screen to pytest's verdict."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from command_line import gpuperf
from present import present
from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.records import (
    Accuracy,
    Correctness,
    Fingerprint,
    GpuInfo,
    LaunchedCode,
    LaunchedKernel,
    Measurement,
    Run,
    Timing,
    Trace,
    Verification,
    Workload,
)
from run_builders import in_turn, measured, profile, queued, record, run, timing
from run_results import expect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_gpuperf.records import MetricValue
    from runs_of_pytest import AddRecording

NODEID = "test_k.py::test_k"
TEST = "def test_k(gpuperf):\n    gpuperf.time(print)\n    gpuperf.profile(print)\n"
TIMED = "def test_k(gpuperf):\n    gpuperf.time(print)"
COUNTED = "def test_k(gpuperf): gpuperf.profile(print)"
MARKED = f"import pytest\n@pytest.mark.gpuperf({{}})\n{TEST}"
TRACED = "def test_k(gpuperf): gpuperf.trace(print)"
CHECKED = "def test_k(gpuperf): gpuperf.check(print, expected=print)"


class Project:
    """A suite with one test, baselines and recordings."""

    def __init__(self, pytester: pytest.Pytester, add_recording: AddRecording) -> None:
        self._pytester = pytester
        self._add = add_recording
        self._numbers = itertools.count(1)
        self.store = BaselineStore(pytester.path / "baselines", state=pytester.path / ".gpuperf")
        pytester.makepyfile(test_k=TEST)

    def session(
        self,
        now: Timing | None,
        counters: Mapping[str, MetricValue],
        card: str = "GPU-1",
        log_ratio: float | None = None,
    ) -> Run:
        number = next(self._numbers)
        gpu = GpuInfo(name="NVIDIA H200", slug="nvidia-h200", uuid=card)
        measurement = Measurement(timing=now, profile=profile(counters))
        if log_ratio is not None:
            ratios = [log_ratio, log_ratio + 1e-4]
            measurement = in_turn(measurement, *ratios, sessions=("20261101-120000-aaaa",))
        started = f"2026-11-{number:02}T12:00:00Z"
        return run(
            record(NODEID, main=measurement), id=f"202611{number:02}-120000-aaaa", gpu=gpu, started_at=started
        )

    def baseline(self, *times_us: float, **counters: MetricValue) -> None:
        runs = [self.session(timing(time_us), counters or {"instructions": 1000.0}) for time_us in times_us]
        accept(runs, self.store, "all", 0.0)

    def judged(
        self,
        time_us: float,
        *options: str,
        card: str = "GPU-1",
        log_ratio: float | None = None,
        **counters: MetricValue,
    ) -> pytest.RunResult:
        now = self.session(timing(time_us), counters or {"instructions": 1000.0}, card, log_ratio)
        return self.recorded(now, *options)

    def recorded(self, now: Run, *options: str) -> pytest.RunResult:
        self._add(now)
        return self.run(*options)

    def run(self, *options: str) -> pytest.RunResult:
        return self._pytester.runpytest("--gpuperf", "-rA", *options)


@pytest.fixture
def project(pytester: pytest.Pytester, add_recording: AddRecording, monkeypatch: Any) -> Project:
    monkeypatch.setenv("COLUMNS", "200")
    return Project(pytester, add_recording)


def accept_suggested(result: pytest.RunResult) -> None:
    """Type the command that a failure suggests."""
    suggested = [one for one in result.outlines if "if this is intended: gpuperf " in one]
    # The summary of pytest cuts long lines.
    (command,) = {one.partition(": gpuperf ")[2] for one in suggested if not one.startswith("FAILED")}
    gpuperf(*command.split(), status=0)


def checked(rms_ulp: float, dtype: str = "float32") -> Correctness:
    error = Accuracy(reference="float64", dtype=dtype, elements=10**6, rms_ulp=rms_ulp)
    return Correctness(passed=True, accuracy=error)


def chosen(**choice: str) -> Measurement:
    return replace(measured(100.0), profile=replace(profile({"waves": 1.0}), **choice))


def called(*arguments: str) -> Measurement:
    return Measurement(timing=timing(100.0), call=Fingerprint(arguments=arguments, mode="hot"))


def settled(*log_ratios: float, **settlement: Any) -> Measurement:
    slower = in_turn(Measurement(timing=timing(105.0)), *log_ratios, sessions=("20261101-120000-aaaa",))
    return replace(slower, settlement=replace(present(slower.settlement), **settlement))


def with_memory(megabytes: float) -> Measurement:
    return Measurement(timing=replace(timing(100.0), work=Workload(peak_memory_mb=megabytes)))


TIME = Measurement(timing=timing(100.0))
FRESH = (105.0, 105.1, 105.2)


@pytest.mark.parametrize(
    ("before", "now", "body"),
    [
        (TIME, settled(0.05, 0.0501), TIMED),
        (TIME, settled(0.0, 0.0001, fresh_us=FRESH), TIMED),
        (TIME, settled(how="fresh", reason="not committed", fresh_us=FRESH), TIMED),
        (TIME, settled(-0.02, 0.03, 0.02, -0.03), TIMED),
        (TIME, settled(how="impossible", reason="no time"), TIMED),
        (with_memory(8.0), with_memory(9.0), TIMED),
        (Measurement(trace=Trace(launches=1)), Measurement(trace=Trace(launches=2)), TRACED),
        (Measurement(correctness=checked(0.3)), Measurement(correctness=checked(0.3, "float16")), CHECKED),
        (replace(TIME, correctness=checked(0.3)), TIME, TIMED),
        (Measurement(timing=timing(100.0), trace=Trace(launches=1)), TIME, TIMED),
        (TIME, Measurement(timing=replace(timing(100.0), source="cupti")), TIMED),
        (measured(100.0, {"registers_per_thread": 32}), measured(100.0, {"registers_per_thread": 64}), TEST),
        (Measurement(correctness=checked(0.3)), Measurement(correctness=checked(9.0)), CHECKED),
        (TIME, queued("it synchronises"), TIMED),
        (called("float32"), called(), TIMED),
        (measured(100.0, {"waves": 1.0}), TIME, TIMED),
        (measured(100.0, {"waves": 1.0}), Measurement(profile=profile({"waves": 1.0})), COUNTED),
        (TIME, Measurement(timing=timing(200.0, "cold")), TIMED),
        (measured(100.0, {"stall.barrier": 1.0}), chosen(preset="launch"), MARKED.format("preset='launch'")),
        (measured(100.0, {"waves": 1.0}), chosen(launches="last"), MARKED.format("launches='last'")),
    ],
    ids=[
        *("slower in turn", "toolchain", "fresh processes", "unclear in turn", "not settled", "memory"),
        *("launches", "narrower type", "lost accuracy", "lost trace", "another source"),
        *("exact counter", "accuracy", "no longer captured", "another call", "lost counters", "lost time"),
        *("another mode", "another preset", "other launches"),
    ],
)
def test_failure_goes_away_by_the_command_that_it_suggests(
    project: Project, pytester: pytest.Pytester, before: Measurement, now: Measurement, body: str
) -> None:
    first, second = (
        replace(project.session(None, {}), tests=(record(NODEID, main=one),)) for one in (before, now)
    )
    first.environment.toolchain.packages["kernels"], second.environment.toolchain.packages["kernels"] = "12"
    accept(first, project.store, "all", 0.0)
    pytester.makepyfile(test_k=body)
    failed = project.recorded(second, "--gpuperf-strict")
    failed.assert_outcomes(failed=1)
    accept_suggested(failed)
    project.run("--gpuperf-strict").assert_outcomes(passed=1)


# The recording still has the call, so accepting it would change nothing.
@pytest.mark.parametrize(
    ("asks", "step"),
    [
        ("", "*--gpuperf-replay=never --gpuperf-update=changed test_k.py"),
        ("gpuperf", "*measured nothing; *, or no fixture"),
    ],
)
def test_call_that_is_gone_fails(project: Project, pytester: pytest.Pytester, asks: str, step: str) -> None:
    project.baseline(100.0)
    project.judged(100.0)
    pytester.makepyfile(test_k=f"def test_k({asks}): pass\ndef test_other(gpuperf): gpuperf.time(len)\n")
    expect(project.run(), step, failed=1, skipped=1)


def test_plain_test_outside_of_the_rootdir_is_left_alone(project: Project, tmp_path: Path) -> None:
    project.baseline(100.0)
    other = tmp_path / "outside" / "test_out.py"
    other.parent.mkdir()
    other.write_text("def test_out(): pass\n")
    project.judged(100.0, "--rootdir=.", "test_k.py", str(other)).assert_outcomes(passed=2)


def test_undecided_time_warns(project: Project) -> None:
    project.baseline(100.0)
    expect(
        project.judged(101.0),
        "*PytestWarning: gpuperf: inconclusive: 1.0 % slower: 100 → 101 µs (0.5 to *; 1 stored session*)",
        "gpuperf: 1 slowdown not decided: pytest --gpuperf on this model of GPU times old and new code*",
        passed=1,
        warnings=1,
    )


@pytest.mark.parametrize("end", ["pytest.skip('x')", "pytest.xfail('x')", "raise unittest.SkipTest('x')"])
def test_skip_after_a_slow_time_hides_nothing(project: Project, pytester: pytest.Pytester, end: str) -> None:
    project.baseline(100.0)
    pytester.makepyfile(test_k=f"import pytest, unittest\n{TIMED}\n    {end}\n    gpuperf.profile(print)")
    ended = "xfailed" if "xfail" in end else "skipped"
    project.judged(100.0).assert_outcomes(**{ended: 1})
    expect(project.judged(150.0), "gpuperf: 1 slowdown not decided*", **{ended: 1}, warnings=1)
    expect(project.run("--gpuperf-strict"), "FAILED * - gpuperf: inconclusive: 50.0 % slower*", failed=1)


def test_skip_by_a_fixture_hides_no_slow_time(project: Project, pytester: pytest.Pytester) -> None:
    project.baseline(100.0)
    fixture = f"@pytest.fixture\n{TIMED.replace('test_k', 'rate')}\n    pytest.skip('x')"
    pytester.makepyfile(test_k=f"import pytest\n{fixture}\ndef test_k(rate): pass")
    expect(project.judged(150.0), "gpuperf: 1 slowdown not decided*", skipped=1, warnings=1)
    strict = project.run("--gpuperf-strict")
    expect(strict, "ERROR * - gpuperf: inconclusive: 50.0 % slower*", skipped=1, errors=1)


def test_doubted_time_warns_and_is_counted(project: Project, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_k=TIMED)
    doubted = replace(timing(100.0), verification=Verification(doubts=("it is quick",)))
    result = project.recorded(project.session(doubted, {}))
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*PytestWarning: gpuperf: the time is doubted: it is quick", "gpuperf: 1 time doubted"]
    )
    project.run("-Werror").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("card", "cause"), [("GPU-2", "another card"), ("GPU-1", "the stored session is off")]
)
def test_drifted_time_passes_with_the_command_that_renews_it(
    project: Project, pytester: pytest.Pytester, card: str, cause: str
) -> None:
    pytester.makepyfile(test_k=TIMED)
    code = LaunchedCode(kernels=(LaunchedKernel(name="k", code="a" * 64),))
    first, second = (
        replace(one, tests=(record(NODEID, main=replace(one.tests[0].measurements["main"], code=code)),))
        for one in (project.session(timing(100.0), {}), project.session(timing(103.0), {}, card, 0.0))
    )
    accept(first, project.store, "all", 0.0)
    drifted = project.recorded(second, "--gpuperf-strict", "-v")
    drifted.assert_outcomes(passed=1, warnings=1)
    drifted.stdout.fnmatch_lines(
        ["*pass (drifted)*", f"gpuperf: 1 test moved by 3 %, {cause}: gpuperf baseline accept base*"]
    )
    accept_suggested(drifted)
    project.run("--gpuperf-strict").assert_outcomes(passed=1, warnings=0)


@pytest.mark.parametrize(("card", "passed"), [("GPU-2", 1), ("GPU-1", 0)], ids=["drifted", "undecided"])
def test_warning_as_an_error_fails_no_drifted_test(project: Project, card: str, passed: int) -> None:
    project.baseline(100.0)
    log_ratio = 0.0 if passed else None
    result = project.judged(103.0, "-Werror", card=card, log_ratio=log_ratio)
    result.assert_outcomes(passed=passed, failed=1 - passed)
    assert "internal error" not in result.stdout.str()


USER = ("-c", "user.name=a", "-c", "user.email=a@b")


def commit(pytester: pytest.Pytester, *before: Sequence[str]) -> None:
    """Commit the baselines to the project's repository, or nothing, after other steps of git."""
    steps = (["init", "-q"], ["add", "baselines"], [*USER, "commit", "-qm", "x", "--allow-empty"])
    for step in (*before, *steps):
        assert pytester.run("git", *step).ret == 0


@pytest.mark.parametrize("lost", ["deleted", "emptied", "not merged"])
def test_strict_run_fails_if_an_ancestors_baseline_is_gone(
    project: Project, pytester: pytest.Pytester, lost: str
) -> None:
    project.baseline(100.0)
    commit(pytester)
    (path,) = (pytester.path / "baselines").rglob("test_k.json")
    if lost != "deleted":
        path.write_text('{"schema": 1, "gpu": {"slug": "nvidia-h200"}}')
    if lost == "not merged":
        commit(pytester, ["tag", "theirs"], ["checkout", "-q", "--orphan", "ours"])
        commit(pytester, [*USER, "merge", "-q", "-s", "ours", "--allow-unrelated-histories", "theirs"])
    if lost == "deleted":
        (path.parent / "test_other.json").write_text(path.read_text().replace("test_k", "test_other"))
        path.unlink()
    project.judged(100.0).assert_outcomes(passed=1)
    strict = project.run("--gpuperf-strict")
    expect(strict, "*new, although baselines of an ancestor have it*", failed=1)
    accept_suggested(strict)
    project.run("--gpuperf-strict").assert_outcomes(passed=1)


def test_a_recording_is_no_baseline_of_an_ancestor(project: Project, pytester: pytest.Pytester) -> None:
    project.judged(100.0)
    project.recorded(replace(project.session(timing(100.0), {}), tests=(record("test_other.py::test_o"),)))
    commit(pytester)
    result = project.run("--gpuperf-strict")
    result.assert_outcomes(passed=1)
    of_test = "gpuperf baseline accept baselines/nvidia-h200/recordings/20261101-120000-aaaa.json makes one"
    result.stdout.fnmatch_lines([f"*there is no baseline for nvidia-h200 (--gpuperf-strict); {of_test}"])


TWICE = """def test_k(gpuperf):
    for label in ("main", "other"):
        gpuperf.time(print, label=label{mode})
        gpuperf.profile(print, label=label)
"""


@pytest.mark.parametrize("lost", ["values", "time", "label", "mode", "nothing"])
def test_strict_run_fails_for_a_lost_part(project: Project, pytester: pytest.Pytester, lost: str) -> None:
    base, slow = (project.session(timing(us), {"instructions": 1000.0}) for us in (100.0, 150.0))
    before, now = base.tests[0].measurements["main"], slow.tests[0].measurements["main"]
    parts = {"main": before} if lost == "nothing" else {"main": before, "other": before}
    accept(replace(base, tests=(record(NODEID, "", **parts),)), project.store, "all", 0.0)
    commit(pytester)
    (path,) = (pytester.path / "baselines").rglob("test_k.json")
    content = json.loads(path.read_text())
    known = content["tests"][NODEID]["measurements"]
    if lost == "values":
        known["other"] = {}
    if lost == "time":
        del known["other"]["time"]
    if lost == "label":
        del known["other"]
    path.write_text(json.dumps(content))
    pytester.makepyfile(test_k=TWICE.format(mode=", mode='auto' if label == 'main' else 'cold'"))
    if lost != "mode":
        pytester.makepyfile(test_k=TWICE.format(mode=""))
    other = replace(now, timing=timing(150.0, "cold")) if lost == "mode" else now
    result = project.recorded(
        replace(slow, tests=(record(NODEID, main=before, other=other),)), "--gpuperf-strict"
    )
    result.assert_outcomes(failed=lost != "nothing", passed=lost == "nothing")
    if lost != "nothing":
        accept_suggested(result)
        project.run("--gpuperf-strict").assert_outcomes(passed=1)


def test_strict_run_fails_a_new_test_of_a_shallow_clone(project: Project, pytester: pytest.Pytester) -> None:
    project.baseline(100.0)
    (path,) = (pytester.path / "baselines").rglob("test_k.json")
    (path.parent / "test_other.json").write_text(path.read_text().replace("test_k", "test_other"))
    path.unlink()
    commit(pytester)
    commit(pytester)
    project.judged(100.0, "--gpuperf-strict").assert_outcomes(passed=1)
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=pytester.path)
    (pytester.path / ".git" / "shallow").write_bytes(head)
    strict = project.run("--gpuperf-strict")
    expect(strict, "*does not tell if it has lost a baseline*", "*fetch-depth: 0*", failed=1)


def test_strict_run_needs_a_baseline_of_the_gpu_model(project: Project) -> None:
    assert project.judged(100.0).ret == 0
    strict = project.run("--gpuperf-strict")
    assert strict.ret != 0
    line = next(one for one in strict.outlines if "there is no baseline for nvidia-h200" in one)
    command = line.partition("; gpuperf ")[2].removesuffix(" makes one")
    gpuperf(*command.split(), status=0)
    project.run("--gpuperf-strict").assert_outcomes(passed=1)


def test_strict_run_fails_if_a_test_has_vanished(project: Project, pytester: pytest.Pytester) -> None:
    project.baseline(100.0)
    (path,) = (pytester.path / "baselines").rglob("test_k.json")
    content = json.loads(path.read_text())
    left, gone = "test_k.py::test_left", "test_k.py::gone[a b]"
    content["tests"] |= dict.fromkeys((left, gone), content["tests"][NODEID])
    pytester.makepyfile(test_k=f"import pytest\n{TEST}\n@pytest.mark.skip\ndef test_left(): pass\n")
    path.write_text(json.dumps(content))
    assert project.judged(100.0).ret == 0
    for chosen in ([], ["-m", "gpuperf"], ["-k", "not left"], ["--deselect", left], ["--sw"]):
        strict = project.run("--gpuperf-strict", *chosen)
        strict.stdout.fnmatch_lines(
            ["*baselines of 1 tests that do not exist in a test_k.py, such as test_k.py::gone*"]
        )
        assert strict.ret == pytest.ExitCode.USAGE_ERROR
    assert project.run("--gpuperf-strict", "--lf").ret == 0
    command = strict.stdout.str().partition("otherwise type `gpuperf ")[2].partition("`")[0]
    gpuperf(*shlex.split(command), status=0)
    gpuperf(*shlex.split(command), status=2)  # no baseline has it any more
    assert project.run("--gpuperf-strict").ret == 0
    assert [*json.loads(path.read_text())["tests"]] == [NODEID, left]


@pytest.mark.parametrize(
    "suite",
    [
        "import pytest\n@pytest.mark.skip\ndef test_k(gpuperf): pass\n",
        "import pytest\ndef test_k(gpuperf): pytest.skip('no GPU')\n",
        "import pytest\n@pytest.mark.skipif(True, reason='no H200')\ndef test_k(gpuperf): pass\n",
        "import pytest\n@pytest.mark.xfail(run=False)\ndef test_k(gpuperf): pass\n",
        f"import pytest\n@pytest.mark.xfail\n{TEST}    assert not True\n",
        "def test_other(): pass\n",
    ],
    ids=["marked", "skipped", "marked if", "not run", "failed as expected", "without a fixture"],
)
@pytest.mark.parametrize("has_baseline", [False, True])
def test_run_that_judges_nothing_fails(
    project: Project, pytester: pytest.Pytester, suite: str, *, has_baseline: bool
) -> None:
    if has_baseline:
        project.baseline(100.0)
    project.judged(100.0)
    pytester.makepyfile(test_k=suite)
    nothing = project.run()
    assert nothing.ret == pytest.ExitCode.USAGE_ERROR
    nothing.stdout.fnmatch_lines(["*error: no test was judged*"])
