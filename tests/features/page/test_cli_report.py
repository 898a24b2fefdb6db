from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from command_line import gpuperf
from pytest_gpuperf.baseline.acceptance import accept
from pytest_gpuperf.baseline.store import BaselineStore
from pytest_gpuperf.cli.project import find_project
from pytest_gpuperf.records.run_store import RunStore, recordings
from run_builders import one_test, run

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
    assert done.output.startswith("wrote report.html (1 test, 1 row) of 2026")
    page = Path("report.html").read_text(encoding="utf-8")
    assert "1 inconclusive" in page
    assert "20.0&nbsp;% slower: 5 → 6&nbsp;µs (" in page


def test_run_without_tests_is_an_error(project: Path) -> None:
    keep(project, run())
    done = report()
    assert (done.exit_code, "no test was judged" in done.output) == (2, True)


def test_hundred_tests_take_at_most_400_kilobytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    largest = max(recordings(find_project().baselines), key=lambda path: path.stat().st_size)
    output = tmp_path / "report.html"
    assert report(str(largest), output=str(output)).exit_code == 0
    tests = largest.read_text(encoding="utf-8").count('\n{"nodeid"')
    assert tests > 100
    assert output.stat().st_size <= 400_000 * tests / 100
