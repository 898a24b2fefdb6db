from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from command_line import gpuperf
from pytest_gpuperf.baseline.merge import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli.project import find_project
from pytest_gpuperf.records import GpuInfo
from pytest_gpuperf.records.runs import RunStore, recordings
from run_builders import measured, one_test, record, run

if TYPE_CHECKING:
    import pytest
    from click.testing import Result

    from pytest_gpuperf.records import Run

ROOT = Path(__file__).parents[3]


def report(*arguments: str, output: str = "report.html") -> Result:
    return gpuperf("report", *arguments, "-o", output)


def keep(project: Path, kept: Run) -> Run:
    RunStore(project / ".gpuperf").write(kept)
    return kept


def test_newest_run_is_judged_by_the_baselines(project: Path) -> None:
    first = keep(project, one_test(time_us=5.0))
    accept(first, BaselineStore(project / "baselines"), "all", 0.0)
    keep(project, replace(one_test(time_us=6.0), id="20261121-000000-0000"))
    done = report()
    assert done.output == "wrote report.html (1 test)\n"
    page = Path("report.html").read_text(encoding="utf-8")
    assert "1 inconclusive" in page
    assert "20.0&nbsp;% slower: 5 → 6&nbsp;µs (" in page


def test_other_run_takes_the_place_of_the_baselines(project: Path) -> None:
    before = keep(project, one_test(time_us=5.0, counters={"registers_per_thread": 32}))
    after = one_test(time_us=4.0, counters={"registers_per_thread": 40})
    keep(project, replace(after, id="20261121-000000-0000"))
    assert report("20261121", "--against", before.id).exit_code == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert "1 regressed" in page
    assert f"against run {before.id}" in page
    assert str(project) not in page
    assert not (project / "baselines").exists()


def test_comparison_with_a_run_without_tests_is_refused(project: Path) -> None:
    keep(project, one_test())
    empty = keep(project, run(id="20261119-000000-aaaa"))
    assert "of --against has no tests" in report(one_test().id, "--against", empty.id).stderr


def test_run_of_another_gpu_is_not_compared(project: Path) -> None:
    keep(project, one_test())
    other = keep(project, run(record(), gpu=GpuInfo(name="NVIDIA B200", slug="nvidia-b200"), id="b200"))
    done = report(one_test().id, "--against", other.id)
    assert done.exit_code == 2
    assert "--against is a run of nvidia-b200; expected one of nvidia-h200" in done.output
    assert not Path("report.html").exists()


def test_run_without_tests_is_an_error(project: Path) -> None:
    keep(project, run())
    done = report()
    assert (done.exit_code, "no test was judged" in done.output) == (2, True)


def test_failed_and_wrong_tests_are_shown(project: Path) -> None:
    keep(
        project,
        run(
            record("t/test_a.py::test_wrong", main=measured(correct=False)),
            record("t/test_a.py::test_ended", failure="ValueError"),
        ),
    )
    report()
    page = Path("report.html").read_text(encoding="utf-8")
    assert "off by 3 at (0, 1)" in page
    assert "the test was ended by ValueError" in page


def test_hundred_tests_take_at_most_400_kilobytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    largest = max(recordings(find_project().baselines), key=lambda path: path.stat().st_size)
    output = tmp_path / "report.html"
    assert report(str(largest), output=str(output)).exit_code == 0
    tests = largest.read_text(encoding="utf-8").count('\n{"nodeid"')
    assert tests > 100
    assert output.stat().st_size <= 400_000 * tests / 100
