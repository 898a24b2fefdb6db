"""Costs of runs at two commits: the order of the parts, the time limit, and the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks import costs
from benchmarks.costs import (
    AHEAD,
    Cost,
    Results,
    Runs,
    ended_tests,
    joined,
    measure,
    report,
)
from pytest_gpuperf.records import NO_GPU, Environment, Toolchain

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.costs import Part, Run


HERE = Environment(gpu=NO_GPU, toolchain=Toolchain())


def measured(seconds: float) -> list[Cost]:
    """Measure two commits whose runs take 10 s."""
    now = [0.0]

    def run(_commit: str, _part: Part, left: float) -> Run:
        took = min(10.0, left)
        now[0] += took
        return 5 * (took == 10), 0, took, took < 10

    found: list[Cost] = []
    parts: list[Part] = ["cold", "warm", "against HEAD"]
    measure(["old", "new"], seconds, found.append, run, clock=lambda: now[0], parts=parts)
    return found


def test_both_commits_run_a_part_before_the_next() -> None:
    found = measured(1000)
    assert [(cost.part, cost.commit) for cost in found[:3]] == [
        ("cold", "old"),
        ("cold", "new"),
        ("warm", "old"),
    ]
    assert len(found) == 2 * 3


def test_files_of_two_gpus_make_one_table() -> None:
    found = measured(1000)
    one, other = (
        Results(
            schema=1, date="", environment=HERE, costs=tuple(each for each in found if each.commit == commit)
        )
        for commit in ("old", "new")
    )
    assert report(joined([one, other])).splitlines()[0] == "|part|old|new|"


def test_all_suites_run_whatever_tests_are_chosen(tmp_path: Path) -> None:
    tree = tmp_path / "old"
    (tree / "suites").mkdir(parents=True)
    (tree / "pytest_gpuperf").mkdir()
    (tree / "pytest_gpuperf" / "__init__.py").touch()
    (tree / "pytest_gpuperf" / "plugin.py").write_text(
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--gpuperf', action='store_true')\n"
        "    parser.addini('gpuperf_baselines', '')\n"
        "    parser.addoption('--gpuperf-update')\n"
        "def pytest_configure(config):\n"
        "    import pathlib\n"
        "    assert not list(pathlib.Path(config.getini('gpuperf_baselines')).iterdir())\n"
    )
    (tree / "pyproject.toml").write_text('gpuperf = "pytest_gpuperf.plugin"\n')
    (tree / "suites" / "test_two.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    (tree / "suites" / "test_new.py").write_text("def test_c(): pass\n")
    assert Runs(tmp_path, ["nothing"])("old", "suites, cold", 60)[0] == 3
    chosen = Runs(tmp_path, ["nothing"], suites=["suites/test_two.py"], logs=tree)
    assert chosen("old", "suites, cold", 60)[0] == 2
    assert "2 passed" in (tree / "old_suites_cold.log").read_text()


def test_checks_ahead_begin_with_empty_caches_and_measure_nothing(tmp_path: Path) -> None:
    tree = tmp_path / "old"
    plugin = tree / "pytest_gpuperf" / "plugin.py"
    (tree / "suites").mkdir(parents=True)
    plugin.parent.mkdir()
    (plugin.parent / "__init__.py").touch()
    plugin.write_text(
        "def pytest_addoption(parser):\n"
        "    parser.addini('gpuperf_baselines', '')\n"
        "    parser.addini('gpuperf_check', '')\n"
    )
    (tree / "pyproject.toml").write_text('gpuperf = "pytest_gpuperf.plugin"\n')
    (tree / "suites" / "test_one.py").write_text(
        "import os, pathlib\n"
        "def test_a(pytestconfig):\n"
        "    assert pytestconfig.getini('gpuperf_check') == 'always'\n"
        "    assert not pathlib.Path(os.environ['TRITON_CACHE_DIR']).exists()\n"
    )
    (tmp_path / "caches" / "old" / "TRITON_CACHE_DIR").mkdir(parents=True)
    assert Runs(tmp_path, [])("old", AHEAD, 60)[:2] == (1, 0)


def test_last_run_is_cut_off_when_the_time_is_up() -> None:
    found = measured(34)
    assert [(cost.seconds, cost.cut_off) for cost in found] == [(10, False)] * 3 + [(4, True)]


def test_table_marks_runs_that_were_cut_off() -> None:
    results = Results(
        schema=1,
        date="",
        environment=HERE,
        costs=tuple(measured(34)),
    )
    lines = report(results).splitlines()
    assert lines[0] == "|part|old|new|"
    assert lines[2:] == ["|cold|10 (2.0)|10 (2.0)|", "|warm|10 (2.0)|> 4|"]


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("..F\n1 failed, 2 passed, 1 skipped in 3.21s\n", (3, 1)),
        ("1 failed, 2 passed, 3 errors in 3.21s\n", (6, 4)),
        ("12 passed in 61.20s (0:01:01)", (12, 0)),
        ("5 passed", (0, 0)),
    ],
)
def test_ended_tests_are_counted(output: str, count: tuple[int, int]) -> None:
    assert ended_tests(output) == count


def test_table_marks_runs_with_failed_tests() -> None:
    cost = Cost(commit="new", part="warm", tests=5, failed=1, seconds=10, cut_off=False)
    results = Results(schema=1, date="", environment=HERE, costs=(cost,))
    assert report(results).splitlines()[2] == "|warm|10 (2.0, 1 failed)|"


def test_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    tree = tmp_path / "c0ffee1"
    tree.mkdir()
    (tree / "pyproject.toml").write_text('gpuperf = "pytest_gpuperf.plugin.entry"\n', encoding="utf-8")
    tests, _, seconds, cut_off = Runs(tmp_path, ["."])("c0ffee1", "cold", 0.01)
    assert (tests, cut_off) == (0, True)
    assert seconds < 30


def test_first_verdict_is_the_median_after_one_more_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "pyproject.toml").write_text('gpuperf = "pytest_gpuperf.plugin.entry"\n')
    now, took, commands = [0.0], [9.0, 1.0, 3.0, 2.0], list[list[str]]()

    def run_child(command: list[str], *, cwd: Path, log: Path, **_: object) -> None:
        assert (cwd / command[-1]).is_file()
        now[0] += took[len(commands)]
        commands.append(command)
        log.write_text("1 passed in 1.00s\n")

    monkeypatch.setattr(costs, "run_child", run_child)
    monkeypatch.setattr("benchmarks.costs.time.monotonic", lambda: now[0])
    assert Runs(tmp_path, [])("new", "one test", 60) == (1, 0, 2.0, False)
    commands.clear()
    assert Runs(tmp_path, [])("new", "script with do_bench", 60)[2] == 2.0
    assert {tuple(command[1:]) for command in commands} == {("do_bench.py",)}
