"""Tests spread over several GPUs, a process for each, and a replay by several processes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

import fake_ncu
from run_results import expect, expect_usage_error
from session_builders import run_of

if TYPE_CHECKING:
    from pathlib import Path


pytest.importorskip("xdist")
RUN = ("-p", "xdist", "-p", "fake_gpu", "--gpuperf", "--gpuperf-counters=off")
SUITE = """
import os
import pytest

@pytest.mark.parametrize("number", range(6))
def test_time(gpuperf, number):
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {number}\\n")
    gpuperf.time(lambda: 5.0 + number)
"""


@pytest.fixture(autouse=True)
def seen(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, fake_gpu_runs: None) -> Path:
    """Make a suite, and return the file in which each of its tests notes its GPU and its number."""
    pytester.makepyfile(test_k=SUITE)
    monkeypatch.setenv("SEEN", str(pytester.path / "seen"))
    monkeypatch.setenv("FAKE_GPUS", "2")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return pytester.path / "seen"


def gpus_of(seen: Path) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for line in seen.read_text(encoding="utf-8").splitlines():
        gpu, number = line.split()
        found.setdefault(gpu, set()).add(int(number))
    return found


@pytest.mark.parametrize("asked", ["-n2", "-nauto"])
def test_each_worker_has_a_gpu_and_its_own_tests(pytester: pytest.Pytester, seen: Path, asked: str) -> None:
    pytester.runpytest_subprocess(*RUN, asked).assert_outcomes(passed=6)
    found = gpus_of(seen)
    assert found.keys() == {"GPU-0", "GPU-1"}
    assert found["GPU-0"] | found["GPU-1"] == set(range(6))
    assert not found["GPU-0"] & found["GPU-1"]


def test_one_run_has_all_results_in_order(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*RUN, "-n2", "-v")
    result.stdout.fnmatch_lines_random(["*gw0* PASSED test_k.py::test_time?0?*", "*gw1* PASSED *"])
    run = run_of(pytester.path)
    assert run.complete
    assert [test.nodeid for test in run.tests] == [f"test_k.py::test_time[{number}]" for number in range(6)]
    assert {test.gpu_uuid for test in run.tests} == {"GPU-0", "GPU-1"}
    assert result.stdout.str().count("run written to") == 1


def test_worker_reads_counters_of_a_test_given_to_another(pytester: pytest.Pytester, seen: Path) -> None:
    calls = """
    time.sleep(0.8 * (os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1"))
    def counted(): return 5.0
    counted.counters = {"registers_per_thread": 32.0}
    gpuperf.profile(counted)
"""
    pytester.makepyfile(test_k=SUITE.replace("import os", "import os, time") + calls)
    result = pytester.runpytest_subprocess(*RUN, "--gpuperf-counters=auto", "-n2")
    result.assert_outcomes(passed=6)
    assert len(gpus_of(seen)["GPU-0"]) > 3


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (("-n3",), "*-n 3 asks for more processes than there are GPUs (2)*type `pytest --gpuperf -n 2`*"),
        (("-n2", "-s"), "*-s needs the process of the tests, and -n 2 starts others; leave one of them out*"),
        (("-n2", "--dist=loadfile"), "*--gpuperf knows of pytest-xdist's modes only -n*"),
        *(
            ((f"--gpuperf-shard={shard}",), f"*--gpuperf-shard is '{shard}'; expected a part and the number*")
            for shard in ("0/2", "3/2", "2", "a/b")
        ),
    ],
)
def test_impossible_choice_is_one_line(pytester: pytest.Pytester, asked: tuple[str, ...], line: str) -> None:
    expect_usage_error(pytester.runpytest_subprocess(*RUN, *asked), line)


def test_crash_costs_one_test_and_the_new_process_has_its_gpu(pytester: pytest.Pytester, seen: Path) -> None:
    pytester.makepyfile(test_k=f"{SUITE}    if number == 2: os._exit(3)\n")
    result = pytester.runpytest_subprocess(*RUN, "-n2")
    expect(result, "*test_time?2? ended its process with exit status 3;*", passed=5, failed=1)
    found = gpus_of(seen)
    assert found.keys() == {"GPU-0", "GPU-1"}
    assert not found["GPU-0"] & found["GPU-1"]
    assert len(run_of(pytester.path).tests) == 5


def test_first_failure_ends_all_workers(pytester: pytest.Pytester, seen: Path) -> None:
    pytester.makepyfile(
        test_k=f"{SUITE}    time.sleep(0.2 * number); assert number\n".replace("import os", "import os, time")
    )
    result = pytester.runpytest_subprocess(*RUN, "-n2", "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert len(seen.read_text(encoding="utf-8").splitlines()) < 6
    assert not run_of(pytester.path).complete


def test_each_worker_profiles_its_own_tests(pytester: pytest.Pytester) -> None:
    ncu = fake_ncu.install(pytester.path, "runs the program")
    options = ("--gpuperf-counters=ncu", f"-ogpuperf_ncu={ncu}")
    result = pytester.runpytest_subprocess(*RUN, *options, "-n2")
    assert result.stdout.str().count("profiles 3 tests: done") == 2
    for log in pytester.path.rglob("pytest.log"):
        assert "3 passed" in log.read_text(encoding="utf-8")
    assert not [*pytester.path.rglob("passes-*.msgpack")]


def test_replay_by_two_processes_has_the_same_verdicts(pytester: pytest.Pytester) -> None:
    pytester.runpytest_subprocess(*RUN).assert_outcomes(passed=6)
    replay = ("--gpuperf", "--gpuperf-replay=latest", "-p", "xdist")
    tables = []
    for spread in ((), ("-n2",)):
        result = pytester.runpytest_subprocess(*replay, *spread, "--junitxml=results.xml")
        result.assert_outcomes(passed=6)
        found = ElementTree.parse(pytester.path / "results.xml").iter("property")
        tables.append(sorted((one.attrib["name"], one.attrib["value"]) for one in found))
    assert tables[0] == tables[1]


@pytest.mark.parametrize("option", ["--collect-only", "--markers"])
def test_option_without_tests_starts_no_process(pytester: pytest.Pytester, seen: Path, option: str) -> None:
    assert pytester.runpytest_subprocess(*RUN, "-n2", option).ret == 0
    assert not seen.exists()


def test_deselected_tests_may_be_looked_into(pytester: pytest.Pytester) -> None:
    """Hypothesis's plugin does so."""
    pytester.makeconftest(
        """
        def pytest_terminal_summary(terminalreporter):
            for counted in terminalreporter.stats.values():
                list(map(vars, counted))
        """
    )
    result = pytester.runpytest_subprocess(*RUN, "-k", "0")
    result.assert_outcomes(passed=1, deselected=5)
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_shards_have_each_test_once(pytester: pytest.Pytester, seen: Path) -> None:
    for shard in ("1/2", "2/2"):
        options = f"--gpuperf-shard={shard}", "-n2", "--gpuperf-json=v.json"
        pytester.runpytest_subprocess(*RUN, *options).assert_outcomes(passed=3, deselected=3)
        assert '"skipped":[]' in (pytester.path / "v.json").read_text()
    numbers = [int(line.split()[1]) for line in seen.read_text(encoding="utf-8").splitlines()]
    assert sorted(numbers) == [*range(6)]


def test_shards_of_two_models_of_gpu_have_each_test_once(pytester: pytest.Pytester) -> None:
    """All durations count: those of its own model would give each machine other parts.

    Tests that measure are divided by themselves: a part without one would fail.
    """
    pytester.makepyfile(test_a="def test_plain(): pass")
    path = pytester.mkdir("baselines") / "nvidia-b200" / "test_k.json"
    path.parent.mkdir()
    tests = {f"test_k.py::test_time[{number}]": {"seconds": 60 if number == 0 else 1} for number in range(6)}
    path.write_text(json.dumps({"schema": 1, "gpu": {"slug": "nvidia-b200"}, "tests": tests}))
    pytester.runpytest_subprocess(*RUN, "-n0", "--gpuperf-shard=1/2").assert_outcomes(passed=2, deselected=5)


def test_broken_baseline_of_another_suite_costs_only_its_durations(pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("baselines") / "nvidia-h200"
    folder.mkdir()
    (folder / "test_a.json").write_text("{", encoding="utf-8")
    pytester.runpytest_subprocess(*RUN, "-n2").assert_outcomes(passed=6)
    result = pytester.runpytest_subprocess(*RUN, "--gpuperf-shard=1/2", "-n0")
    expect_usage_error(result, "ERROR: gpuperf: *test_a.json*")
